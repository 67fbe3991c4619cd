"""Tests of the interface: signatures, errors, and the graph after apply_gradients."""

from __future__ import annotations

import json
import logging
import re
from types import SimpleNamespace

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.signatures import parameters

v1 = tf.compat.v1
ORIGINAL, OURS = v1.train.SyncReplicasOptimizer, tf_condacc.SyncReplicasOptimizer
METHODS = [
    "__init__",
    "apply_gradients",
    "compute_gradients",
    "get_chief_queue_runner",
    "get_init_tokens_op",
    "get_name",
    "get_slot",
    "get_slot_names",
    "make_session_run_hook",
    "minimize",
    "variables",
]


def make(
    optimizer: type, replicas: int = 2, total: int | None = None, **kwargs
) -> v1.train.Optimizer:
    return optimizer(v1.train.MomentumOptimizer(1.0, 0.5), replicas, total, **kwargs)


def applied(optimizer: type, *args, **kwargs) -> v1.train.Optimizer:
    made = make(optimizer, *args, **kwargs)
    weights = v1.get_variable("w", [2])
    made.apply_gradients([(tf.ones([2]), weights)], v1.train.get_or_create_global_step())
    return made


def message(call) -> str:
    with pytest.raises(ValueError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("method", METHODS)
def test_signatures_are_those_of_the_original(method):
    assert parameters(getattr(OURS, method)) == parameters(getattr(ORIGINAL, method))


def test_every_public_name_of_the_original_exists(v1_graph):
    public = {name for name in dir(ORIGINAL) if not name.startswith("_")}
    assert public <= set(dir(OURS))
    made = applied(OURS)
    for name in ("chief_init_op", "local_step_init_op", "ready_for_local_init_op"):
        assert getattr(made, name) is not None


@pytest.mark.parametrize(
    "call",
    [
        lambda made: made.get_chief_queue_runner(),
        lambda made: made.get_init_tokens_op(),
        lambda made: made.apply_gradients([], v1.train.get_or_create_global_step()),
        lambda made: made.apply_gradients([(tf.ones([2]), v1.get_variable("w", [2]))]),
        lambda made: made.apply_gradients(
            [("x", v1.get_variable("w", [2]))], v1.train.get_or_create_global_step()
        ),
        lambda made: made.make_session_run_hook(True).begin(),
    ],
    ids=["queue runner", "tokens", "no variables", "no step", "gradient type", "hook"],
)
def test_errors_are_those_of_the_original(call):
    messages = []
    for optimizer in (ORIGINAL, OURS):
        with tf.Graph().as_default():
            made = make(optimizer)
            messages.append(message(lambda made=made: call(made)))
    assert messages[0] == messages[1]


def test_subclasses_read_the_attributes_of_the_original(v1_graph):
    v1.train.get_or_create_global_step()
    made = [
        each.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 2, 3)
        for each in (tf_condacc, v1.train)
    ]
    variable = v1.get_variable("v", initializer=[1.0])
    names = ["_replicas_to_aggregate", "_total_num_replicas", "_tokens_per_step", "_global_step"]
    names += ["_gradients_applied"]
    for is_applied in (False, True):
        if is_applied:
            for each in made:
                each.minimize(variable, global_step=v1.train.get_global_step())
        ours, theirs = ([getattr(each, name) for name in names] for each in made)
        assert ours == theirs
    ours, theirs = (each._accumulator_list for each in made)
    assert [device for _, device in ours] == [device for _, device in theirs]
    assert ours[0][0].dtype == theirs[0][0].dtype
    assert made[0]._chief_queue_runner is made[0].get_chief_queue_runner()


@pytest.mark.parametrize("num_tokens", [0, 1])
def test_too_few_tokens_are_refused_as_by_the_original(num_tokens):
    messages = []
    for optimizer in (ORIGINAL, OURS):
        with tf.Graph().as_default():
            made = applied(optimizer, 3, 1)
            messages.append(message(lambda made=made: made.get_init_tokens_op(num_tokens)))
    assert messages[0] == messages[1]


def test_variables_that_are_not_initialized_fail_the_hook_as_in_the_original():
    texts = []
    for optimizer in (ORIGINAL, OURS):
        with tf.Graph().as_default(), v1.Session() as session:
            made = applied(optimizer)
            hook = made.make_session_run_hook(True)
            hook.begin()
            with pytest.raises(RuntimeError) as error:
                hook.after_create_session(session, tf.train.Coordinator())
            texts.append(str(error.value).split("error: ")[1])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_the_local_step_is_a_local_variable_of_the_global_steps_dtype(v1_graph, dtype):
    weights = v1.get_variable("w", [2])
    step = v1.get_variable("s", initializer=tf.constant(0, dtype), trainable=False)
    make(OURS).apply_gradients([(tf.ones([2]), weights)], step)
    (local,) = v1.local_variables()
    assert local.op.name == "sync_rep_local_step"
    assert local.dtype.base_dtype == dtype


