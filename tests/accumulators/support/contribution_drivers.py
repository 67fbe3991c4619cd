"""Drivers of our accumulators with contributors, resets and takes of a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import EagerDriver, GraphDriver

v1 = tf.compat.v1
ADDED, STALE, DUPLICATE, AHEAD = range(1, 5)


class ContributionGraphDriver(GraphDriver):
    """A driver of a v1 session, fed through placeholders without a static shape."""

    def _build(self, acc: Any) -> None:
        super()._build(acc)
        self.contributor = v1.placeholder(tf.int64, None)
        gradient = self.gradient, self.contributor, self.number
        self._contribute = acc.apply_contribution(*gradient)
        self._reset = acc.reset(self.number)
        self._take_round = acc.try_take_grad(self.required, global_step=self.number)

    def contribute(self, value: Any, contributor: Any, step: Any = 0) -> int:
        feed = self._gradient_feed(value, step) | {self.contributor: contributor}
        return int(self.run(self._contribute, feed))

    def reset(self, step: Any) -> int:
        return int(self.run(self._reset, {self.number: step}))

    def take_round(self, num_required: Any, step: Any) -> tuple[bool, np.ndarray]:
        feed = {self.required: num_required, self.number: step}
        taken, value = self.run(self._take_round, feed)
        return bool(taken), value


class ContributionEagerDriver(EagerDriver):
    """A driver that calls the methods eagerly."""

    def contribute(self, value: Any, contributor: Any, step: Any = 0) -> int:
        return int(self.accumulator.apply_contribution(self._tensor(value), contributor, step))

    def reset(self, step: Any) -> int:
        return int(self.accumulator.reset(step))

    def take_round(self, num_required: Any, step: Any) -> tuple[bool, np.ndarray]:
        taken, value = self.accumulator.try_take_grad(num_required, global_step=step)
        return bool(taken), value.numpy()


class ContributionFunctionDriver(EagerDriver):
    """A driver that calls tf.functions whose arguments have unknown shapes."""

    def __init__(self, impl: Any, *args: Any, **kwargs: Any):
        super().__init__(impl, *args, **kwargs)
        acc = self.accumulator
        gradient, number = tf.TensorSpec(None, self.dtype), tf.TensorSpec(None, tf.int64)
        required = tf.TensorSpec(None, tf.int32)

        @tf.function(input_signature=[gradient, number, number])
        def contribute(value: Any, contributor: Any, step: Any) -> Any:
            return acc.apply_contribution(value, contributor, step)

        @tf.function(input_signature=[required, number])
        def take_round(num_required: Any, step: Any) -> Any:
            return acc.try_take_grad(num_required, global_step=step)

        self._contribute = contribute
        self._reset = tf.function(acc.reset, input_signature=[number])
        self._take_round = take_round

    def _arguments(self, value: Any, *numbers: Any) -> list[tf.Tensor]:
        return [self._tensor(value), *(tf.constant(number, tf.int64) for number in numbers)]

    def contribute(self, value: Any, contributor: Any, step: Any = 0) -> int:
        return int(self._contribute(*self._arguments(value, contributor, step)))

    def reset(self, step: Any) -> int:
        return int(self._reset(tf.constant(step, tf.int64)))

    def take_round(self, num_required: Any, step: Any) -> tuple[bool, np.ndarray]:
        required = tf.constant(num_required, tf.int32)
        taken, value = self._take_round(required, tf.constant(step, tf.int64))
        return bool(taken), value.numpy()


CONTRIBUTION_DRIVERS: dict[str, Callable[..., Any]] = {
    "graph": ContributionGraphDriver,
    "function": ContributionFunctionDriver,
    "eager": ContributionEagerDriver,
}
