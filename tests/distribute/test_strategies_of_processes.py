"""Tests of strategies whose workers are processes, which are forked before TensorFlow is used."""

from __future__ import annotations

import json
import os
import signal
import sys
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.distribute.training import Training, big_batch, largest_difference, raised
from tests.processes.clusters import ForkedCluster
from tests.processes.isolated import isolated
from tests.support.waiting import until
from tf_condacc import ApplyOutcome, _times
from tf_condacc._micro_batches import strategies

pytestmark = [isolated(), pytest.mark.multi_worker]

# Serves as a task without this package.
SERVER = """
import json, sys
import tensorflow as tf
tf.distribute.Server(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), protocol="grpc").join()
"""


def _await_end(cluster: ForkedCluster, *tasks: tuple[str, int]) -> None:
    statuses = cluster.await_end(*tasks)
    assert all(statuses[task] == 0 for task in tasks), cluster.messages()


def _train_as_multi_worker(spec: dict[str, list[str]], job: str, task: int, folder: Path) -> None:
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": spec["worker"]}, "task": {"type": job, "index": task}}
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == 2
    training = Training(strategy, "Adam", num_micro_batches=4)
    training.run(steps=3)
    assert training.num_updates == 3
    assert largest_difference(training.weights, big_batch("Adam", steps=3)) < 1e-6
    _accumulate_on_each_worker(strategy)
    _clip_the_weighted_mean_of_workers(strategy)
    _continue_from_a_checkpoint(strategy, folder)
    if task == 1:
        _expect_that_another_workers_accumulator_is_out_of_reach()


def _accumulate_on_each_worker(strategy: tf.distribute.Strategy) -> None:
    """Each worker has an accumulator, and the workers add up what they take."""
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [])

    @tf.function
    def step(value: Any) -> Any:
        def replica() -> Any:
            for _ in range(2):
                accumulator.apply_grad(value, local_step=accumulator.global_step())
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, accumulator.take_grad(2))

        return strategy.run(replica)

    number = strategy.cluster_resolver.task_id
    assert [float(step(tf.constant(number + 1.0))) for _ in range(2)] == [3.0, 3.0]


def _clip_the_weighted_mean_of_workers(strategy: tf.distribute.Strategy) -> None:
    """The workers' gradients are [6, 8] with weight 1, and [0, 0] with weight 3."""
    import keras

    with strategy.scope():
        weights, optimizer = tf.Variable([0.0, 0.0]), keras.optimizers.SGD(1.0)
        accumulator = tf_condacc.GradientAccumulator([weights], 1, skip_non_finite=True)

    def replica(gradient: Any, weight: Any) -> Any:
        part = gradient / strategy.num_replicas_in_sync
        return accumulator.apply_gradients(optimizer, [part], weight=weight, clipnorm=1.25)

    step = tf.function(lambda *arguments: strategy.run(replica, arguments))
    number = strategy.cluster_resolver.task_id
    weight = tf.constant(1.0 + 2.0 * number)
    not_finite, finite = ([6.0, 8.0], [6.0, 8.0]) if number == 0 else ([np.nan, 0.0], [0.0, 0.0])
    assert not step(tf.constant(not_finite), weight)
    assert step(tf.constant(finite), weight)
    np.testing.assert_allclose(weights.numpy(), [-0.75, -1.0], rtol=1e-6)


