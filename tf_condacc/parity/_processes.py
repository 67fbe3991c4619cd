"""Setups whose workers are processes: a strategy with several workers, and parameter servers."""

from __future__ import annotations

import collections
import json
import multiprocessing
import os
import pickle
import socket
import sys
import threading
import traceback
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_condacc._typing import Nested
from tf_condacc.parity import _batches
from tf_condacc.parity._condacc_setups import accumulator_for, apply, take
from tf_condacc.parity._optimizers import build, unequal_state
from tf_condacc.parity._setup import Run, Setup
from tf_condacc.parity._strategy_setups import under, use_logical_cpus
from tf_condacc.parity._training import Training


def multi_worker(num_workers: int = 2) -> Setup:
    """Returns the setup under a ``tf.distribute.MultiWorkerMirroredStrategy``.

    Each worker is a new Python process on this machine. They end with the training.

    Args:
        num_workers: Number of workers, each of which gets an equal part of the batch.

    Raises:
        ValueError: When the training begins: the processes cannot get its functions, as is the case
            with a lambda in a script.
        RuntimeError: When the training begins: a process failed. The error has its traceback.
    """
    name = f"MultiWorkerMirroredStrategy with {num_workers} workers"

    def begin(training: Training) -> Run:
        tasks = [("worker", index) for index in range(num_workers)]
        results = _train_in_processes(name, training, tasks, tasks)
        last = [[each.tobytes() for each in result.weights[-1]] for result in results]
        remarks = [
            f"the weights of worker {index} are not those of worker 0."
            for index in range(1, num_workers)
            if last[index] != last[0]
        ]
        remarks += results[0].remarks
        return _replayed(results[0]._replace(remarks=remarks), num_replicas=num_workers)

    return Setup(name, begin)


def parameter_servers(num_workers: int = 2) -> Setup:
    """Returns the setup under a ``tf.distribute.ParameterServerStrategy``.

    A ``ClusterCoordinator`` schedules a function on each worker, which applies the gradients of a
    part of the batch to accumulators on the parameter server. Then it makes one update of their
    means, or of their sums if the loss is a sum. The coordinator and each worker are new Python
    processes on this machine, because several workers in one process wait for each other in
    TensorFlow. They end with the training.

    Args:
        num_workers: Number of workers. Each gets an equal part of the batch in every step.

    Raises:
        ValueError, RuntimeError: As in `multi_worker`.
    """
    name = f"ParameterServerStrategy with {num_workers} workers"

    def begin(training: Training) -> Run:
        workers = [("worker", index) for index in range(num_workers)]
        tasks = [("chief", 0), ("ps", 0), *workers]
        (result,) = _train_in_processes(name, training, tasks, tasks[:1])
        return _replayed(result, num_micro_batches=num_workers)

    return Setup(name, begin)


class _Result(NamedTuple):
    """What a process sends.

    Attributes:
        variables: The names of the variables.
        weights: Their values before the first and after each step.
        remarks: What was observed beside the weights.
    """

    variables: list[str]
    weights: list[list[np.ndarray]]
    remarks: Sequence[str]


@dataclass(frozen=True)
class _Task:
    """What a process does.

    Attributes:
        setup: The name of the setup.
        cluster: The addresses of the tasks of each job.
        job: Its job.
        index: Its index in this job.
        training: The pickled training, or None if its functions have no names.
        test: The test of pytest that describes the training, or None.
        number: How often this test has used the setup, this time included.
        initial: The initial values of the variables.
        batches: The batches.
        num_cpus: Number of logical CPUs.
    """

    setup: str
    cluster: dict[str, list[str]]
    job: str
    index: int
    training: bytes | None
    test: str | None
    number: int
    initial: list[np.ndarray]
    batches: list[Any]
    num_cpus: int


def _replayed(result: _Result, num_replicas: int = 1, num_micro_batches: int = 1) -> Run:
    """Returns the run of a training that was made already."""
    left = iter(result.weights)
    weights = [next(left)]

    def step(features: Nested, labels: Nested) -> None:
        weights[:] = [next(left)]

    return Run(
        [types.SimpleNamespace(name=name) for name in result.variables],
        step,
        lambda: weights[0],
        num_replicas=num_replicas,
        num_micro_batches=num_micro_batches,
        remarks=lambda: result.remarks,
    )


