"""Tests of scalar inputs that are not scalars, in graphs without static shapes and eagerly.

Ours refuses them and goes on. TensorFlow's own accumulator aborts the process.
"""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.contribution_drivers import (
    ContributionEagerDriver,
    ContributionFunctionDriver,
    ContributionGraphDriver,
)
from tests.processes.isolated import isolated
from tests.support.accumulator_support import every_kind
from tests.support.refusals import refused


class EagerRawDriver(ContributionEagerDriver):
    """A driver that calls the raw ops."""

    @property
    def handle(self) -> Any:
        return self.accumulator.accumulator_ref

    def apply(self, value: Any, step: Any = 0) -> None:
        self.impl.raw_apply(self.handle, tf.constant(step, tf.int64), self._tensor(value))

    def take(self, num_required: Any = 1) -> np.ndarray:
        required = tf.constant(num_required, tf.int32)
        return self.impl.raw_take(self.handle, required, self.dtype).numpy()

    def try_take(self, num_required: Any = 1) -> Any:
        required = tf.constant(num_required, tf.int32)
        taken, value = self.impl.raw_try_take(self.handle, required, self.dtype)
        return bool(taken), value.numpy()

    def set_step(self, step: Any) -> None:
        self.impl.raw_set_global_step(self.handle, tf.constant(step, tf.int64))

    def contribute(self, value: Any, contributor: Any, step: Any = 0) -> int:
        numbers = (tf.constant(number, tf.int64) for number in (contributor, step))
        return int(self.impl.raw_contribute(self.handle, self._tensor(value), *numbers))

    def reset(self, step: Any) -> int:
        return int(self.impl.raw_reset(self.handle, tf.constant(step, tf.int64)))

    def take_round(self, num_required: Any, step: Any) -> Any:
        numbers = tf.constant(step, tf.int64), tf.constant(num_required, tf.int32)
        taken, value = self.impl.raw_take_round(self.handle, *numbers, self.dtype)
        return bool(taken), value.numpy()


class FunctionDriver(ContributionFunctionDriver):
    """A driver that calls tf.functions whose arguments have unknown shapes."""

    def __init__(self, impl: Any, *args: Any, **kwargs: Any):
        super().__init__(impl, *args, **kwargs)
        acc = self.accumulator
        number, required = tf.TensorSpec(None, tf.int64), tf.TensorSpec(None, tf.int32)

        @tf.function(input_signature=[tf.TensorSpec(None, self.dtype), number])
        def apply(gradient: Any, step: Any) -> None:
            acc.apply_grad(gradient, step)

        @tf.function(input_signature=[number])
        def set_step(step: Any) -> None:
            acc.set_global_step(step)

        self._apply, self._set_step = apply, set_step
        self._take = tf.function(acc.take_grad, input_signature=[required])
        self._try_take = tf.function(acc.try_take_grad, input_signature=[required])

    def apply(self, value: Any, step: Any = 0) -> None:
        self._apply(self._tensor(value), tf.constant(step, tf.int64))

    def take(self, num_required: Any = 1) -> np.ndarray:
        return self._take(tf.constant(num_required, tf.int32)).numpy()

    def try_take(self, num_required: Any = 1) -> Any:
        taken, value = self._try_take(tf.constant(num_required, tf.int32))
        return bool(taken), value.numpy()

    def set_step(self, step: Any) -> None:
        self._set_step(tf.constant(step, tf.int64))


DRIVERS = {
    "placeholder": ContributionGraphDriver,
    "eager": ContributionEagerDriver,
    "raw": EagerRawDriver,
    "function": FunctionDriver,
}
# Each case has the method, the name of the input, valid arguments, and the input's position.
INPUTS_OF_BOTH: dict[str, tuple[str, str, tuple, int]] = {
    "local_step": ("apply", "local_step", ([1.0, 1.0], 3), 1),
    "num_required": ("take", "num_required", (1,), 0),
    "num_required_waiting": ("take", "num_required", (1,), 0),
    "try_take": ("try_take", "num_required", (1,), 0),
    "new_global_step": ("set_step", "new_global_step", (3,), 0),
}
INPUTS = INPUTS_OF_BOTH | {
    "contributor": ("contribute", "contributor", ([1.0, 1.0], 5, 3), 1),
    "local_step_of_a_contribution": ("contribute", "local_step", ([1.0, 1.0], 5, 3), 2),
    "step_of_a_reset": ("reset", "global_step", (3,), 0),
    "step_of_a_round": ("take_round", "global_step", (1, 3), 1),
    "num_required_of_a_round": ("take_round", "num_required", (1, 3), 0),
}


CASES = [(which, shape) for which in INPUTS for shape in ((1,), (0,))]
CASES += [(which, shape) for which in INPUTS_OF_BOTH for shape in ((1, 1), (2,), (2, 0))]


def check_that_it_is_refused(impl: Any, driver: str, which: str, shape: tuple[int, ...]) -> None:
    method, argument, good, place = INPUTS[which]
    filled = which != "num_required_waiting"
    acc = DRIVERS[driver](impl, tf.float32, [2], name="spoilt")
    acc.set_step(3)
    if filled:
        acc.apply([4.0, 8.0], 3)
    shown = r"\[" + ",".join(map(str, shape)) + r"\]"
    name = ("spoilt",) if driver == "placeholder" else ()
    kinds = (tf.errors.InvalidArgumentError, ValueError)
    with refused(kinds, f"{argument}.*must be a? ?scalar|must be rank 0", shown, *name):
        getattr(acc, method)(*good[:place], np.full(shape, 3), *good[place + 1 :])
    assert (acc.count(), acc.step(), acc.dropped()) == (int(filled), 3, 0)
    acc.apply([2.0, 2.0], 3)
    np.testing.assert_array_equal(acc.take(1), [3.0, 5.0] if filled else [2.0, 2.0])
    assert acc.step() == 4
    acc.close()


# `make test` runs each shape in each way on one input, and each input eagerly and in a graph.
@every_kind
@pytest.mark.narrow(
    to=lambda driver, which, shape: (
        which == "local_step" or (shape == (1,) and driver in ("placeholder", "eager"))
    )
)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("which, shape", CASES, ids=str)
def test_input_that_is_no_scalar_is_refused(ours, driver, which, shape):
    check_that_it_is_refused(ours, driver, which, shape)


@isolated(status=-signal.SIGABRT)
@pytest.mark.parametrize("which, shape", [("local_step", (2,)), ("new_global_step", (0,))], ids=str)
def test_original_aborts_the_process(original, which, shape):
    check_that_it_is_refused(original, "eager", which, shape)
