"""Micro-batches of many small variables: GradientAccumulator, and variables that are added to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from condacc_bench.rounds import seconds_for

_SHAPE = [16, 16]
_CALLS = 5
WAYS = ("weighted", "unweighted", "assign_add")
PLACES = ("eager", "graph")


class OwnLoop:
    """Adds up the gradients of micro-batches. Metric: ``call``, the time of one micro-batch.

    Args:
      way: One of `WAYS`. The last adds the gradients times a weight, as the first does.
      place: One of `PLACES`.
      num_variables: Number of variables.
    """

    def __init__(self, way: str, place: str, num_variables: int) -> None:
        gradients = [tf.ones(_SHAPE) for _ in range(num_variables)]
        make = _assign_add if way == "assign_add" else _accumulate
        weight = None if way == "unweighted" else tf.constant(3.0)
        self._call = functools.partial(make(num_variables), gradients, weight)
        if place == "graph":
            self._call = tf.function(self._call, autograph=False)
        self.measure()

    def measure(self) -> dict[str, float]:
        def run() -> None:
            for _ in range(_CALLS):
                self._call()

        return {"call": seconds_for(run) / _CALLS}

    def close(self) -> None:
        """Does nothing: the sums end with the object."""


def _accumulate(num_variables: int) -> Callable[..., Any]:
    import tf_condacc

    variables = [tf.Variable(tf.zeros(_SHAPE)) for _ in range(num_variables)]
    return tf_condacc.GradientAccumulator(variables, 1 << 30).accumulate


def _assign_add(num_variables: int) -> Callable[..., Any]:
    sums = [tf.Variable(tf.zeros(_SHAPE)) for _ in range(num_variables)]

    def add(gradients: list[tf.Tensor], weight: tf.Tensor) -> None:
        for each, gradient in zip(sums, gradients, strict=True):
            each.assign_add(weight * gradient)

    return add
