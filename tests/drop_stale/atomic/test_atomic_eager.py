"""Tests of threads that minimize eagerly, or call a tf.function, on one step."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.accumulator_support import Background
from tests.support.drop_stale_atomic_support import Meeting, dropping
from tests.support.many_threads import in_threads

v1 = tf.compat.v1
NUM_THREADS = 8


class RecordingDescent(v1.train.GradientDescentOptimizer):
    """Records the step at which each update was applied, before it is incremented."""

    def __init__(self, fail=None) -> None:
        super().__init__(1.0, use_locking=True)
        self.applied: list[int] = []
        self._fail = fail

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        self.applied.append(int(global_step.read_value()))
        if self._fail is not None:
            raise self._fail("refused")
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)


def check(optimizers, step, weights, tries, limit):
    accepted = sum(int(optimizer.num_accepted()) for optimizer in optimizers)
    dropped = sum(int(optimizer.num_dropped()) for optimizer in optimizers)
    counters = {id(o.variables()[-1]): float(o.variables()[-1]) for o in optimizers}
    assert accepted + dropped == tries
    assert int(step) == accepted == -np.sum(weights)
    assert sum(counters.values()) == dropped
    assert np.max(-weights.numpy()) <= limit + 1, "more of one local step than the limit allows"


@pytest.mark.parametrize("instances, limit", [(1, 0), (NUM_THREADS, 0), (NUM_THREADS, 2)])
def test_threads_never_have_more_accepted_of_one_step_than_the_limit_allows(
    instances, limit, rounds
):
    rounds //= 4
    step = tf.Variable(0, dtype=tf.int64)
    weights = tf.Variable(tf.zeros([(limit + 1) * rounds + 8]))
    optimizers = [dropping(limit)(RecordingDescent()) for _ in range(instances)]
    all_ready = threading.Barrier(NUM_THREADS)
    all_done = threading.Barrier(NUM_THREADS)

    def work(number):
        optimizer = optimizers[number % instances]

        def loss():
            # This equals the local step, because no other thread applies anything now.
            row = step.read_value()
            all_ready.wait(60)
            return weights[row]

        for _ in range(rounds):
            optimizer.minimize(loss, step, [weights])
            all_done.wait(60)

    for thread in [Background(work, number) for number in range(NUM_THREADS)]:
        thread.result(280)
    check(optimizers, step, weights, NUM_THREADS * rounds, limit)
    assert int(step) == (limit + 1) * rounds, "as many of each round"
    np.testing.assert_array_equal(-weights.numpy()[: int(step)][:: limit + 1], limit + 1)
    if limit == 0:
        applied = [n for optimizer in optimizers for n in optimizer._opt.applied]
        assert sorted(applied) == list(range(rounds))


@pytest.mark.parametrize("limit", [0, 2])
def test_threads_that_call_a_function_never_have_more_accepted_than_the_limit_allows(limit, rounds):
    num_threads, rounds = 4, rounds // 4
    step = tf.Variable(0, dtype=tf.int64)
    weights = tf.Variable(tf.zeros([(limit + 1) * rounds + 8]))
    optimizer = dropping(limit)(v1.train.GradientDescentOptimizer(1.0, use_locking=True))
    ready = Meeting(None, num_threads)
    all_done = threading.Barrier(num_threads)

    def function(worker):
        def loss():
            row = step.read_value()
            with tf.control_dependencies([row]):
                row += tf.cast(ready.join(worker, [row]), tf.int64)
            return weights[row]

        return tf.function(lambda: optimizer.minimize(loss, step, [weights]))

    functions = [function(worker) for worker in range(num_threads)]
    for traced in functions:
        traced.get_concrete_function()

    def work(train):
        for _ in range(rounds):
            train()
            all_done.wait(60)

    in_threads(*(lambda train=train: work(train) for train in functions))
    check([optimizer], step, weights, num_threads * rounds, limit)
    assert int(step) == (limit + 1) * rounds


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
    failing = dropping(0)(RecordingDescent(fail=error))
    kept = []
    for _ in range(rounds):
        with pytest.raises(error) as raised:
            failing.minimize(lambda: weights * 1.0, step, [weights])
        kept.append(raised)
    assert (int(failing.num_accepted()), int(failing.num_dropped()), int(step)) == (0, 0, 0)
    good = dropping(0)(RecordingDescent())
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