def _continue_from_a_checkpoint(strategy: tf.distribute.Strategy, folder: Path) -> None:
    """The workers restore what all of them have accumulated from the checkpoint of the first."""
    undisturbed, saved, restored = (
        Training(strategy, "Adam", num_micro_batches=4) for _ in range(3)
    )
    undisturbed.train(range(8))
    expected_weights = undisturbed.weights
    saved.train(range(6))
    number = strategy.cluster_resolver.task_id
    warned = folder / "warned"
    log = unittest.mock.Mock()
    if number == 0:
        log.warning = lambda text, *arguments: warned.write_text(text % arguments)
    else:
        until(warned.exists, "the first worker warns that it waits for the second one")
    with (
        unittest.mock.patch.object(strategies, "_LOG", log),
        unittest.mock.patch.object(_times, "current", _times.Times(save_secs=0.25)),
    ):
        saved.checkpoint().save(str(folder / f"worker_{number}" / "saved"))
    assert "'gradient_accumulator' is being saved for 0.25 s" in warned.read_text()
    first = str(folder / "worker_0")
    path = until(lambda: tf.train.latest_checkpoint(first), "the first worker's checkpoint")
    for training in [undisturbed, restored] if number == 0 else [restored]:
        training.checkpoint().restore(path).assert_consumed()  # No worker waits for another.
    assert int(restored.accumulator.num_accumulated()) == 2
    _expect_that_the_state_of_one_worker_is_refused(restored.accumulator)
    restored.train(range(6, 8))
    for expected, weights in zip(expected_weights, restored.weights, strict=True):
        assert expected.tobytes() == weights.tobytes()


