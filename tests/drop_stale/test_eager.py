"""Tests of eager mode and tf.function: callable losses, exceptions, threads."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    INNER,
    START,
    EagerTraining,
    drop_stale,
    half_square,
)
from tests.support.waiting import PATIENCE_SECS, in_threads

v1 = tf.compat.v1
HALVED = np.divide(START, 2.0)


@pytest.fixture(params=["eager", "function"])
def compiled(request: pytest.FixtureRequest) -> Any:
    """Wraps a call in a tf.function, or leaves it as it is."""
    return tf.function if request.param == "function" else lambda call: call


def test_compute_and_apply(compiled):
    training = EagerTraining()

    def train() -> tf.Tensor:
        pairs = training.optimizer.compute_gradients(
            training.loss, var_list=[training.weights], global_step=training.step
        )
        return training.optimizer.apply_gradients(iter(pairs), training.step)

    minimize = compiled(train)
    assert [training.run(late_by, minimize) for late_by in (0, 1)] == [0.0, 1.0]
    training.expect(step=2, weights=HALVED, accepted=1, dropped=1)


@pytest.mark.parametrize("inner", list(INNER))
def test_accepted_updates_are_those_of_the_wrapped_optimizer_alone(compiled, inner):
    training = EagerTraining(0, INNER[inner].make())
    minimize = compiled(training.minimize)
    alone, step = INNER[inner].make(), tf.Variable(0, dtype=tf.int64)
    weights = tf.Variable(START)
    for late_by in (0, 1, 0, 2, 0):
        training.run(late_by, minimize)
        if not late_by:
            alone.minimize(lambda: half_square(weights.read_value()), step, [weights])
        np.testing.assert_array_equal(training.weights.numpy(), weights.numpy())
        for name in INNER[inner].slots:
            np.testing.assert_array_equal(
                training.optimizer.get_slot(training.weights, name).numpy(),
                alone.get_slot(weights, name).numpy(),
            )


def test_result_is_a_float32_scalar_and_variables_are_complete(compiled):
    training = EagerTraining(0, v1.train.MomentumOptimizer(0.5, 0.5))
    result = compiled(training.minimize)()
    assert (result.dtype, result.shape.as_list()) == (tf.float32, [])
    momentum = training.optimizer.get_slot(training.weights, "momentum")
    assert {id(v) for v in training.optimizer.variables()} >= {id(momentum)}
    assert len(training.optimizer.variables()) == 2
    assert [v.name for v in training.optimizer.variables()].count("stale_counter:0") == 1


def test_loss_that_is_a_tensor_is_refused():
    training = EagerTraining()
    with pytest.raises((ValueError, RuntimeError), match="(?i)eager|function"):
        training.optimizer.minimize(training.loss(), training.step, [training.weights])
    assert training.run() == 0.0


def test_missing_step_is_a_value_error(compiled):
    training = EagerTraining()
    for call in (
        lambda: training.optimizer.minimize(training.loss, var_list=[training.weights]),
        lambda: training.optimizer.compute_gradients(training.loss, [training.weights]),
    ):
        with pytest.raises(ValueError, match="no global step .*pass it as global_step"):
            compiled(call)()


class Failing(v1.train.GradientDescentOptimizer):
    """An optimizer that fails while it has an error."""

    error: type[BaseException] | None = None

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        if self.error is not None:
            raise self.error("out of order")
        return super().apply_gradients(*args, **kwargs)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_of_the_wrapped_optimizer_leaves_nothing_behind(error):
    inner = Failing(0.5)
    training = EagerTraining(0, inner)
    kept = []  # Keeps the exceptions, and with them the local variables of their frames.
    inner.error = error
    for _ in range(3):
        with pytest.raises(error, match="out of order") as caught:
            training.run()
        kept.append(caught)
    training.expect(step=0, weights=START, accepted=0, dropped=0)
    inner.error = None
    assert training.run() == 0.0
    training.expect(step=1, weights=HALVED, accepted=1, dropped=0)


def test_failure_of_the_loss_leaves_nothing_behind():
    training = EagerTraining()

    def fail() -> tf.Tensor:
        raise RuntimeError("no loss")

    with pytest.raises(RuntimeError, match="no loss"):
        training.optimizer.minimize(fail, training.step, [training.weights])
    assert training.run() == 0.0
    training.expect(step=1, weights=HALVED, accepted=1, dropped=0)


def test_failure_of_an_update_in_a_function_leaves_nothing_behind():
    training = EagerTraining(0, v1.train.GradientDescentOptimizer(0.5))
    breaks = tf.Variable(True)

    class Checking(v1.train.GradientDescentOptimizer):
        def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
            with tf.control_dependencies([tf.debugging.assert_equal(breaks, False)]):
                return super().apply_gradients(*args, **kwargs)

    training.optimizer = drop_stale(0, Checking(0.5))
    minimize = tf.function(training.minimize)
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            training.run(0, minimize)
    training.expect(step=0, weights=START, accepted=0, dropped=0)
    breaks.assign(False)
    assert training.run(0, minimize) == 0.0
    training.expect(step=1, weights=HALVED, accepted=1, dropped=0)


def test_threads_have_local_steps_of_their_own():
    training = EagerTraining()
    rounds, together = 20, threading.Barrier(3)

    def worker() -> float:
        def loss() -> tf.Tensor:
            value = training.weights.read_value()
            together.wait(PATIENCE_SECS)
            return half_square(value)

        for _ in range(rounds):
            together.wait(PATIENCE_SECS)
            result = training.optimizer.minimize(loss, training.step, [training.weights])
        return float(result)

    assert max(in_threads(*[worker] * 3)) == 2.0 * rounds
    assert training.step.numpy() == rounds
    assert training.optimizer.num_accepted().numpy() == rounds
    assert training.optimizer.num_dropped().numpy() == 2 * rounds


def test_functions_that_are_traced_by_several_threads_at_once_are_right():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # Python switches threads after every few instructions.
    try:
        for _ in range(5):
            training = EagerTraining(0, v1.train.GradientDescentOptimizer(0.5, use_locking=True))

            def trace_and_train(training=training) -> None:
                train = tf.function(tf.autograph.experimental.do_not_convert(training.minimize))
                for _ in range(5):
                    train()

            in_threads(*[trace_and_train] * 6)
            accepted = int(training.optimizer.num_accepted())
            assert accepted + int(training.optimizer.num_dropped()) == 30
            weights = np.array(START) / 2.0**accepted
            training.expect(accepted, weights, accepted, 30 - accepted)
            assert training.optimizer.variables()[-1].numpy() == 30 - accepted
    finally:
        sys.setswitchinterval(interval)


def test_step_that_is_passed_to_minimize_comes_before_the_global_step():
    """Eager TensorFlow has a global step too, which another part of the program may use."""
    training = EagerTraining()
    unrelated = tf.Variable(1000, dtype=tf.int64, trainable=False)
    steps = v1.get_default_graph().get_collection_ref(v1.GraphKeys.GLOBAL_STEP)
    steps.append(unrelated)
    try:
        training.late_by.assign(1)
        assert float(training.optimizer.minimize(training.loss, training.step)) == 1.0
        training.late_by.assign(0)
        assert float(training.optimizer.minimize(training.loss, training.step)) == 1.0
    finally:
        steps.remove(unrelated)
    np.testing.assert_array_equal(training.weights, HALVED)