def _train_in_processes(
    setup: str,
    training: Training,
    tasks: Sequence[tuple[str, int]],
    trainers: Sequence[tuple[str, int]],
) -> list[_Result]:
    """Starts processes, and returns the results of those that train, when all have sent theirs.

    Raises:
        ValueError, RuntimeError: As in `multi_worker`.
    """
    pickled, test = None, _running_test()
    given = training.initial, list(training.batches)
    try:
        pickled = pickle.dumps(training)
    except Exception as error:  # Whatever the objects of the program raise.
        if test is None:
            raise ValueError(
                f"{setup}: its processes import the functions of the training, so that they must "
                "be functions of a module or a script, and not lambdas or functions in functions, "
                "except in a test that pytest runs. A program that starts its own processes with "
                f"TF_CONFIG can use parity.under instead. {type(error).__name__}: {error}"
            ) from error
    _num_uses[test, setup] += 1
    number, num_cpus = _num_uses[test, setup], len(tf.config.list_logical_devices("CPU"))
    cluster: dict[str, list[str]] = {}
    sockets = [socket.create_server(("localhost", 0)) for _ in tasks]
    for (job, _), each in zip(tasks, sockets, strict=True):
        cluster.setdefault(job, []).append(f"localhost:{each.getsockname()[1]}")
        each.close()
    context = multiprocessing.get_context("spawn")
    processes, pipes = [], {}
    try:
        for job, index in tasks:
            ours, theirs = context.Pipe()
            task = _Task(setup, cluster, job, index, pickled, test, number, *given, num_cpus)
            processes.append(context.Process(target=_run, args=(task, theirs), daemon=True))
            processes[-1].start()
            theirs.close()
            pipes[job, index] = ours
        return _received(setup, pipes, trainers)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _received(setup: str, pipes: dict[Any, Any], trainers: Iterable[Any]) -> list[_Result]:
    """Returns the results of the trainers.

    Raises:
        RuntimeError: A process sent a traceback, or ended.
    """
    results: dict[Any, _Result] = {}
    while not all(task in results for task in trainers):
        waiting: dict[Any, Any] = {pipes[task]: task for task in pipes if task not in results}
        for pipe in list[Any](connection.wait(waiting)):
            job, index = waiting[pipe]
            try:
                received = pipe.recv()
            except EOFError:
                received = "Its process ended. What it printed says why."
            if isinstance(received, str):
                raise RuntimeError(f"{setup}: {job} {index} failed:\n{received}")
            results[job, index] = received
    return [results[task] for task in trainers]


_num_uses: collections.Counter[tuple[str | None, str]] = collections.Counter()