def _expect_that_the_state_of_one_worker_is_refused(
    accumulator: tf_condacc.GradientAccumulator,
) -> None:
    state = accumulator._trackable_children()["state"]
    tensors = state._serialize_to_tensors()
    layout = json.loads(tensors["layout"].numpy())
    del layout["replicas"]["1"]
    sizes = tensors["sizes"][: len(tensors["sizes"]) // 2]
    of_one = {
        "layout": tf.constant(json.dumps(layout)),
        "sizes": sizes,
        "states": tensors["states"][: tf.reduce_sum(sizes)],
    }
    error = raised(lambda: state._restore_from_tensors(of_one))
    assert "expected the replicas [0, 1], got [0]" in error
    assert int(accumulator.num_accumulated()) == 2


def _expect_that_another_workers_accumulator_is_out_of_reach() -> None:
    own = tf_condacc.ConditionalAccumulator(tf.float32, name="own")
    uses = {
        "conditional_accumulator": lambda: tf_condacc.ConditionalAccumulator(tf.float32),
        "own": own.num_accumulated,
    }
    for name, use in uses.items():

        def use_on_another_worker(use: Callable[[], Any] = use) -> None:
            with tf.device("/job:worker/task:0/device:CPU:0"):
                use()

        # Eagerly, an operation of an accumulator runs on the device of that accumulator.
        calls = [tf.function(use_on_another_worker)]
        calls += [use_on_another_worker] if name != "own" else []
        for call in calls:
            try:
                call()
            except tf.errors.InternalError as error:
                assert f"Accumulator '{name}' is on the device of another" in str(error), error
                assert "each needs its own" in str(error), error
            else:
                raise AssertionError("no error was raised")


def test_workers_of_multi_worker_mirrored_train_as_with_one_big_batch(tmp_path):
    cluster = ForkedCluster(
        tmp_path,
        0,
        2,
        lambda job, task, _: _train_as_multi_worker(cluster.spec, job, task, tmp_path),
    )
    with cluster:
        cluster.start()
        _await_end(cluster, ("worker", 0), ("worker", 1))


def _serve(spec: dict[str, list[str]], job: str, task: int) -> None:
    tf.distribute.Server(spec, job, task, protocol="grpc").join()


def _coordinate(spec: dict[str, list[str]], kill_worker: Callable[[], None]) -> None:
    """Trains with closures, one of which is retried because its worker dies after the apply."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(spec), rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable([0.0, 0.0])
    with tf.device(weights.device):
        once, often = (tf_condacc.ConditionalAccumulator(tf.float32, [2]) for _ in range(2))
        may_end = tf.queue.FIFOQueue(10, tf.bool, [])
    assert "/job:ps" in once.accumulator_ref.device

    @tf.function
    def push(step: Any, contributor: Any) -> Any:
        gradient = 2.0 * (weights - [1.0, 2.0])
        often.apply_grad(gradient, local_step=step)
        outcome = once.apply_contribution(gradient, contributor, local_step=step)
        with tf.control_dependencies([outcome]):
            may_end.dequeue()
        return outcome

    for step in range(3):
        arguments = [(tf.constant(step, tf.int64), tf.constant(number)) for number in range(2)]
        first = coordinator.schedule(push, args=arguments[0])
        if step == 1:
            until(lambda: int(once.num_accumulated()) == 1, "the apply")
            kill_worker()
        second = coordinator.schedule(push, args=arguments[1])
        for _ in range(3):  # The worker that was killed may have taken one with it.
            may_end.enqueue(True)
        coordinator.join()
        may_end.dequeue_many(may_end.size())
        retried = step == 1
        assert int(often.num_accumulated()) == (3 if retried else 2)
        expected = ApplyOutcome.DUPLICATE if retried else ApplyOutcome.ADDED
        assert [first.fetch(), second.fetch()] == [expected, ApplyOutcome.ADDED]
        assert int(once.num_accumulated()) == 2
        often.take_grad(1)
        weights.assign_sub(0.25 * once.take_grad(2))
    assert weights.numpy().tolist() == [0.875, 1.75]
    _expect_that_a_gradient_accumulator_is_refused(coordinator)


def _expect_that_a_gradient_accumulator_is_refused(coordinator: Any) -> None:
    accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 2)
    accumulate = tf.function(lambda: accumulator.accumulate([tf.ones([1])]))
    message = raised(lambda: (coordinator.schedule(accumulate), coordinator.join()))
    assert "does not work under ParameterServerStrategy" in message, message


def _use_a_worker_without_the_package(spec: dict[str, list[str]]) -> None:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(spec), rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    try:
        with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
            tf_condacc.ConditionalAccumulator(tf.float32)
    except tf.errors.NotFoundError as error:
        assert "Task /job:worker/replica:0/task:0" in str(error), error
        assert "`import tf_condacc` before it starts its server" in str(error), error
    else:
        raise AssertionError("no error was raised")
    with tf.device("/job:ps/replica:0/task:0/device:CPU:0"):
        accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [])
    coordinator.schedule(tf.function(lambda: accumulator.try_apply_grad(1.0)))
    try:
        coordinator.join()
    except tf.errors.NotFoundError as error:
        assert "not registered 'Condacc>Import_tf_condacc_first'" in str(error), error
        assert "/job:worker/replica:0/task:0" in str(error), error
    else:
        raise AssertionError("no error was raised")


def test_worker_without_the_package_is_told_to_import_it(tmp_path):
    def be(job: str, task: int, num_started: int) -> None:
        if job == "ps":
            _serve(spec, job, task)
        if task == 0:
            arguments = [json.dumps(spec), job, str(task)]
            os.execv(sys.executable, [sys.executable, "-c", SERVER, *arguments])
        _use_a_worker_without_the_package(spec)

    cluster = ForkedCluster(tmp_path, 1, 2, be)
    # The second worker of the cluster is the coordinator here.
    spec = {job: addresses[:1] for job, addresses in cluster.spec.items()}
    with cluster:
        cluster.start()
        _await_end(cluster, ("worker", 1))


def test_contribution_of_a_closure_that_is_retried_counts_once(tmp_path):
    def be(job: str, task: int, num_started: int) -> None:
        if (job, task) != ("worker", 1):
            _serve(spec, job, task)
        worker = cluster.running["worker", 0]
        _coordinate(spec, lambda: os.kill(worker, signal.SIGKILL))

    cluster = ForkedCluster(tmp_path, 1, 2, be)
    # The second worker of the cluster is the coordinator here.
    spec = {job: addresses[:1] for job, addresses in cluster.spec.items()}
    with cluster:
        cluster.start()
        killed = cluster.await_end(("worker", 0))
        assert killed == {("worker", 0): -signal.SIGKILL}, cluster.messages()
        cluster.start(("worker", 0))
        _await_end(cluster, ("worker", 1))
