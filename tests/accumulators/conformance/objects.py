"""The objects that accumulate gradients, for tests of what all of them must do.

Each file beside this one has one behaviour, and runs it on each object. A new kind of accumulator
gets a line in OBJECTS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import tensorflow as tf

import tf_condacc


class Object(NamedTuple):
    """How an object is made and used. Gradients have one element, and a take is that of two.

    Attributes:
        make: Makes it, and an object for `tf.train.Checkpoint` that has it and its variables.
        apply: Applies a gradient of this value.
        take: Returns the mean of the two gradients that are accumulated.
    """

    make: Callable[..., tuple[Any, tf.Module]]
    apply: Callable[[Any, Any], Any]
    take: Callable[[Any], tf.Tensor]


def _of(kind: type, shape: list[int]) -> Callable[..., tuple[Any, tf.Module]]:
    def make(**options: Any) -> tuple[Any, tf.Module]:
        module = tf.Module()
        module.accumulator = kind(tf.float32, shape, **options)
        return module.accumulator, module

    return make


def _make_micro_batches(**options: Any) -> tuple[Any, tf.Module]:
    module = tf.Module()
    module.variable = tf.Variable([0.0])
    module.accumulator = tf_condacc.GradientAccumulator([module.variable], 2, **options)
    return module.accumulator, module


OBJECTS = {
    "dense": Object(
        _of(tf_condacc.ConditionalAccumulator, [1]),
        lambda acc, value: acc.apply_grad([value], acc.global_step()),
        lambda acc: acc.take_grad(2),
    ),
    "sparse": Object(
        _of(tf_condacc.SparseConditionalAccumulator, [3, 1]),
        lambda acc, value: acc.apply_grad([2], [[value]], None, acc.global_step()),
        lambda acc: acc.take_grad(2).values,
    ),
    "micro-batches": Object(
        _make_micro_batches,
        lambda acc, value: acc.accumulate([tf.reshape(value, [1])]),
        lambda acc: acc.take()[0],
    ),
}
every_object = pytest.mark.parametrize("make, apply, take", OBJECTS.values(), ids=OBJECTS)
