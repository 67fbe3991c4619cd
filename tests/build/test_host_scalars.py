"""Tests of scalars, which are computed on the CPU of the task whose GPU has the accumulator."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.accumulator_support import every_kind
from tests.support.drop_stale_support import drop_stale, every_switches, half_square, own_step
from tf_condacc._ops.host import host_int64

v1 = tf.compat.v1
OWN_OPS = "Condacc>"
WORKER = "/job:worker/task:1/device:GPU:0"
# For each scope, the device of the accumulators and the device of the scalars built in it.
SCOPES = {
    "/GPU:0": ("/device:GPU:0", "/device:CPU:0"),
    WORKER: (
        "/job:worker/task:1/device:GPU:0",
        "/job:worker/task:1/device:CPU:0",
    ),
    "/job:ps/replica:0/task:2/device:GPU:3": (
        "/job:ps/replica:0/task:2/device:GPU:3",
        "/job:ps/replica:0/task:2/device:CPU:0",
    ),
    "/job:ps/task:1": ("/job:ps/task:1", "/job:ps/task:1/device:CPU:0"),
    "/device:CPU:1": ("/device:CPU:1", "/device:CPU:1"),
    "": ("", "/device:CPU:0"),
}
STEPS: dict[str, Callable[[], Any]] = {
    "int": lambda: 3,
    "float": lambda: 3.0,
    "numpy int64": lambda: np.int64(3),
    "int32 tensor": functools.partial(v1.placeholder, tf.int32, [], name="user"),
    "int64 tensor": functools.partial(v1.placeholder, tf.int64, [], name="user"),
    "float tensor": functools.partial(v1.placeholder, tf.float32, [], name="user"),
    "int32 variable": lambda: own_step(tf.int32),
    "int64 variable": lambda: own_step(tf.int64),
}
METHODS = (
    "apply_grad",
    "try_apply_grad",
    "set_global_step",
    "apply_contribution",
    "reset",
    "try_take_grad",
)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def gradient_from_the_device(accumulator: Any) -> list[tf.Tensor]:
    """Returns a dense gradient, or the indices and the values of a sparse one."""
    values = v1.placeholder(tf.float32, [1], name="user")
    if not hasattr(accumulator, "apply_indexed_slices_grad"):
        return [values]
    return [v1.placeholder(tf.int64, [1], name="user"), values]


def call(accumulator: Any, method: str, step: Any, shape: Any) -> Any:
    """Calls a method that takes a step, with a gradient from the device if it takes one."""
    if method in ("set_global_step", "reset"):
        return getattr(accumulator, method)(step)
    if method == "try_take_grad":
        return accumulator.try_take_grad(1, global_step=step)
    gradient = gradient_from_the_device(accumulator)
    if method == "apply_contribution":
        return accumulator.apply_contribution(*gradient, 1, local_step=step)
    shape = [shape] if len(gradient) == 2 else []
    return getattr(accumulator, method)(*gradient, *shape, step)


def new_ops(graph: tf.Graph, before: list[tf.Operation]) -> list[tf.Operation]:
    """Returns the operations that were built since `before`, without those of the test itself."""
    known = {op.name for op in before}
    new = [op for op in graph.get_operations() if op.name not in known]
    return [op for op in new if not op.name.startswith(("user", "my_step"))]


def check_devices(ops: list[tf.Operation], scope: str) -> None:
    """Asserts that only this package's operations, and values, are on the accumulator's GPU."""
    of_accumulators, of_scalars = SCOPES[scope]
    assert any(op.type.startswith(OWN_OPS) for op in ops)
    for op in ops:
        if op.type.startswith(OWN_OPS):
            assert op.device == of_accumulators, op.name
        elif op.type == "EnsureShape":  # What was taken stays where it is.
            assert op.device == of_accumulators, op.name
        elif op.type != "ReadVariableOp":  # A read of a variable is on the variable's device.
            assert op.device == of_scalars, op.name


# A scope and the kind of a step do not depend on each other.
SCOPES_AND_STEPS = [(scope, "int32 tensor") for scope in SCOPES]
SCOPES_AND_STEPS += [(WORKER, step) for step in STEPS if step != "int32 tensor"]


@every_kind
@pytest.mark.parametrize(("scope", "step"), SCOPES_AND_STEPS)
def test_integers_of_every_method_are_converted_on_the_host(ours, graph, scope, step):
    with v1.device(scope):
        accumulator = ours.public(tf.float32, [1])
        is_float, step = "float" in step, STEPS[step]()
        before = graph.get_operations()
        for method in METHODS:
            call(accumulator, method, step, [1])
        if not is_float:
            accumulator.apply_contribution(*gradient_from_the_device(accumulator), step)
        accumulator.take_grad(3)
        accumulator.try_take_grad(3)
    check_devices(new_ops(graph, before), scope)


@pytest.mark.kinds("sparse")
@pytest.mark.parametrize(
    "shape",
    [
        lambda: None,
        lambda: np.array([7], np.int32),
        lambda: [v1.placeholder(tf.int32, [], name="user")],
        lambda: v1.placeholder(tf.int32, [1], name="user"),
    ],
    ids=["None", "array", "list of a tensor", "tensor"],
)
def test_dense_shapes_are_converted_on_the_host(ours, graph, shape):
    with v1.device(WORKER):
        accumulator = ours.public(tf.float32)
        shape = shape()
        before = graph.get_operations()
        call(accumulator, "apply_grad", 0, shape)
    check_devices(new_ops(graph, before), WORKER)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.9, 1),
        (-1.9, -1),
        (True, 1),
        (np.True_, 1),
        (2**40, 2**40),
        (np.uint64(2**64 - 1), -1),
        (np.array(5, np.uint8), 5),
        ([1, 2], [1, 2]),
        ([], []),
    ],
    ids=repr,
)
def test_conversion_truncates_and_wraps_like_a_cast(value, expected):
    converted = host_int64(value)
    assert converted.dtype == tf.int64
    with tf.Graph().as_default(), v1.Session() as session:
        for each in (converted.numpy(), session.run(host_int64(value))):
            np.testing.assert_array_equal(each, expected)


@pytest.mark.parametrize("value", [3.5, [3]], ids=repr)
def test_eager_conversion_is_on_the_host_where_there_is_a_gpu(value, monkeypatch):
    scopes = []

    class Scope(contextlib.nullcontext):
        def __init__(self, device: str) -> None:
            super().__init__()
            scopes.append(device)

    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    monkeypatch.setattr("tf_condacc._ops.host.tf.device", Scope)
    np.testing.assert_array_equal(host_int64(value), np.asarray(value, np.int64))
    assert scopes == ["/device:CPU:0"]


@pytest.mark.kinds("sparse")
@pytest.mark.parametrize("dtype", [tf.float32, tf.bool, tf.int16])
def test_row_numbers_are_cast_where_they_are(ours, graph, dtype):
    with v1.device("/GPU:0"):
        accumulator = ours.public(tf.float32)
        indices, values = v1.placeholder(dtype, [1]), v1.placeholder(tf.float32, [1])
        applied = accumulator.apply_grad(indices, values)
    assert (applied.inputs[2].op.type, applied.inputs[2].device) == ("Cast", "/device:GPU:0")


@every_kind
def test_device_functions_say_which_task_it_is(ours, graph):
    worker = "/job:ps/task:1/device:GPU:0"
    with v1.device(v1.train.replica_device_setter(ps_tasks=2, worker_device=worker)):
        accumulator = ours.public(tf.float32, [1])
        set_step = accumulator.set_global_step(2.0)
        applied = call(accumulator, "apply_grad", 1, [1])
    assert applied.device == set_step.device == worker
    for scalar in (applied.inputs[1], set_step.inputs[1]):
        assert scalar.device == "/job:ps/task:1/device:CPU:0"


@pytest.mark.parametrize(
    ("device", "expected", "stays"),
    [
        ("/job:ps/task:1/device:GPU:0", "/job:ps/task:1/device:CPU:0", False),
        ("/job:ps/task:1/device:CPU:1", "/job:ps/task:1/device:CPU:1", True),
        ("", "/device:CPU:0", False),
    ],
)
@every_kind
def test_scalars_are_colocated_with_operations_on_cpus_only(ours, graph, device, expected, stays):
    with v1.device(device):
        other = v1.placeholder(tf.float32, [], name="other")
    accumulator = ours.public(tf.float32)
    with v1.colocate_with(other):
        set_step = accumulator.set_global_step(1)
    scalar = set_step.inputs[1].op
    assert scalar.device == expected
    assert (scalar.colocation_groups() == [b"loc:@other"]) == stays
    assert set_step.colocation_groups() == [b"loc:@other"]


@every_kind
def test_functions_build_scalars_on_the_host_too(ours):
    accumulator = ours.public(tf.float32, [1])

    @tf.function
    def set_step(step):
        with tf.device("/job:localhost/task:0/device:GPU:0"):
            accumulator.set_global_step(step)

    graph = set_step.get_concrete_function(tf.TensorSpec([], tf.int32)).graph
    (cast,) = [op for op in graph.get_operations() if op.type == "Cast"]
    assert cast.device == "/job:localhost/task:0/device:CPU:0"


@pytest.mark.parametrize(("name", "dtype"), [("global_step", tf.int64), ("my_step", tf.int32)])
@every_switches
def test_what_a_staleness_gate_reads_is_computed_on_the_host(switches, name, dtype):
    gpu, cpu = "/job:worker/task:1/device:GPU:0", "/job:worker/task:1/device:CPU:0"
    graph = v1.get_default_graph()
    with v1.device(gpu):
        zeros = v1.zeros_initializer()
        step = v1.get_variable(name, [], dtype=dtype, initializer=zeros, trainable=False)
        weights = v1.get_variable("w", initializer=[1.0, 2.0])
        loss = half_square(tf.convert_to_tensor(weights))
        drop_stale(0).minimize(loss, step, [weights])
    decisions = [op for op in graph.get_operations() if "StalenessGateDecide" in op.type]
    ends = [op for op in graph.get_operations() if op.type == "Condacc>StalenessGateEnd"]
    assert decisions and ends
    for op, scalars in (
        *((op, op.inputs[2:]) for op in decisions),
        *((e, e.inputs[1:]) for e in ends),
    ):
        assert op.device == gpu
        assert [scalar.device for scalar in scalars] == [cpu] * len(scalars)
    assert graph.get_operation_by_name("local_step").device == cpu
    # The branches return an int32 that tells which one ran; TensorFlow keeps int32 in host memory.
    (flag,) = ends[0].inputs[1].op.inputs[:1]
    assert flag.dtype == tf.int32
