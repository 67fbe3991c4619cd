"""Imitations of the faults that loops have which accumulate gradients by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc._typing import Nested
from tf_condacc.parity import _batches
from tf_condacc.parity._difference import Weights
from tf_condacc.parity._training import Training

_NUM_HALVINGS = 30  # So often the interval is halved that has the limit of a clipping.

Gradients = list[tf.Tensor]
Batch = tuple[Nested, Nested]


class _Loop:
    """A training whose batches are divided, and updates from the gradients of the parts.

    Args:
        training: The training.
        number: Number of parts of a batch.
        is_equal: Whether the parts are of equal size. Otherwise the last one is smaller, or
            missing.
    """

    def __init__(self, training: Training, number: int, is_equal: bool = True) -> None:
        self.model = training.new_model()
        self.number = number
        self._training = training
        self._optimizer = training.optimizer()
        self._is_equal = is_equal
        self._factor = 1.0 if training.reduction == "sum" else 1.0 / number
        self.sums: Gradients = [tf.zeros_like(each) for each in self.values()]

    def values(self) -> list[tf.Tensor]:
        """Returns the values of the variables."""
        return [tf.convert_to_tensor(variable) for variable in self.model.variables]

    def parts(self, batch: Batch) -> list[Batch]:
        """Divides a batch."""
        size = -(-_batches.size(batch) // self.number)
        if self._is_equal:
            return _batches.split(*batch, self.number, "loop")
        starts = range(0, _batches.size(batch), size)
        return [
            tf.nest.map_structure(lambda leaf, at=at: leaf[at : at + size], batch) for at in starts
        ]

    def gradients(self, part: Batch) -> Gradients:
        """Returns the gradients of a part, as it contributes to those of the batch."""
        pairs = self._training.gradients(self.model, *part)
        given = {id(variable): gradient for gradient, variable in pairs if gradient is not None}
        return [
            self._factor * tf.convert_to_tensor(given.get(id(variable), tf.zeros_like(value)))
            for variable, value in zip(self.model.variables, self.values(), strict=True)
        ]

    def update(self, gradients: Gradients) -> None:
        """Makes an update."""
        self._optimizer.apply_gradients(list(zip(gradients, self.model.variables, strict=True)))


Step = Callable[[_Loop, Sequence[Batch]], None]


def imitations(training: Training, number: int, target: Weights) -> Iterator[tuple[str, Weights]]:
    """Yields faults, and the weights that the training has with each, on the CPU.

    Args:
        training: The training.
        number: Number of micro-batches of a batch.
        target: The weights that are to be explained.
    """
    yield (
        "it never updates, as when a Python counter of the micro-batches stands in a function, "
        "which keeps the value that it had when the function was traced",
        [target[0]] * len(target),
    )
    is_divisible = not any(_batches.size(batch) % number for batch in training.batches)
    if not is_divisible:
        unequal = functools.partial(_Loop, training, number, is_equal=False)
        yield (
            "the micro-batches are of unequal sizes and have equal weights. Give "
            "GradientAccumulator their numbers of examples as weights",
            _weights(unequal, _right, training),
        )
        return
    loop = functools.partial(_Loop, training, number)
    for text, step in _FAULTS:
        yield text, _weights(loop, step, training)
    if (clipping := _clipping(loop, training, target)) is not None:
        yield (
            "the gradients of each micro-batch are clipped to a common norm, instead of their "
            "mean. Pass global_clipnorm to GradientAccumulator.apply_gradients",
            _weights(loop, clipping, training),
        )


def _weights(
    make: Callable[[], _Loop], step: Step, training: Training, num_steps: int | None = None
) -> list[list[np.ndarray]]:
    with tf.device("/CPU:0"):
        loop = make()
        weights = [[each.numpy() for each in loop.values()]]
        for batch in list(training.batches)[:num_steps]:
            step(loop, loop.parts(batch))
            weights.append([each.numpy() for each in loop.values()])
    return weights


def _sum(parts: Sequence[Gradients]) -> Gradients:
    return [tf.add_n(list(gradients)) for gradients in zip(*parts, strict=True)]


def _right(loop: _Loop, parts: Sequence[Batch]) -> None:
    loop.update(_sum([loop.gradients(part) for part in parts]))


def _without_reset(loop: _Loop, parts: Sequence[Batch]) -> None:
    loop.sums = _sum([loop.sums, *(loop.gradients(part) for part in parts)])
    loop.update(loop.sums)


def _with_zeros_between(loop: _Loop, parts: Sequence[Batch]) -> None:
    sums = [tf.zeros_like(each) for each in loop.sums]
    for part in parts[:-1]:
        sums = _sum([sums, loop.gradients(part)])
        loop.update([tf.zeros_like(each) for each in sums])
    loop.update(_sum([sums, loop.gradients(parts[-1])]))


def _with_updates_of_each(loop: _Loop, parts: Sequence[Batch], factor: float = 1.0) -> None:
    for part in parts:
        loop.update([factor * each for each in loop.gradients(part)])


def _with_whole_updates_of_each(loop: _Loop, parts: Sequence[Batch]) -> None:
    _with_updates_of_each(loop, parts, float(loop.number))


_FAULTS: list[tuple[str, Step]] = [
    ("the sums of the gradients are not set to zero after an update", _without_reset),
    (
        "gradients of zero are applied between the updates, with which momentum and decay go on",
        _with_zeros_between,
    ),
    ("each micro-batch makes an update of its own", _with_updates_of_each),
    (
        "each micro-batch makes an update of its own, as large as that of a batch",
        _with_whole_updates_of_each,
    ),
]


def _clipping(make: Callable[[], _Loop], training: Training, target: Weights) -> Step | None:
    """Returns a step that clips the gradients of each part and has the target's first update."""

    def step(loop: _Loop, parts: Sequence[Batch], limit: float) -> None:
        limit = limit / loop.number
        clipped = [tf.clip_by_global_norm(loop.gradients(part), limit)[0] for part in parts]
        loop.update(_sum(clipped))

    def size(weights: Any) -> float:
        differences = zip(weights[1], weights[0], strict=True)
        return float(np.sqrt(sum(np.sum(np.square(np.abs(a - b))) for a, b in differences)))

    def first_update(limit: float) -> float:
        return size(_weights(make, functools.partial(step, limit=limit), training, 1))

    wanted, low, high = size(target), 0.0, 1.0
    if wanted >= size(_weights(make, _right, training, 1)):
        return None  # No limit explains so large an update.
    while first_update(high) < wanted and high < np.finfo(np.float32).max / 4:
        low, high = high, 4 * high
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if first_update(middle) < wanted else (low, middle)
    return functools.partial(step, limit=high)