def test_the_local_step_is_on_the_device_of_the_gate():
    """A worker's step does not send it. Variables are spread over servers as by the original."""
    cluster = {"ps": ["localhost:1", "localhost:2"], "worker": ["localhost:3"]}
    spread = []
    for optimizer in (ORIGINAL, OURS):
        setter = v1.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")
        with tf.Graph().as_default() as graph, v1.device(setter):
            made = applied(optimizer)
            v1.get_variable("after", [2])
            spread.append([each.device for each in v1.global_variables()])
    assert spread[0] == spread[1]
    (enter,) = [op for op in graph.get_operations() if op.type == "Condacc>SyncGateEnter"]
    (local,) = graph.get_collection(v1.GraphKeys.LOCAL_VARIABLES)
    assert made._global_step.device == "/job:ps/task:1"
    assert local.device == enter.device == "/job:ps/task:1/device:CPU:0"
    assert {each.device for each in enter.inputs} == {enter.device}


def test_each_graph_has_a_local_step_of_its_own_on_the_server_of_the_gate():
    target = v1.train.Server.create_local_server().target
    made = []
    for value in (5, 7):
        with tf.Graph().as_default() as graph, v1.Session(target) as session:
            applied(OURS)
            (local,) = v1.local_variables()
            session.run(local.initializer)
            session.run(local.assign(value))
            made.append((graph, local))
    values = []
    for graph, local in made:
        with v1.Session(target, graph=graph) as session:
            values.append(session.run(local))
    assert values == [5, 7]


def test_only_a_workers_step_runs_what_the_optimizer_is_built_after(v1_graph):
    """As when ``minimize`` is called after the updates of batch normalization."""
    weights = v1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
    updates = v1.get_variable("updates", initializer=0, use_resource=True, trainable=False)
    update = updates.assign_add(1, read_value=False)
    made = make(OURS, 1)
    with tf.control_dependencies([update]):
        train = made.minimize(tf.reduce_sum(weights), v1.train.get_or_create_global_step())
    graph, runner = made._graph, made.get_chief_queue_runner()
    others = [
        *(each.initializer for each in v1.local_variables()),
        graph.chief_init_op,
        graph.local_step_init_op,
        graph.ready_for_local_init_op,
        graph.close_op,
        graph.leave_op,
        graph.fail_op,
        graph.lose_op,
        graph.reports._report[0],
        graph.dismiss_op,
        *runner.enqueue_ops,
        runner.close_op,
        runner.cancel_op,
        made.get_init_tokens_op(1),
        *v1.get_collection(v1.GraphKeys.SUMMARIES),
    ]
    assert update.name in ancestors(train)
    assert [each.name for each in others if update.name in ancestors(each)] == []
    with v1.train.MonitoredTrainingSession(hooks=[made.make_session_run_hook(True)]) as session:
        for _ in range(3):
            session.run(train)
        assert session.run(updates) == 3


def ancestors(node: tf.Tensor | tf.Operation) -> set[str]:
    """Returns the names of all operations that run for a tensor or an operation."""
    graph = v1.get_default_graph().as_graph_def()
    kept = v1.graph_util.extract_sub_graph(graph, [getattr(node, "op", node).name])
    return {each.name for each in kept.node}


def test_slots_and_variables_are_those_of_the_wrapped_optimizer(v1_graph):
    made = applied(OURS)
    weights = v1.trainable_variables()[0]
    assert made.get_slot_names() == ["momentum"]
    assert made.get_slot(weights, "momentum").shape == weights.shape
    assert made.variables() == [made.get_slot(weights, "momentum")]


def test_options_are_checked_and_come_before_apply_gradients(v1_graph):
    made = make(OURS)
    with pytest.raises(TypeError, match="positional"):
        made.configure(10.0)  # Options are given by name.
    assert "takeover_secs" in message(lambda: made.configure(takeover_secs=0))
    assert "report_secs" in message(lambda: made.configure(report_secs=-1))
    assert "start_secs" in message(lambda: made.configure(start_secs=0))
    assert "GLOBAL_MEAN" in message(lambda: made.configure(sparse_reduction="mean"))
    for dtype in (tf.float32, "int8", "no dtype"):
        text = message(lambda dtype=dtype: made.configure(transport_dtype=dtype))
        assert "transport_dtype to be one of bfloat16, float16 or None" in text
    assert "before apply_gradients" in message(lambda: applied(OURS).configure())


