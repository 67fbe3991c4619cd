"""Programs of updates that are as late as they like, compared with a model in NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.drop_stale_support import (
    START,
    SWITCHES,
    EagerTraining,
    LateTraining,
    drop_stale,
    switched,
)
from tests.support.programs import run_programs

v1 = tf.compat.v1


class InSession:
    """An optimizer whose limit is a variable, and the model that it trains in a session.

    Args:
        switches: The setting of variables and control flow.
    """

    def __init__(self, switches: str = "resource") -> None:
        with switched(*SWITCHES[switches]), tf.Graph().as_default():
            self.limit = v1.get_variable("limit", [], tf.int64, trainable=False)
            self.training = LateTraining(drop_stale(self.limit))
            self._number = v1.placeholder(tf.int64, [])
            self._set_limit = v1.assign(self.limit, self._number)
            self._set_step = v1.assign(self.training.step, self._number)
            self._set_weights = v1.assign(self.training.weights, START)
            optimizer = self.training.optimizer
            self._state = [
                self.training.step,
                self.training.weights,
                optimizer.num_accepted(),
                optimizer.num_dropped(),
            ]
            self.session = self.training.session

    def begin(self) -> None:
        """Gives the weights their first values, while everything else stays as it is."""
        self.session.run(self._set_weights)

    def set_limit(self, limit: int) -> None:
        self.session.run(self._set_limit, {self._number: limit})

    def set_step(self, step: int) -> None:
        self.session.run(self._set_step, {self._number: step})

    def train(self, late_by: int) -> float:
        return float(self.training.run(late_by))

    def train_around_another(self) -> list[float]:
        """Trains, and once more during the forward pass. Returns both results, the inner first."""
        results: list[float] = []

        def train_within() -> None:
            self.training.interlude.action = lambda: None
            results.append(float(self.session.run(self.training.train)))

        self.training.interlude.action = train_within
        results.append(float(self.session.run(self.training.train)))
        return results

    def state(self) -> list[Any]:
        """Returns the step, the weights, and the numbers of accepted and dropped updates."""
        return self.session.run(self._state)


class Eager:
    """The same eagerly."""

    wrap = staticmethod(lambda call: call)

    def __init__(self, dtype: tf.DType = tf.int64) -> None:
        self.limit = tf.Variable(0, dtype=dtype)
        self.training = EagerTraining(self.limit, step_dtype=dtype)
        self._minimize = self.wrap(self.training.minimize)
        self.train(0)  # There are no counters before.

    def begin(self) -> None:
        self.training.weights.assign(START)

    def set_limit(self, limit: int) -> None:
        self.limit.assign(limit)

    def set_step(self, step: int) -> None:
        self.training.step.assign(step)

    def train(self, late_by: int) -> float:
        return self.training.run(late_by, self._minimize)

    def state(self) -> list[Any]:
        optimizer = self.training.optimizer
        numbers = [self.training.step, self.training.weights.read_value()]
        numbers += [optimizer.num_accepted(), optimizer.num_dropped()]
        return [number.numpy() for number in numbers]


class Function(Eager):
    """The same in a function."""

    wrap = staticmethod(tf.function)


MODES: dict[str, Callable[[], Any]] = {
    "eager": Eager,
    "eager_int32": functools.partial(Eager, tf.int32),
    "function": Function,
}
MODES |= {switches: functools.partial(InSession, switches) for switches in SWITCHES}


@functools.cache
def _made_once(mode: str) -> Any:
    return MODES[mode]()


class Programs(RuleBasedStateMachine):
    """Trains, and computes what must come of it."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.tested: Any = None

    @initialize(limit=st.integers(-1, 2))
    def make(self, limit: int) -> None:
        self.tested = _made_once(self.mode)
        self.tested.begin()
        self.step, self.weights, self.accepted, self.dropped = self.tested.state()
        self.set_limit(limit)

    def in_session(self) -> bool:
        # A read of a reference variable may see later updates.
        return self.mode in SWITCHES and self.mode != "ref"

    def expect(self, late_by: int, gradient: Any) -> bool:
        """Computes an update, and returns whether it must be accepted."""
        self.step += late_by
        is_accepted = late_by <= self.limit
        if is_accepted:
            self.step += 1
            self.accepted += 1
            self.weights = self.weights - np.float32(0.5) * gradient
        else:
            self.dropped += 1
        return is_accepted

    @rule(limit=st.integers(-1, 3) | st.just(-(2**31)))
    def set_limit(self, limit: int) -> None:
        self.limit = limit
        self.tested.set_limit(limit)

    @rule(step=st.sampled_from([0, 1, 5, 2**30]))
    def set_step(self, step: int) -> None:
        self.step = step
        self.tested.set_step(step)

    @rule(late_by=st.sampled_from([0, 0, 1, 2, 3, 4, -1, -7]))
    def train(self, late_by: int) -> None:
        result = self.tested.train(late_by)
        self.expect(late_by, self.weights)
        assert result == self.dropped

    @precondition(in_session)
    @rule()
    def train_around_another(self) -> None:
        inner, outer = self.tested.train_around_another()
        gradient, dropped = self.weights, self.dropped
        is_accepted = self.expect(0, gradient)
        assert inner == self.dropped == dropped + (not is_accepted)
        self.step -= is_accepted  # The step that the inner update has made is the lateness.
        self.expect(int(is_accepted), gradient)
        assert outer == self.dropped

    @invariant()
    def has_the_models_state(self) -> None:
        if self.tested is None:
            return
        step, weights, accepted, dropped = self.tested.state()
        assert [step, accepted, dropped] == [self.step, self.accepted, self.dropped]
        np.testing.assert_array_equal(weights, self.weights)


@pytest.mark.parametrize("mode", MODES)
def test_programs_do_what_the_model_does(mode, programs):
    run_programs(functools.partial(Programs, mode), programs)
