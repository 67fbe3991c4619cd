"""Tests with many threads on one accumulator: a gradient is accepted or dropped, exactly once."""

from __future__ import annotations

import contextlib
import random
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation

from tests.support.accumulator_support import Background, every_kind, unique_name
from tests.support.many_threads import (
    FAR_AHEAD,
    build,
    drain,
    in_threads,
    many_threaded_session,
    whole,
)

v1 = tf.compat.v1
pytestmark = every_kind


@pytest.mark.parametrize("size", [1, 5000])
def test_appliers_against_takers_lose_and_double_nothing(impl, seed, size):
    run = build(impl, size)
    appliers, applies, takers, required = 8, 150, 3, 4

    def apply(index):
        rng, total = random.Random(seed + index), 0.0
        for _ in range(applies):
            value = float(rng.randrange(1, 1000))
            run("apply", value, FAR_AHEAD)
            total += value
        return total

    def take():
        return [whole(run("take", r=required)) for _ in range(rounds)]

    # A take gets all gradients that are there, so there may be fewer rounds than applies /
    # required. The feeder below applies the gradients that the last takes would otherwise wait for.
    rounds = 20
    done = threading.Event()

    def feed():
        total = 0.0
        while not done.is_set():
            run("apply", 1.0, FAR_AHEAD)
            total += 1.0
        return total

    feeder = Background(feed)
    results = in_threads(
        *(lambda i=i: apply(i) for i in range(appliers)), *(take for _ in range(takers))
    )
    done.set()
    accepted = sum(results[:appliers]) + feeder.result()
    taken = sum(sum(values) for values in results[appliers:])
    assert taken + drain(run) == accepted


def test_takes_that_time_out_neither_tear_nor_double_what_there_is(impl, seed):
    """A step that times out while its take succeeds discards the whole value, and does so rarely.

    The applier numbers its gradients, and the gradients of one take have consecutive numbers. The
    sum that a take returns therefore tells which gradients it had and, in the end, which ones are
    missing.
    """
    with tf.Graph().as_default() as graph:
        number = v1.placeholder(tf.float64, [])
        acc = impl.dense(tf.float64, [2], reduction_type="SUM")
        apply = acc.apply_grad(tf.stack([number, 1.0]), FAR_AHEAD)
        take, take_rest, count = acc.take_grad(2), acc.take_grad(1), acc.num_accumulated()
        step = acc.global_step() if impl.ours else None
    session = many_threaded_session(graph)
    hasty, done, taken = v1.RunOptions(timeout_in_ms=1), threading.Event(), []

    def take_impatiently():
        while not done.is_set():
            with contextlib.suppress(tf.errors.DeadlineExceededError):
                taken.append(session.run(take, options=hasty))

    def apply_all():
        for value in range(500):
            session.run(apply, {number: value})
        done.set()

    in_threads(take_impatiently, apply_all)
    if session.run(count):
        taken.append(session.run(take_rest))
    end = gaps = 0
    for total, size in taken:
        first = (total - size * (size - 1) / 2) / size
        assert first == int(first) and first >= end, "torn or doubled"
        gaps += first > end
        end = first + size
    gaps += end < 500
    if impl.ours:
        discarded = session.run(step) - len(taken)
        assert gaps <= discarded and (gaps == 0) == (discarded == 0)


def test_setting_the_step_at_the_same_time_loses_nothing(impl, seed):
    run = build(impl, 200)
    done = threading.Event()

    def set_steps():
        rng = random.Random(seed)
        while not done.is_set():
            run("set_step", n=rng.randrange(100))

    def apply_all():
        for _ in range(400):
            run("apply", 1.0, FAR_AHEAD)
            run("apply", 1000.0, -1)
        return 400.0

    setting = Background(set_steps)
    taking = Background(lambda: sum(whole(run("take", r=3)) for _ in range(20)))
    accepted = apply_all()
    while not taking.done:
        accepted += apply_all()
    done.set()
    setting.result()
    assert taking.result() + drain(run) == accepted


def test_threads_over_several_sessions_of_a_server_lose_nothing(impl, seed):
    server = v1.train.Server.create_local_server()
    name = unique_name("many")
    with tf.Graph().as_default() as graph:
        value = v1.placeholder(tf.float64, [])
        acc = impl.dense(tf.float64, [], shared_name=name, reduction_type="SUM")
        apply, take = acc.apply_grad(value, FAR_AHEAD), acc.take_grad(2)
        count, take_rest = acc.num_accumulated(), acc.take_grad(1)

    done = threading.Event()

    def worker(index):
        rng, total, applied = random.Random(seed + index), 0.0, 0
        with v1.Session(server.target, graph=graph) as session:
            while applied < 100 or not done.is_set():
                number = float(rng.randrange(1, 1000))
                session.run(apply, {value: number})
                total += number
                applied += 1
        return total

    def chief():
        with v1.Session(server.target, graph=graph) as session:
            total = sum(float(session.run(take)) for _ in range(10))
        done.set()
        return total

    results = in_threads(*(lambda i=i: worker(i) for i in range(4)), chief)
    with v1.Session(server.target, graph=graph) as session:
        left = float(session.run(take_rest)) if session.run(count) else 0.0
    assert results[-1] + left == sum(results[:-1])


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
