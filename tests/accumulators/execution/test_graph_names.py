"""Tests of the operations that accumulators add to a graph: names, types, shapes, placement."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.training import device_setter

from tests.support.accumulator_support import every_kind, needs_resource, unique_name
from tests.support.signatures import parameters

v1 = tf.compat.v1
pytestmark = every_kind


def test_name_is_the_last_component_after_uniquifying(impl, graph):
    with tf.name_scope("outer"):
        names = [impl.dense(tf.float32, name="Q").name for _ in range(3)]
    assert names == ["Q", "Q_1", "Q_2"]
    assert graph.get_operation_by_name("outer/Q_1").type == impl.op_type


def test_default_name(impl, graph):
    assert impl.dense(tf.float32).name == impl.default_name
    assert impl.dense(tf.float32).name == f"{impl.default_name}_1"
    assert impl.dense(tf.float32, name=None).name == impl.nameless["accumulator"]
    assert impl.dense(tf.float32, name="").name == f"{impl.nameless['accumulator']}_1"


@needs_resource
def test_eager_name_is_the_name_scope(impl):
    assert impl.dense(tf.float32, name="Q", shared_name=unique_name()).name == ""
    with tf.name_scope("outer"):
        accumulator = impl.dense(tf.float32, shared_name=unique_name())
    assert accumulator.name == "outer/"


def test_properties_are_read_only(impl, graph):
    for attribute in ("name", "dtype", "accumulator_ref"):
        with pytest.raises(AttributeError):
            setattr(impl.public(tf.float32), attribute, None)


@needs_resource
def test_accumulator_ref_is_the_resource_handle(impl, graph):
    accumulator = impl.dense(tf.float32, [2])
    handle = accumulator.accumulator_ref
    assert handle.dtype == tf.resource
    assert handle.op.type == impl.op_type
    assert handle.op.name == accumulator.name
    assert not impl.ours or handle.shape.as_list() == []


def test_attributes_hold_the_constructor_arguments(impl, graph):
    with graph.container("box"):
        accumulator = impl.dense(tf.float64, [None, 3], shared_name="s", reduction_type="SUM")
    op = accumulator.accumulator_ref.op
    assert op.get_attr("dtype") == tf.float64
    assert tf.TensorShape(op.get_attr("shape")).as_list() == [None, 3]
    assert op.get_attr("shared_name") == b"s"
    assert op.get_attr("reduction_type") == b"SUM"
    assert op.get_attr("container") == b"box"


def test_num_accumulated_is_named_after_the_accumulator_without_its_scope(impl, graph):
    with tf.name_scope("outer"):
        accumulator = impl.dense(tf.float32, name="Q")
    assert accumulator.num_accumulated().op.name == "Q_NumAccumulated"


def named_ops(acc, names=()):
    """Returns the names of the operations of each method, which get `names` if they are given."""
    names = dict(names)
    gradient = ([0], [1.0]) if hasattr(acc, "take_indexed_slices_grad") else ([1.0],)
    calls = {
        "apply_grad": lambda **name: acc.apply_grad(*gradient, **name),
        "take_grad": lambda **name: tf.nest.flatten(acc.take_grad(1, **name))[-1].op,
        "set_global_step": lambda **name: acc.set_global_step(1, **name),
        "num_accumulated": lambda **name: acc.num_accumulated(**name).op,
        "try_apply_grad": lambda **name: acc.try_apply_grad(*gradient, **name).op,
        "try_take_grad": lambda **name: acc.try_take_grad(1, **name).taken.op,
        "round": lambda **name: acc.try_take_grad(1, global_step=2, **name).taken.op,
        "apply_contribution": lambda **name: acc.apply_contribution(*gradient, 0, **name).op,
        "reset": lambda **name: acc.reset(1, **name).op,
        "num_dropped": lambda **name: acc.num_dropped(**name).op,
        "global_step": lambda **name: acc.global_step(**name).op,
    }
    methods = list(calls)[: None if hasattr(acc, "reset") else 4]
    if hasattr(acc, "take_indexed_slices_grad"):
        slices = tf.IndexedSlices(tf.constant([1.0]), [0])
        calls["apply_slices"] = lambda **name: acc.apply_indexed_slices_grad(slices, **name)
        calls["take_slices"] = lambda **name: acc.take_indexed_slices_grad(1, **name).values.op
        methods += ["apply_slices", "take_slices"] * bool(names)
    return {m: calls[m](**({"name": names[m]} if m in names else {})).name for m in methods}


def test_other_ops_are_named_after_the_originals_types(impl, graph):
    prefix = impl.nameless["apply_grad"].removesuffix("ApplyGradient")
    state = impl.nameless["set_global_step"].removesuffix("SetGlobalStep")
    expected = {
        "apply_grad": f"{prefix}ApplyGradient",
        "take_grad": f"{prefix}TakeGradient",
        "set_global_step": f"{state}SetGlobalStep",
        "num_accumulated": f"{impl.default_name}_NumAccumulated",
    }
    if impl.ours:
        expected |= {
            "try_apply_grad": f"{prefix}TryApplyGradient",
            "try_take_grad": f"{prefix}TryTakeGradient",
            "round": f"{prefix}TryTakeGradient_1",
            "apply_contribution": f"{prefix}ApplyContribution",
            "reset": f"{state}Reset",
            "num_dropped": f"{impl.default_name}_NumDropped",
            "global_step": f"{impl.default_name}_GlobalStep",
        }
    accumulator = impl.public(tf.float32, [1])
    assert named_ops(accumulator) == expected
    for name in (None, ""):
        again = f"{state}SetGlobalStep" + ("_1" if name is None else "_2")
        assert accumulator.set_global_step(1, name=name).name == again
    with tf.name_scope("outer"):
        accumulator.set_global_step(2)
    found = graph.get_operation_by_name(f"outer/{state}SetGlobalStep")
    assert found.type == accumulator.set_global_step(3).type


def test_given_op_names_are_used(impl, graph):
    accumulator = impl.public(tf.float32, [1])
    names = {method: f"my_{method}" for method in named_ops(accumulator, {"apply_grad": "x"})}
    assert named_ops(accumulator, names) == names


def test_counts_of_an_eager_accumulator_in_a_function_are_named_like_those_of_the_original(ours):
    accumulator = ours.public(tf.float32, [1])

    @tf.function
    def counts():
        return accumulator.num_accumulated(), accumulator.num_dropped(), accumulator.global_step()

    prefix = ours.nameless["set_global_step"].removesuffix("SetGlobalStep")
    names = {op.name for op in counts.get_concrete_function().graph.get_operations()}
    assert names >= {f"{prefix}{what}" for what in ("NumAccumulated", "NumDropped", "GlobalStep")}


@pytest.mark.parametrize("shape", [None, [], [2, 3], [None, 3]])
def test_return_types_and_static_shapes_in_a_graph(impl, graph, shape):
    accumulator = impl.dense(tf.float64, shape)
    gradient = v1.placeholder(tf.float64, shape)
    assert isinstance(accumulator.apply_grad(gradient), tf.Operation)
    assert isinstance(accumulator.set_global_step(1), tf.Operation)
    count = accumulator.num_accumulated()
    assert (count.dtype, count.shape.as_list()) == (tf.int32, [])
    taken = accumulator.take_grad(1)
    assert taken.dtype == tf.float64
    assert str(taken.shape) == str(impl.static_shape(shape))


def test_return_types_of_the_further_ops_in_a_graph(ours, graph):
    accumulator = ours.dense(tf.float64, [None, 3])
    gradient, number = v1.placeholder(tf.float64, [2, 3]), v1.placeholder(tf.int64, None)
    taken, value = accumulator.try_take_grad(1, global_step=number)
    assert value.dtype == tf.float64
    for returned, dtype in [
        (accumulator.try_apply_grad(gradient), tf.bool),
        (accumulator.try_take_grad(1)[0], tf.bool),
        (taken, tf.bool),
        (accumulator.apply_contribution(gradient, number), tf.int32),
        (accumulator.reset(number), tf.int64),
        (accumulator.num_dropped(), tf.int64),
        (accumulator.global_step(), tf.int64),
    ]:
        assert (returned.dtype, returned.shape.as_list()) == (dtype, [])
        op = returned.op.inputs[0].op if returned.op.type == "Equal" else returned.op
        assert op.op_def.is_stateful


@needs_resource
def test_return_types_in_eager_mode(impl):
    accumulator = impl.dense(tf.float32, [2], shared_name=unique_name())
    assert accumulator.apply_grad([1.0, 2.0]) is None
    assert accumulator.set_global_step(0) is None
    assert accumulator.num_accumulated().numpy() == 1
    assert accumulator.take_grad(1).shape.as_list() == [2]


def test_accumulator_and_its_ops_are_in_no_collection(impl, graph):
    accumulator = impl.dense(tf.float32, [])
    accumulator.apply_grad(1.0)
    accumulator.take_grad(1)
    accumulator.num_accumulated()
    accumulator.set_global_step(1)
    assert graph.get_all_collection_keys() == []


@needs_resource
def test_only_ours_can_be_part_of_a_checkpoint(impl):
    accumulator = impl.dense(tf.float32, [], shared_name=unique_name())
    accumulator = getattr(accumulator, "_accumulator", accumulator)
    if impl.ours:
        tf.train.Checkpoint(a=accumulator)
        return
    with pytest.raises(ValueError, match="trackable object"):
        tf.train.Checkpoint(a=accumulator)


def test_device_setters_put_accumulators_where_their_types_belong(ours, original, graph):
    """TensorFlow's setter knows the type of its own dense accumulator only."""
    theirs, mine = v1.train.replica_device_setter, ours.module.replica_device_setter
    assert parameters(mine) == parameters(theirs)
    is_known = original.op_type in device_setter.STANDARD_PS_OPS
    assert is_known == (original.kind == "dense")
    with v1.device(theirs(ps_tasks=1)):
        device = original.public(tf.float32).accumulator_ref.device
    assert device == ("/job:ps/task:0" if is_known else "/job:worker")
    with v1.device(mine(ps_tasks=2)):
        variable = v1.get_variable("v", initializer=tf.zeros([4, 2]))
        accumulators = [ours.public(tf.float32, [4, 2]) for _ in range(2)]
        count, total = accumulators[0].num_accumulated(), tf.constant(1.0) + 2.0
    devices = [each.device for each in (variable, *(a.accumulator_ref for a in accumulators))]
    assert devices == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]
    assert count.device == total.device == "/job:worker"
    for ps_ops, expected in (([ours.op_type], "/job:params/task:0"), ([], "/job:worker")):
        with v1.device(mine(ps_tasks=1, ps_device="/job:params", ps_ops=ps_ops)):
            assert ours.public(tf.float32).accumulator_ref.device == expected


def test_state_is_marked_stateful(impl, graph):
    accumulator = impl.dense(tf.float32, [1])
    for op in (accumulator.accumulator_ref.op, accumulator.num_accumulated().op):
        assert op.op_def.is_stateful or not impl.ours
    assert accumulator.accumulator_ref.op.op_def.is_stateful
