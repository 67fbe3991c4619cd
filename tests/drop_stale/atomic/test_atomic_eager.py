"""Tests of functions that several threads trace, and of eager updates that fail."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.drop_stale_atomic_support import dropping
from tests.support.waiting import in_threads

v1 = tf.compat.v1


class FailingDescent(v1.train.GradientDescentOptimizer):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__(1.0)
        self._error = error

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        raise self._error("refused")


def check(optimizers, step, weights, tries, limit):
    accepted = sum(int(optimizer.num_accepted()) for optimizer in optimizers)
    dropped = sum(int(optimizer.num_dropped()) for optimizer in optimizers)
    counters = {id(o.variables()[-1]): float(o.variables()[-1]) for o in optimizers}
    assert accepted + dropped == tries
    assert int(step) == accepted == -np.sum(weights)
    assert sum(counters.values()) == dropped
    assert np.max(-weights.numpy()) <= limit + 1, "more of one local step than the limit allows"


@pytest.fixture
def quick_switches():
    """Makes Python switch threads after every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_functions_that_are_traced_by_several_threads_at_once_are_right(quick_switches):
    for _ in range(5):
        step = tf.Variable(0, dtype=tf.int64)
        weights = tf.Variable(tf.zeros([]))
        optimizer = dropping(0)(v1.train.GradientDescentOptimizer(1.0, use_locking=True))

        @tf.autograph.experimental.do_not_convert
        def minimize(optimizer=optimizer, step=step, weights=weights):
            return optimizer.minimize(lambda: weights * 1.0, step, [weights])

        def work(minimize=minimize):
            train = tf.function(minimize)
            for _ in range(5):
                train()

        in_threads(*[work] * 6)
        check([optimizer], step, weights, 30, limit=30)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failed_updates_whose_errors_are_kept_are_not_in_the_way(error, rounds):
    step = tf.Variable(0, dtype=tf.int64)
    weights = tf.Variable(0.0)
    failing = dropping(0)(FailingDescent(error))
    kept = []
    for _ in range(rounds):
        with pytest.raises(error) as raised:
            failing.minimize(lambda: weights * 1.0, step, [weights])
        kept.append(raised)
    assert (int(failing.num_accepted()), int(failing.num_dropped()), int(step)) == (0, 0, 0)
    good = dropping(0)(v1.train.GradientDescentOptimizer(1.0))
    good.minimize(lambda: weights * 1.0, step, [weights])
    assert (int(good.num_accepted()), int(step)) == (1, 1)
    assert len(kept) == rounds


@pytest.mark.parametrize("good_calls", [0, 1])
def test_function_whose_update_fails_is_not_in_the_way(good_calls, rounds):
    step = tf.Variable(0, dtype=tf.int64)
    weights = tf.Variable(0.0)

    class Refusing(v1.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            with tf.control_dependencies([tf.debugging.assert_equal(allowed, True)]):
                pairs = [(tf.identity(gradient), v) for gradient, v in grads_and_vars]
            return super().apply_gradients(pairs, global_step=global_step, name=name)

    allowed = tf.Variable(False)
    optimizer = tf_condacc.DropStaleGradientOptimizer(Refusing(1.0), 0)
    train = tf.function(lambda: optimizer.minimize(lambda: weights * 1.0, step, [weights]))
    for _ in range(rounds):
        with pytest.raises(tf.errors.InvalidArgumentError):
            train()
    allowed.assign(True)
    for _ in range(good_calls + 1):
        train()
    assert int(optimizer.num_accepted()) == int(step) == -float(weights) == good_calls + 1
    assert int(optimizer.num_dropped()) == 0
