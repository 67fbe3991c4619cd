"""Many threads at once: every accepted gradient is counted exactly once."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
import tensorflow as tf
from dense_support import Background, unique_name
from tensorflow.python.eager import cancellation

tf1 = tf.compat.v1
FAR_AHEAD = 2**40


def in_threads(*calls):
    """Runs the calls at the same time; returns their results."""
    start = threading.Barrier(len(calls))

    def begin(call):
        start.wait(30)
        return call()

    running = [Background(begin, call) for call in calls]
    return [run.result(90) for run in running]


def many_threaded_session(graph):
    config = tf1.ConfigProto(inter_op_parallelism_threads=8, use_per_session_threads=True)
    return tf1.Session(graph=graph, config=config)


def build(impl, size):
    with tf.Graph().as_default() as graph:
        value, number = tf1.placeholder(tf.float64, []), tf1.placeholder(tf.int64, [])
        required = tf1.placeholder(tf.int32, [])
        acc = impl.dense(tf.float64, [size], reduction_type="SUM")
        ops = dict(
            apply=acc.apply_grad(tf.fill([size], value), number),
            take=acc.take_grad(required),
            count=acc.num_accumulated(),
            set_step=acc.set_global_step(number),
        )
        if impl.ours:
            ops["try_apply"] = acc.try_apply_grad(tf.fill([size], value), number)
            ops["try_take"] = acc.try_take_grad(required)
            ops["dropped"] = acc.num_dropped()
    session = many_threaded_session(graph)

    def run(op, v=0.0, n=0, r=1, options=None):
        return session.run(ops[op], {value: v, number: n, required: r}, options=options)

    return run


def whole(value) -> float:
    """The one number of which the gradient is made; a torn value has several."""
    assert np.all(value == value.flat[0]), "torn value"
    return float(value.flat[0])


def drain(run) -> float:
    left = int(run("count"))
    return whole(run("take", r=left)) if left else 0.0


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

    # A take gets everything there is, so there may be fewer rounds than applies / required:
    # what is missing for the last ones is applied by the feeder below.
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


def test_takes_that_time_out_lose_nothing(impl, seed):
    run = build(impl, 100)
    options = tf1.RunOptions(timeout_in_ms=1)
    done = threading.Event()

    def take_impatiently():
        total = timeouts = 0.0
        while not done.is_set():
            try:
                total += whole(run("take", r=2, options=options))
            except tf.errors.DeadlineExceededError:
                timeouts += 1
        return total

    def apply():
        for number in range(1, 501):
            run("apply", float(number), FAR_AHEAD)
        done.set()
        return 500 * 501 / 2

    taken, accepted = in_threads(take_impatiently, apply)
    assert taken + drain(run) == accepted


def test_setting_the_step_at_the_same_time_loses_nothing(impl, seed):
    run = build(impl, 200)
    done = threading.Event()

    def set_steps():
        rng = random.Random(seed)
        while not done.is_set():
            run("set_step", n=rng.randrange(100))

    def apply_all():
        for number in range(400):
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


def test_threads_over_several_sessions_of_a_server_lose_nothing(impl, seed):
    server = tf1.train.Server.create_local_server()
    name = unique_name("many")
    with tf.Graph().as_default() as graph:
        value = tf1.placeholder(tf.float64, [])
        acc = impl.dense(tf.float64, [], shared_name=name, reduction_type="SUM")
        apply, take = acc.apply_grad(value, FAR_AHEAD), acc.take_grad(2)
        count, take_rest = acc.num_accumulated(), acc.take_grad(1)

    done = threading.Event()

    def worker(index):
        rng, total, applied = random.Random(seed + index), 0.0, 0
        with tf1.Session(server.target, graph=graph) as session:
            while applied < 100 or not done.is_set():
                number = float(rng.randrange(1, 1000))
                session.run(apply, {value: number})
                total += number
                applied += 1
        return total

    def chief():
        with tf1.Session(server.target, graph=graph) as session:
            total = sum(float(session.run(take)) for _ in range(10))
        done.set()
        return total

    results = in_threads(*(lambda i=i: worker(i) for i in range(4)), chief)
    with tf1.Session(server.target, graph=graph) as session:
        left = float(session.run(take_rest)) if session.run(count) else 0.0
    assert results[-1] + left == sum(results[:-1])
