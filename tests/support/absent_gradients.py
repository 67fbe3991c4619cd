"""Micro-batches of which some have no gradients of some variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
SHAPES = ([3], [4, 2], [])
MicroBatch = list[np.ndarray | None]
OPTIMIZERS: dict[str, Callable] = {
    "adam": lambda: keras.optimizers.Adam(0.1),
    "decay": lambda: keras.optimizers.SGD(0.1, momentum=0.5, weight_decay=0.1),
    "v1": lambda: v1.train.MomentumOptimizer(0.5, 0.5),
}


def make_variables() -> list[tf.Variable]:
    return [tf.Variable(np.ones(shape, np.float32)) for shape in SHAPES]


def micro_batches(*absences: Iterable[int]) -> list[MicroBatch]:
    """Returns micro-batches of integers, of which those at the given positions are None."""
    random = np.random.default_rng(0)
    return [
        [
            None if position in absent else random.integers(-4, 5, shape).astype(np.float32)
            for position, shape in enumerate(SHAPES)
        ]
        for absent in absences
    ]


def as_tensor(gradient: np.ndarray | None) -> tf.Tensor | None:
    return None if gradient is None else tf.constant(gradient)


def expected(optimizer, batches: list[MicroBatch], num_micro_batches: int) -> list[np.ndarray]:
    """Returns the variables after updates by means in which None is zero, or None if all are."""
    variables = make_variables()
    for start in range(0, len(batches), num_micro_batches):
        window = batches[start : start + num_micro_batches]
        pairs = []
        for gradients, variable in zip(zip(*window, strict=True), variables, strict=True):
            present = [gradient for gradient in gradients if gradient is not None]
            pairs.append((sum(present) / len(window) if present else None, variable))
        optimizer.apply_gradients([(as_tensor(mean), variable) for mean, variable in pairs])
    return [variable.numpy() for variable in variables]


class Functions:
    """Calls a function of gradients in a tf.function that is traced for each set of Nones."""

    def __init__(self, function: Callable, run: Callable = lambda call, args: call(*args)) -> None:
        self._function = tf.function(
            lambda gradients, absent: run(self._call, (gradients, absent)), autograph=False
        )
        self._called = function

    def _call(self, gradients, absent):
        present = iter(gradients)
        return self._called([None if is_absent else next(present) for is_absent in absent])

    def __call__(self, gradients):
        present = [gradient for gradient in gradients if gradient is not None]
        return self._function(present, tuple(gradient is None for gradient in gradients))


TASKS = micro_batches(
    *([1], [2], [1], [2]),  # A function that is traced first knows of only one set.
    *([1], [1], [1], [1]),
    *([], [1, 2], [], [2]),
    *([1, 2], [1, 2], [1], [2]),
    *([1, 2], [1, 2], [1, 2], [1, 2]),
)