def _running_test() -> str | None:
    """Returns the test that pytest runs, with the path of its file, or None."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    path, _, rest = test.partition("::")
    frame = sys._getframe()
    while test and frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename.endswith(f"/{Path(path).as_posix()}"):
            return f"{frame.f_code.co_filename}::{rest}"
    return None


# The task of this process, its strategy, which has to be made first, and where it sends the result.
_started: tuple[_Task, Any, Any] | None = None


def _run(task: _Task, pipe: Any) -> None:
    """Does a task, and waits to be ended. It ends with its parent."""
    global _started
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        if "ps" in task.cluster and task.job != "chief":
            tf.distribute.Server(task.cluster, task.job, task.index, protocol="grpc").join()
        use_logical_cpus(task.num_cpus)
        _started = task, _new_strategy(task), pipe
        _find_and_train(task)
    except BaseException:
        pipe.send(traceback.format_exc())
    threading.Event().wait()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)


def _new_strategy(task: _Task) -> tf.distribute.Strategy:
    if task.job != "chief":
        own = {"type": task.job, "index": task.index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": task.cluster, "task": own})
        return tf.distribute.MultiWorkerMirroredStrategy()
    servers = {job: hosts for job, hosts in task.cluster.items() if job != "chief"}
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(servers), rpc_layer="grpc"
    )
    return tf.distribute.ParameterServerStrategy(resolver)


def _find_and_train(task: _Task) -> None:
    """Trains with the functions that were sent by name, or in the test that has them."""
    training = None
    if task.training is not None:
        try:
            training = pickle.loads(task.training)
        except (AttributeError, ImportError):  # A module of pytest that only pytest can import.
            if task.test is None:
                raise
    if training is not None:
        return _train(training)
    if task.number > 1:
        raise ValueError(
            f"expected one comparison with {task.setup} in a test, got another, which its "
            "processes cannot tell apart. Use pytest.mark.parametrize, or functions of the module."
        )
    import pytest

    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
    pytest.main([str(task.test), *options])
    raise RuntimeError(f"expected {task.test} to compare with {task.setup}, as it did before")


def train_if_started_for(training: Training, setups: Iterable[Setup] | None) -> None:
    """Trains in place of a comparison if this process was started for one of its setups."""
    if _started is not None and any(
        getattr(setup, "name", "") == _started[0].setup for setup in setups or ()
    ):
        _train(training)


def _train(training: Training) -> None:
    """Trains, sends the result, and waits to be ended."""
    assert _started is not None
    task, strategy, pipe = _started
    training.adopt(task.initial, task.batches)
    try:
        if task.job == "chief":
            run = _begin_on_workers(training, strategy, len(task.cluster["worker"]), task.setup)
        else:
            run = under(lambda: strategy, task.setup).begin(training)
        weights = [run.weights()]
        for features, labels in training.batches:
            run.step(features, labels)
            weights.append(run.weights())
        names = [getattr(each, "path", each.name).split(":")[0] for each in run.variables]
        pipe.send(_Result(names, weights, list(run.remarks())))
    except BaseException:
        pipe.send(traceback.format_exc())
    threading.Event().wait()


def _begin_on_workers(
    training: Training, strategy: tf.distribute.Strategy, num_workers: int, name: str
) -> Run:
    """Begins a training whose gradients a ``ClusterCoordinator`` has computed by workers."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model, optimizer = training.new_model(), training.optimizer()
        build(optimizer, model.variables)
    variables: list[Any] = []
    sparse = "SUM" if training.reduction == "sum" else "GLOBAL_MEAN"

    @tf.function
    def gradients(features: Nested, labels: Nested) -> list[Any]:
        pairs = training.gradients(model, features, labels)
        variables[:] = [variable for _, variable in pairs]
        return [gradient for gradient, _ in pairs]

    with strategy.scope():
        first = _constants(_batches.split(*next(iter(training.batches)), num_workers, name)[0])
        kinds = gradients.get_concrete_function(*first).structured_outputs
    with tf.device("/job:ps/replica:0/task:0/device:CPU:0"):
        made = [accumulator_for(sparse, *each) for each in zip(kinds, variables, strict=True)]
        begun, may_go_on = (tf.queue.FIFOQueue(num_workers, tf.bool, []) for _ in range(2))

    @tf.function
    def push(local_step: Any, features: Nested, labels: Nested) -> None:
        # A worker runs one function at a time. As each waits until all have begun, all work.
        with tf.control_dependencies([begun.enqueue(True)]):
            goes_on = may_go_on.dequeue()
        with tf.control_dependencies([goes_on]):
            for accumulator, gradient in zip(made, gradients(features, labels), strict=True):
                apply(accumulator, gradient, local_step)

    steps = iter(range(len(list(training.batches))))

    def step(features: Nested, labels: Nested) -> None:
        local_step = tf.constant(next(steps), tf.int64)
        for part in _batches.split(features, labels, num_workers, name):
            coordinator.schedule(push, args=(local_step, *_constants(part)))
        may_go_on.enqueue_many(begun.dequeue_many(num_workers))
        coordinator.join()
        taken = [take(accumulator, num_workers) for accumulator in made]
        optimizer.apply_gradients(list(zip(taken, variables, strict=True)))

    return Run(model.variables, step, remarks=lambda: unequal_state(optimizer))


def _constants(part: tuple[Nested, Nested]) -> tuple[Nested, Nested]:
    return tf.nest.map_structure(lambda each: None if each is None else tf.constant(each), part)
