"""Accumulators whose gradients have contributors, added as they arrive or in a fixed order."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from condacc_bench import implementations

ARRIVAL, IN_ORDER, AT_RANDOM = "arrival", "in order", "at random"


class _Contributions:
    """An accumulator for the cases of cycles, which applies gradients of contributors.

    Each cycle applies the gradients of all contributors, at step 0, to which the take returns.

    Args:
      accumulator: The accumulator.
      count: Number of contributors.
      at_random: Whether the gradients come in an order that is drawn at random.
    """

    def __init__(self, accumulator: Any, count: int, at_random: bool) -> None:
        self._accumulator = accumulator
        self._contributors = self._drawn(count, at_random)

    @staticmethod
    def _drawn(count: int, at_random: bool) -> Iterator[int]:
        # The first order of this seed has as many early gradients as the average of all orders: 5
        # of 8, and 28 of 32.
        random = np.random.default_rng(18)
        for _ in itertools.count():
            yield from random.permutation(count) if at_random else range(count)

    def apply_grad(self, *gradient: Any, local_step: Any) -> tf.Operation:
        contributor = int(next(self._contributors))
        if len(gradient) == 1:
            return self._accumulator.apply_contribution(*gradient, contributor).op
        indices, values, shape = gradient
        return self._accumulator.apply_contribution(indices, values, contributor, shape).op

    def take_grad(self, num_required: int) -> Any:
        taken = self._accumulator.take_grad(num_required)
        with tf.control_dependencies([tf.nest.flatten(taken)[0]]):
            reset = self._accumulator.reset(0)
        with tf.control_dependencies([reset]):
            return tf.nest.map_structure(tf.identity, taken)


def implementation(order: str, count: int) -> implementations.Implementation:
    """Returns this project's accumulators, for cycles of `count` gradients of contributors.

    Args:
      order: How gradients come and are added: `ARRIVAL` adds them as they come, `IN_ORDER` and
          `AT_RANDOM` in the order of their contributors.
      count: Number of gradients of a cycle, all of which must be applied in one step.
    """
    ours = implementations.condacc()

    def made_by(kind: Any) -> Callable[..., Any]:
        def make(*arguments: Any, **options: Any) -> Any:
            if order == ARRIVAL:
                accumulator = kind(*arguments, **options)
            else:
                accumulator = kind.deterministic(count, *arguments, **options)
            return _Contributions(accumulator, count, order == AT_RANDOM)

        return make

    return dataclasses.replace(
        ours, name=order, dense=made_by(ours.dense), sparse=made_by(ours.sparse)
    )
