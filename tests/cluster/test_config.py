"""The part of a process in a cluster, as TF_CONFIG tells it, and the placement of variables."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import socket
import subprocess

import pytest
import tensorflow as tf

import tf_condacc
from condacc import _times as times_of_condacc
from condacc.tf_config import read
from tests.processes.forked_python import forked_python
from tests.support.ports import free_cluster, free_ports
from tests.support.waiting import PATIENCE_SECS
from tf_condacc import _times, cluster
from tf_condacc.cluster import (
    GreedyLoadBalancingStrategy,
    _connections,
    _liveness,
    byte_size_load_fn,
)
from tf_condacc.cluster._ending import TrainingHasEndedError
from tf_condacc.cluster._liveness import watch_with_warnings
from tf_condacc.cluster._task import Task

v1 = tf.compat.v1

WORKERS = {"ps": ["a:1", "b:2"], "worker": ["c:3", "d:4"]}
WITH_CHIEF = {"chief": ["e:5"], **WORKERS}


def config(cluster, job, index=0):
    return {"cluster": cluster, "task": {"type": job, "index": index}}


def test_without_a_cluster_the_process_is_alone(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with cluster.start() as task:
        assert task.is_chief and task.master == "" and task.num_worker_replicas == 1
        assert task.replica_device_setter() is None


def test_the_environment_is_read(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config(WORKERS, "worker", 1)))
    assert read(None) == (WORKERS, "worker", 1)


@pytest.mark.parametrize(
    "spec, chief, workers",
    [(WORKERS, ("worker", 0), 2), (WITH_CHIEF, ("chief", 0), 3)],
    ids=["worker 0", "chief"],
)
def test_there_is_one_chief(spec, chief, workers):
    task = read(config(spec, "worker", 1))
    assert task.chief == chief
    assert task.workers[0] == chief and len(task.workers) == workers


@pytest.mark.parametrize(
    "value, message",
    [
        ("{", "TF_CONFIG is not valid JSON"),
        ("[]", "must be a JSON object, got"),
        ({"cluster": ["a:1"]}, "'cluster' must be an object, got"),
        ({"cluster": {"worker": "a:1"}}, "job 'worker' must be a list of addresses"),
        ({"cluster": {"worker": ["a"]}}, "job 'worker' must be a list of addresses"),
        ({"cluster": {"worker": ["a:0"]}}, "ports from 1 to 65535; got .'a:0'"),
        ({"cluster": {"worker": ["a:65536"]}}, "ports from 1 to 65535; got .'a:65536'"),
        (
            config({"ps": ["a:1", "b:1"], "worker": ["B:1"]}, "evaluator"),
            "its own address, got 'B:1' for ps 1 and for worker 0",
        ),
        ({"cluster": {"ps": ["a:1"]}}, "no chief and no worker"),
        ({"cluster": {**WORKERS, "chief": ["e:5", "f:6"]}}, "must have one chief"),
        ({"cluster": {**WITH_CHIEF, "master": ["f:6"]}}, "must have one chief"),
        ({"cluster": {"worker": ["a:1", "b:2"]}}, "2 tasks that train need a parameter server"),
        ({"cluster": WORKERS}, "'task' must be an object with 'type' and 'index'"),
        (config(WORKERS, "chief"), "job 'chief', which is not in the cluster of jobs"),
        (config(WORKERS, "ps", 2), "must be from 0 to 1, got 2"),
        (config(WORKERS, "ps", 1.0), "must be from 0 to 1, got 1.0"),
        (config(WORKERS, "ps", True), "must be from 0 to 1, got True"),
        (config(WORKERS, "ps", None), "must be from 0 to 1, got None"),
        (config(WORKERS, "ps", "x"), "must be from 0 to 1, got 'x'"),
    ],
)
def test_a_config_that_describes_no_task_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        read(value)


@pytest.mark.parametrize(
    "value",
    [
        {"clusters": WORKERS, "task": {"type": "worker", "index": 1}},
        {"cluster": {}, "task": {"type": "ps", "index": "0"}},
        {"task": {"type": "chief", "index": 1}},
        {"task": "worker"},
    ],
)
def test_a_task_without_a_cluster_is_refused_unless_it_may_train_alone(value):
    keys = re.escape(str(sorted(value)))
    with pytest.raises(ValueError, match=f'"cluster" is not set in TF_CONFIG.* the keys {keys}'):
        read(value)


@pytest.mark.parametrize(
    "task",
    [{}, {"type": "worker"}, {"type": "chief", "index": 0}, {"type": "master", "index": "0"}],
)
def test_a_first_task_without_a_cluster_trains_alone(task):
    assert read({"task": task, "model_dir": "/tmp"}) == ({}, "worker", 0)


def test_an_evaluator_without_a_cluster_does_not_train():
    evaluator = cluster.start({"task": {"type": "evaluator", "index": 0}})
    assert not evaluator.is_chief and evaluator.master == ""
    with pytest.raises(RuntimeError, match="An evaluator is not a part of the cluster"):
        evaluator.session()


def test_other_keys_beside_a_cluster_are_accepted():
    others = {"environment": "cloud", "rpc_layer": "grpc", "model_dir": "/tmp", "service": {}}
    assert read({**config(WORKERS, "worker", "1"), **others}) == (WORKERS, "worker", 1)


@pytest.mark.parametrize(
    "given, expected",
    [
        (None, "grpc.max_reconnect_backoff_ms=1000"),
        ('grpc.a=5,grpc.b="c"', 'grpc.a=5,grpc.b="c",grpc.max_reconnect_backoff_ms=1000'),
        ("grpc.max_reconnect_backoff_ms=5,grpc.a=1", "grpc.max_reconnect_backoff_ms=5,grpc.a=1"),
    ],
)
def test_an_option_of_grpc_is_added_to_those_of_the_user(monkeypatch, given, expected):
    if given is None:
        monkeypatch.delenv("TF_GRPC_DEFAULT_OPTIONS", raising=False)
    else:
        monkeypatch.setenv("TF_GRPC_DEFAULT_OPTIONS", given)
    _connections.reconnect_soon()
    assert os.environ["TF_GRPC_DEFAULT_OPTIONS"] == expected


@pytest.fixture
def connections():
    """Three connections to a server that does not read. Those with a time limit do not block."""
    with socket.create_server(("localhost", 0)) as server, contextlib.ExitStack() as stack:
        address = server.getsockname()
        made = [socket.create_connection(address, limit) for limit in (None, 5, 5)]
        yield [stack.enter_context(each) for each in made]


def test_the_kernel_watches_the_connections_of_the_cluster_only(connections):
    _connections._check_connections({connections[2].getsockname()[1]})
    watched = [each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for each in connections]
    assert watched == [0, 0, 1]
    _connections._check_connections({connections[0].getpeername()[1]})
    watched = [each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for each in connections]
    assert watched == [0, 1, 1]


def test_a_connection_to_a_process_that_does_not_read_is_not_lost(connections, monkeypatch):
    monkeypatch.setattr(_times, "current", _times.Times(lost_connection_secs=-1))
    monkeypatch.setattr(_connections, "_options", tuple)  # The kernel knows no such time.
    *_, connection = connections
    connection.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            connection.send(b"x" * 100_000)
    _connections._check_connections({connection.getsockname()[1]})
    with pytest.raises(BlockingIOError):  # BrokenPipeError if it were closed.
        connection.send(b"x")


def test_a_server_on_a_port_that_is_taken_is_named():
    with socket.create_server(("", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        with pytest.raises(tf.errors.UnknownError) as raised:
            Task(read(config({"worker": [address]}, "worker")))
    assert f"worker 0 cannot start its server at {address}: port " in raised.value.message
    assert "Address already in use. Could not start gRPC server" in raised.value.message


def test_a_warning_says_that_a_host_name_cannot_be_resolved(monkeypatch):
    def resolve(*arguments: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    times = times_of_condacc.Times(interval_secs=0.01)
    monkeypatch.setattr(times_of_condacc, "current", times)
    logged: queue.Queue = queue.Queue()
    monkeypatch.setattr(_liveness._LOG, "warning", lambda text, *values: logged.put(text % values))
    watch = watch_with_warnings({"ps 0": "no-such-host.invalid:1"}, 0.01)
    watch.start()
    assert logged.get(timeout=PATIENCE_SECS) == (
        "ps 0 (no-such-host.invalid:1) has not answered for 0.01 s: its host name cannot be "
        "resolved. Steps that need it wait."
    )
    watch.stop()
    assert watch.join(PATIENCE_SECS)


@pytest.fixture(scope="module")
def worker():
    """A task of a cluster whose other tasks are not there."""
    ports = free_ports(3)
    spec = {"ps": [f"localhost:{p}" for p in ports[:2]], "worker": [f"localhost:{ports[2]}"]}
    return Task(read(config(spec, "worker")))


def test_variables_are_spread_by_their_size(worker):
    sizes = {"a": 100, "b": 10, "c": 20, "d": 60, "e": 30}
    with tf.Graph().as_default(), v1.device(worker.replica_device_setter()):
        made = [v1.get_variable(name, [n], use_resource=n > 20) for name, n in sizes.items()]
    tasks = [tf.DeviceSpec.from_string(variable.device).task for variable in made]
    assert tasks == [0, 1, 1, 1, 1]


def test_an_accumulator_beside_its_variable_does_not_count(worker):
    with tf.Graph().as_default(), v1.device(worker.replica_device_setter()):
        big = v1.get_variable("big", [100])
        small = v1.get_variable("small", [10])
        with v1.device(small.device):
            accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [1000])
        last = v1.get_variable("last", [10])
        tasks = [tf.DeviceSpec.from_string(each.device).task for each in (big, small, last)]
        handle = tf.DeviceSpec.from_string(accumulator.accumulator_ref.device)
    assert tasks == [0, 1, 1] and handle.task == 1 and handle.job == "ps"


def test_sizes_are_in_bytes():
    with tf.Graph().as_default():
        resource = v1.get_variable("r", [2, 3], tf.float64, use_resource=True)
        reference = v1.get_variable("v", [5], tf.int32, use_resource=False)
        unknown = v1.placeholder(tf.float32, [None, 4])
        sizes = [byte_size_load_fn(each.op) for each in (resource.handle, reference, unknown)]
    assert sizes == [48, 20, 16]


def test_a_strategy_needs_a_parameter_server():
    with pytest.raises(ValueError, match="num_tasks >= 1, got 0"):
        GreedyLoadBalancingStrategy(0, byte_size_load_fn)


def test_a_task_sees_parameter_servers_and_itself(worker):
    assert list(worker.session_config.device_filters) == ["/job:ps", "/job:worker/task:0"]


@pytest.mark.parametrize("arguments", [{"master": "x"}, {"is_chief": True}, {"chekpoint_dir": "x"}])
def test_a_session_refuses_arguments_that_are_not_its_own(worker, arguments):
    with pytest.raises(TypeError, match=next(iter(arguments))):
        worker.session(**arguments)


@pytest.fixture(scope="module")
def without_package():
    """TF_CONFIG of a worker whose parameter server has not imported the package."""
    spec = free_cluster(1, 1)
    program = (
        f"import tensorflow as tf; tf.distribute.Server({spec}, job_name='ps', task_index=0).join()"
    )
    server = subprocess.Popen([*forked_python(), "-c", program], stderr=subprocess.DEVNULL)
    yield config(spec, "worker")
    server.kill()
    server.wait()


def test_a_server_without_the_package_is_told_to_import_it(without_package):
    with (
        pytest.raises(
            tf.errors.NotFoundError, match="Task /job:ps/.*/task:0 does not know"
        ) as raised,
        cluster.start(without_package) as task,
        tf.Graph().as_default(),
        v1.device(task.replica_device_setter()),
    ):
        count = tf_condacc.ConditionalAccumulator(tf.float32, []).num_accumulated()
        with task.session() as session:
            session.run(count)
    assert "must `import tf_condacc`" in raised.value.message
    # The same holds for programs that use only the optimizer.
    with tf.Graph().as_default(), v1.device(task.replica_device_setter()):
        step = v1.train.create_global_step()
        optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 1)
        optimizer.minimize(v1.get_variable("w", initializer=1.0) ** 2, step)
        hook = optimizer.make_session_run_hook(is_chief=True)
        with pytest.raises(tf.errors.NotFoundError, match="must `import tf_condacc`"):
            v1.train.MonitoredTrainingSession(task.master, config=task.session_config, hooks=[hook])


def test_other_errors_stay_as_they_are():
    with pytest.raises(tf.errors.NotFoundError, match="^no such file$"), Task(read({})):
        raise tf.errors.NotFoundError(None, None, "no such file")


def test_a_task_that_comes_after_the_end_of_training_says_so(caplog):
    with Task(read({})):
        raise TrainingHasEndedError
    assert caplog.messages == ["worker 0 ends: training has ended."]


def test_an_evaluator_has_no_session():
    evaluator = Task(read(config(WORKERS, "evaluator")))
    assert not evaluator.is_chief and evaluator.replica_device_setter() is None
    with pytest.raises(RuntimeError, match="An evaluator is not a part of the cluster"):
        evaluator.session()


def test_a_worker_does_not_wait_for_parameter_servers_without_end(worker):
    with pytest.raises(tf.errors.DeadlineExceededError, match="did not answer within 0.2 s"):
        worker._report_begin(0.2)
