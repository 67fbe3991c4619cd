"""Programs of any calls of an accumulator, compared with a model in NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.accumulators.support.calls import CALLS, MODES
from tests.accumulators.support.numerics import assert_same_bits, divided
from tests.accumulators.support.outcomes import ADDED, AHEAD, DUPLICATE, STALE
from tests.accumulators.support.rows import Rows, take_refuses_rows
from tests.support.accumulator_support import every_kind, needs_resource
from tests.support.programs import first_failure, run_programs

HALVES = (tf.float16, tf.bfloat16)
MAX_GRADIENTS = 12
WIDTHS = [(), (1,), (3,), (2, 3), (0,), (1, 1, 2, 2)]
NUM_ROWS = [1, 3, 20, 2**40]
LAST_STEP = 2**63 - 1
BAD_CALLS = ["shape", "required", "weight", "contributor", "scalar"]

steps = st.sampled_from([0, 0, 0, 0, -1, -3, 1, 10])  # Relative to the accumulator's step.
new_steps = st.sampled_from([0, 1, 5, -2, -10, 2**40, -(2**63) + 10, LAST_STEP])
numbers = st.integers(-9, 9)
weights = st.sampled_from([1.0, 0.0, 0.5, 3.0, 4.0])
contributors = st.sampled_from([0, 1, 2, 2**63 - 1])


class Model:
    """A model of an accumulator, which keeps its gradients and adds them up in a take.

    A dense gradient is the row 0. Values are integers and weights are halves, so that every order
    of additions gives the same sum.
    """

    def __init__(self, dtype: tf.DType, reduction: str) -> None:
        self.dtype, self.reduction = dtype, reduction
        self.step = self.dropped = 0
        self.clear()

    def clear(self) -> None:
        self.gradients: list[tuple[Rows, float]] = []
        self.contributors: set[int] = set()

    @property
    def count(self) -> int:
        return len(self.gradients)

    def apply(self, rows: Rows, step: int, weight: float = 1.0) -> bool:
        if step < self.step:
            self.dropped += 1
            return False
        self.gradients.append((rows, weight))
        return True

    def contribute(self, rows: Rows, step: int, contributor: int) -> int:
        if step > self.step:
            return AHEAD
        if step == self.step and contributor in self.contributors:
            return DUPLICATE
        if not self.apply(rows, step):
            return STALE
        self.contributors.add(contributor)
        return ADDED

    def take(self) -> Rows:
        """Returns the rows that a take gives, and begins the next round."""
        rows = np.unique(np.concatenate([rows.indices for rows, _ in self.gradients]))
        width = self.gradients[0][0].values.shape[1:]
        wide = np.float32 if self.dtype in HALVES else self.dtype.as_numpy_dtype
        total, divisors = np.zeros((len(rows), *width), wide), np.zeros(len(rows))
        for gradient, weight in self.gradients:
            places = np.searchsorted(rows, gradient.indices)
            np.add.at(total, places, gradient.values.astype(wide) * wide(weight))
            divisors[np.unique(places)] += weight
        if self.reduction == "GLOBAL_MEAN":
            divisors[:] = sum(weight for _, weight in self.gradients)
        if self.reduction != "SUM":
            for number, divisor in enumerate(divisors):
                total[number] = divided(total[number], divisor) if divisor else 0
        self.clear()
        self.step += 1
        return Rows(rows, total.astype(self.dtype.as_numpy_dtype))


class Programs(RuleBasedStateMachine):
    """Makes calls of an accumulator and of its model."""

    def __init__(self, impl: Any, mode: str) -> None:
        super().__init__()
        self.impl, self.mode, self.is_sparse = impl, mode, impl.kind == "sparse"

    @initialize(data=st.data())
    def make(self, data: Any) -> None:
        # TensorFlow has no kernels for the others, and no GLOBAL_MEAN.
        dtypes = self.impl.dtypes if self.impl.ours else (tf.float32, tf.float64)
        dtype = data.draw(st.sampled_from(dtypes), "dtype")
        reductions = ["SUM"] if dtype.is_integer else ["MEAN", "SUM"]
        if self.impl.ours and self.is_sparse and not dtype.is_integer:
            reductions.append("GLOBAL_MEAN")
        reduction = data.draw(st.sampled_from(reductions), "reduction")
        self.model = Model(dtype, reduction)
        make = MODES[self.mode]
        self.call = make(self.impl, dtype, rows=self.is_sparse, reduction_type=reduction)
        self.width, self.num_rows = (3,), 20

    def teardown(self) -> None:
        if hasattr(self, "call"):
            self.call.close()

    def ours(self) -> bool:
        return self.impl.ours

    def has_weights(self) -> bool:
        # Merges on a GPU, where takes refuse bad rows, have no MEAN of weighted gradients.
        has_no_mean = self.is_sparse and take_refuses_rows(self.impl)
        is_possible = not (has_no_mean and self.model.reduction == "MEAN")
        return self.impl.ours and not self.model.dtype.is_integer and is_possible

    def has_room(self) -> bool:
        return self.model.count < MAX_GRADIENTS

    def has_gradients(self) -> bool:
        return self.model.count > 0

    def can_take(self) -> bool:
        """Returns whether a take can advance the step."""
        return self.model.count > 0 and self.model.step < LAST_STEP

    def local_step(self, ahead: int) -> int:
        return min(self.model.step + ahead, LAST_STEP)

    def gradient(self, data: Any) -> Rows:
        number = data.draw(numbers, "number")
        if self.is_sparse:
            few = st.lists(st.integers(0, min(self.num_rows, 1000) - 1), max_size=5)
            indices = np.array(data.draw(few, "rows"), np.int64)
            if data.draw(st.integers(0, 7), "many rows, if 7") == 7:
                indices = (np.arange(100) * 37 + number) % self.num_rows
            if not self.ours():  # It gives right results only for ascending rows.
                indices = np.unique(indices)
        else:
            indices = np.zeros(1, np.int64)
        shape = len(indices), *self.width
        values = 8 * number + np.arange(np.prod(shape)).reshape(shape) % 7
        if self.model.dtype.is_complex:
            values = values * (1 - 2j)
        return Rows(indices, values.astype(self.model.dtype.as_numpy_dtype))

    def parts(self, rows: Rows, data: Any) -> tuple[np.ndarray, ...]:
        """Returns a gradient as the arguments of a call."""
        if not self.is_sparse:
            return (rows.values[0],)
        if data.draw(st.booleans(), "with its shape"):
            return rows.indices, rows.values, np.array([self.num_rows, *self.width], np.int64)
        return rows.indices, rows.values

    def check_taken(self, taken: Any) -> None:
        expected = self.model.take()
        if self.is_sparse:
            np.testing.assert_array_equal(taken.indices, expected.indices)
            np.testing.assert_array_equal(taken.shape, [-1, *self.width])
            assert_same_bits(taken.values, expected.values)
        else:
            assert_same_bits(np.asarray(taken), np.asarray(expected.values[0]))

    @precondition(lambda self: not self.has_gradients())
    @rule(width=st.sampled_from(WIDTHS), num_rows=st.sampled_from(NUM_ROWS))
    def change_shape(self, width: tuple[int, ...], num_rows: int) -> None:
        self.width, self.num_rows = width, num_rows

    @precondition(has_room)
    @rule(data=st.data(), ahead=steps)
    def apply(self, data: Any, ahead: int) -> None:
        rows, step = self.gradient(data), self.local_step(ahead)
        self.call("apply", *self.parts(rows, data), step=step)
        self.model.apply(rows, step)

    @precondition(lambda self: self.ours() and self.has_room())
    @rule(data=st.data(), ahead=steps)
    def try_apply(self, data: Any, ahead: int) -> None:
        rows, step = self.gradient(data), self.local_step(ahead)
        accepted = self.call("try_apply", *self.parts(rows, data), step=step)
        assert accepted == self.model.apply(rows, step)

    @precondition(lambda self: self.has_weights() and self.has_room())
    @rule(data=st.data(), ahead=steps, weight=weights)
    def weigh(self, data: Any, ahead: int, weight: float) -> None:
        rows, step = self.gradient(data), self.local_step(ahead)
        accepted = self.call("weigh", *self.parts(rows, data), step=step, weight=weight)
        assert accepted == self.model.apply(rows, step, weight)

    @precondition(lambda self: self.ours() and self.has_room())
    @rule(data=st.data(), ahead=steps, contributor=contributors)
    def contribute(self, data: Any, ahead: int, contributor: int) -> None:
        rows, step = self.gradient(data), self.local_step(ahead)
        parts = self.parts(rows, data)
        outcome = self.call("contribute", *parts, step=step, contributor=contributor)
        assert outcome == self.model.contribute(rows, step, contributor)

    @precondition(can_take)
    @rule(data=st.data())
    def take(self, data: Any) -> None:
        required = data.draw(st.integers(1, self.model.count), "required")
        self.check_taken(self.call("take", required=required))

    @precondition(lambda self: self.ours() and self.model.step < LAST_STEP)
    @rule(required=st.integers(1, 4))
    def try_take(self, required: int) -> None:
        taken, value = self.call("try_take", required=required)
        assert taken == (self.model.count >= required)
        if taken:
            self.check_taken(value)

    @precondition(lambda self: self.ours() and self.model.step < LAST_STEP)
    @rule(required=st.integers(1, 4), ahead=steps)
    def take_round(self, required: int, ahead: int) -> None:
        step = self.local_step(ahead)
        taken, value = self.call("take_round", required=required, step=step)
        assert taken == (self.model.count >= required and step == self.model.step)
        if taken:
            self.check_taken(value)

    @rule(step=new_steps)
    def set_step(self, step: int) -> None:
        self.model.step = step
        self.call("set_step", step=step)

    @precondition(ours)
    @rule(step=new_steps)
    def reset(self, step: int) -> None:
        self.model.step = step
        assert self.call("reset", step=step) == self.model.count
        self.model.clear()

    @precondition(ours)
    @rule(data=st.data(), what=st.sampled_from(BAD_CALLS))
    def is_refused(self, data: Any, what: str) -> None:
        """Makes a call that must fail. The invariant checks that it changes nothing."""
        parts, step = self.parts(self.gradient(data), data), self.model.step
        bad_scalar = np.zeros([2], np.int64)
        calls = {
            "required": lambda: self.call("try_take", required=data.draw(st.integers(-3, 0))),
            "contributor": lambda: self.call("contribute", *parts, step=step, contributor=-1),
            "scalar": lambda: self.call("apply", *parts, step=bad_scalar),
        }
        if self.has_weights():
            bad_weight = data.draw(st.sampled_from([-1.0, np.nan, np.inf]))
            calls["weight"] = lambda: self.call("weigh", *parts, step=step, weight=bad_weight)
        if self.has_gradients():
            calls["shape"] = lambda: self.call("apply", *self.wider(), step=step)
        if what in calls:
            with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
                calls[what]()

    @precondition(has_gradients)
    @rule()
    def is_too_late_to_be_refused(self) -> None:
        """Applies a stale gradient of another shape, which nobody looks at."""
        self.call("apply", *self.wider(), step=self.model.step - 1)
        self.model.dropped += 1

    def wider(self) -> tuple[np.ndarray, ...]:
        """Returns a gradient of a rank that does not fit."""
        values = np.zeros((1, *self.width, 2), self.model.dtype.as_numpy_dtype)
        return (np.zeros(1, np.int64), values) if self.is_sparse else (values,)

    @invariant()
    def has_the_models_state(self) -> None:
        if not hasattr(self, "call"):
            return
        assert self.call("count") == self.model.count
        if self.ours():
            assert self.call("dropped") == self.model.dropped
            assert self.call("step") == self.model.step


# TensorFlow's own accumulators cannot be arguments of functions.
@every_kind
@pytest.mark.narrow(to=lambda impl, mode: impl.startswith("tf_condacc") or mode == "session")
@pytest.mark.parametrize("mode", [pytest.param("eager", marks=needs_resource), "session"])
def test_programs_do_what_the_model_does(impl, mode, programs):
    run_programs(functools.partial(Programs, impl, mode), programs)


@every_kind
@pytest.mark.narrow(to=lambda ours: ours == "dense")
def test_programs_of_functions_do_what_the_model_does(ours, programs):
    run_programs(functools.partial(Programs, ours, "function"), programs)


# What calls of these names do instead of what they should do.
FAULTS: dict[str, Callable[..., Any]] = {
    "weigh": lambda acc, *g, step, weight: acc.try_apply_grad(
        *g, local_step=step, weight=min(weight, 3.0)
    ),
    "contribute": lambda acc, *g, step, contributor: acc.apply_contribution(
        *g[:2], contributor=max(contributor, 1), local_step=step
    ),
    "take_round": lambda acc, required, step: acc.try_take_grad(required),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(ours, fault, monkeypatch):
    monkeypatch.setitem(CALLS, fault, FAULTS[fault])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_programs(functools.partial(Programs, ours, "eager"), first_failure())
