"""Tests with many threads of our extensions: a gradient is accepted or dropped, exactly once."""

from __future__ import annotations

import random
import threading

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import cancellation

from tests.support.accumulator_support import Background, every_kind
from tests.support.many_threads import FAR_AHEAD, build, drain, in_threads, whole

pytestmark = every_kind


def test_the_step_decides_exactly_once_who_is_stale(ours, seed):
    """Every try_apply is either accepted and taken once, or dropped and counted once."""
    run = build(ours, 50)
    threads, applies = 6, 150

    def apply(index):
        rng, accepted, drops = random.Random(seed + index), 0.0, 0
        for _ in range(applies):
            value = float(rng.randrange(1, 100))
            if run("try_apply", value, rng.randrange(60)):
                accepted += value
            else:
                drops += 1
        return accepted, drops

    def disturb():
        rng = random.Random(seed - 1)
        for _ in range(200):
            run("set_step", n=rng.randrange(60))

    def try_take():
        total = 0.0
        for _ in range(200):
            taken, value = run("try_take", r=2)
            total += whole(value) if taken else 0.0
        return total

    results = in_threads(*(lambda i=i: apply(i) for i in range(threads)), disturb, try_take)
    accepted = sum(total for total, _ in results[:threads])
    drops = sum(count for _, count in results[:threads])
    assert results[-1] + drain(run) == accepted
    assert run("dropped") == drops


def test_eager_threads_with_cancelled_takes_lose_nothing(ours, seed):
    acc = ours.dense(tf.float64, [64], reduction_type="SUM")
    concrete = tf.function(lambda: acc.take_grad(3)).get_concrete_function()
    done = threading.Event()

    def apply(index):
        rng, total = random.Random(seed + index), 0.0
        for _ in range(150):
            value = float(rng.randrange(1, 1000))
            if rng.random() < 0.5:
                acc.apply_grad(tf.fill([64], tf.constant(value, tf.float64)), FAR_AHEAD)
                total += value
            elif acc.try_apply_grad(np.full([64], value), FAR_AHEAD):
                total += value
        return total

    def take_until_cancelled():
        total = 0.0
        while not done.is_set():
            manager = cancellation.CancellationManager()
            timer = threading.Timer(0.002, manager.start_cancel)
            timer.start()
            try:
                total += whole(manager.get_cancelable_function(concrete)().numpy())
            except tf.errors.CancelledError:
                pass
            finally:
                timer.cancel()
        return total

    takers = [Background(take_until_cancelled) for _ in range(2)]
    accepted = sum(in_threads(*(lambda i=i: apply(i) for i in range(6))))
    done.set()
    total = sum(taker.result() for taker in takers)
    left = int(acc.num_accumulated())
    total += whole(acc.take_grad(left).numpy()) if left else 0.0
    assert total == accepted