@pytest.mark.parametrize("arguments", [(0,), (2, 0), ("2",), (1.5,)])
def test_numbers_of_replicas_are_checked(arguments):
    text = message(lambda: make(OURS, *arguments, name="my_name"))
    assert "my_name" in text and repr(arguments[-1]) in text


def test_eager_execution_is_an_error():
    with tf.init_scope(), pytest.raises(RuntimeError, match="sessions only"):
        step = tf.Variable(0, dtype=tf.int64)
        make(OURS).apply_gradients([(tf.ones([2]), tf.Variable([1.0, 2.0]))], step)


def test_workers_are_named_after_their_device_their_cluster_or_their_process(monkeypatch):
    from tf_condacc._optimizers.sync_replicas.worker_name import worker_name

    monkeypatch.setenv("TF_CONFIG", '{"task": {"type": "chief", "index": 0}}')
    assert worker_name("/job:worker/replica:0/task:3/device:CPU:0") == "/job:worker/task:3"
    assert worker_name("/job:worker/replica:2/task:3") == "/job:worker/replica:2/task:3"
    # A job without a task means all workers: the device of replica_device_setter(ps_tasks=1).
    for device in ("/device:CPU:0", "/job:worker", "/job:worker/replica:1"):
        with tf.Graph().as_default():
            name = worker_name(device)
            assert re.fullmatch(r"/job:chief/task:0(#\d+)?", name)
        with tf.Graph().as_default():
            assert worker_name(device) != name
    for useless in ("", "[]", "{", '{"cluster": {}}'):
        monkeypatch.setenv("TF_CONFIG", useless)
        with tf.Graph().as_default():
            name = worker_name("")
            assert worker_name("") == name
        with tf.Graph().as_default():
            assert worker_name("") != name
        assert name.count(":") == 1


def test_tensorflow_does_not_warn_of_a_step_that_it_reads_early(v1_graph, monkeypatch):
    logger, records = tf.get_logger(), []
    monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setattr(logger, "isEnabledFor", lambda level: level >= logging.WARNING)
    monkeypatch.setattr(logger, "handlers", [SimpleNamespace(level=0, handle=records.append)])

    def warnings_without_increase():
        counter = v1.train.StepCounterHook(every_n_steps=1000)
        counter._last_global_step = 0
        counter._steps_per_run = 1
        counter._global_step_check_count = 19
        counter._timer.update_last_triggered_step(0)
        counter.after_run(None, SimpleNamespace(results=0))
        return [each for each in records if "has not been increased" in each.getMessage()]

    assert len(warnings_without_increase()) == 1
    hook = applied(OURS, 1).make_session_run_hook(is_chief=True)
    with v1.train.MonitoredTrainingSession(hooks=[hook]):
        assert len(warnings_without_increase()) == 1
        logger.warning("another")
    assert "another" in [each.getMessage() for each in records]


def test_the_workers_of_tf_config_are_listed_or_else_those_of_the_device_setter(monkeypatch):
    from tf_condacc._optimizers.sync_replicas.worker_name import listed_workers

    cluster = {"ps": ["a:1"], "worker": ["b:1", "b:2"]}
    of_cluster = ["/job:worker/task:0", "/job:worker/task:1"]
    setter = tf_condacc.replica_device_setter(cluster=tf.train.ClusterSpec(cluster))
    with tf.Graph().as_default(), v1.device(setter):
        assert listed_workers() == []
        made = applied(OURS)
        assert listed_workers() == of_cluster
        config = {"cluster": {"chief": ["c:1"], **cluster}, "task": {"type": "chief", "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        assert listed_workers() == ["/job:chief/task:0", *of_cluster]
        for other in ("{", '{"cluster": {"worker": "b:1"}}', '{"task": {"type": "worker"}}'):
            monkeypatch.setenv("TF_CONFIG", other)
            assert listed_workers() == of_cluster
        opened = [op for op in made.chief_init_op.graph.get_operations() if "GateOpen" in op.type]
        assert [op.get_attr("listed") for op in opened] == [[each.encode() for each in of_cluster]]
    with tf.Graph().as_default(), v1.device(tf_condacc.replica_device_setter(ps_tasks=1)):
        applied(OURS)
        assert listed_workers() == []
