"""Tests of the operations that accumulators add to a graph: names, types, shapes, placement."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.training import device_setter

from tests.support.accumulator_support import every_kind, needs_resource, unique_name

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


@pytest.mark.parametrize("name", [None, ""])
def test_no_name_means_the_originals_op_type(impl, graph, name):
    assert impl.dense(tf.float32, name=name).name == impl.nameless["accumulator"]


@needs_resource
def test_name_is_empty_in_eager_mode(impl):
    assert impl.dense(tf.float32, name="Q", shared_name=unique_name()).name == ""


@needs_resource
def test_eager_name_is_the_name_scope(impl):
    with tf.name_scope("outer"):
        accumulator = impl.dense(tf.float32, shared_name=unique_name())
    assert accumulator.name == "outer/"


@pytest.mark.parametrize("attribute", ["name", "dtype", "accumulator_ref"])
def test_properties_are_read_only(impl, graph, attribute):
    accumulator = impl.public(tf.float32)
    with pytest.raises(AttributeError):
        setattr(accumulator, attribute, None)


@needs_resource
def test_accumulator_ref_is_the_resource_handle(impl, graph):
    accumulator = impl.dense(tf.float32, [2])
    handle = accumulator.accumulator_ref
    assert handle.dtype == tf.resource
    assert handle.op.type == impl.op_type
    assert handle.op.name == accumulator.name


def test_handle_is_a_scalar_for_the_static_shapes_too(ours, graph):
    assert ours.dense(tf.float32, [2]).accumulator_ref.shape.as_list() == []


def test_attributes_hold_the_constructor_arguments(impl, graph):
    op = impl.dense(tf.float64, [None, 3], shared_name="s", reduction_type="SUM").accumulator_ref.op
    assert op.get_attr("dtype") == tf.float64
    assert tf.TensorShape(op.get_attr("shape")).as_list() == [None, 3]
    assert op.get_attr("shared_name") == b"s"
    assert op.get_attr("reduction_type") == b"SUM"
    assert op.get_attr("container") == b""


def test_container_is_taken_from_the_graph(impl, graph):
    with graph.container("box"):
        accumulator = impl.dense(tf.float32)
    assert accumulator.accumulator_ref.op.get_attr("container") == b"box"


def test_num_accumulated_is_named_after_the_accumulator_without_its_scope(impl, graph):
    with tf.name_scope("outer"):
        accumulator = impl.dense(tf.float32, name="Q")
    assert accumulator.num_accumulated().op.name == "Q_NumAccumulated"


@pytest.mark.parametrize("name", [None, ""])
def test_other_ops_are_named_after_the_originals_types(impl, graph, name):
    accumulator = impl.public(tf.float32, [1])
    gradient = ([0], [1.0]) if impl.kind == "sparse" else ([1.0],)
    assert accumulator.apply_grad(*gradient, name=name).name == impl.nameless["apply_grad"]
    taken = accumulator.take_grad(1, name=name)
    taken = taken.values if impl.kind == "sparse" else taken
    assert taken.op.name == impl.nameless["take_grad"]
    assert accumulator.set_global_step(1, name=name).name == impl.nameless["set_global_step"]
    with tf.name_scope("outer"):
        accumulator.set_global_step(2)
    found = graph.get_operation_by_name(f"outer/{impl.nameless['set_global_step']}")
    assert found.type == accumulator.set_global_step(3).type


def test_further_ops_are_named_like_those_of_the_original(ours, graph):
    accumulator = ours.public(tf.float32, [1])
    gradient = ([0], [1.0]) if ours.kind == "sparse" else ([1.0],)
    prefix = ours.nameless["apply_grad"].removesuffix("ApplyGradient")
    assert accumulator.try_apply_grad(*gradient).op.name == f"{prefix}TryApplyGradient"
    assert accumulator.try_take_grad(1).taken.op.name == f"{prefix}TryTakeGradient"
    contributed = accumulator.apply_contribution(*gradient, 0)
    assert contributed.op.name == f"{prefix}ApplyContribution"
    assert accumulator.num_dropped().op.name == f"{ours.default_name}_NumDropped"
    assert accumulator.global_step().op.name == f"{ours.default_name}_GlobalStep"


def test_counts_of_an_eager_accumulator_in_a_function_are_named_like_those_of_the_original(ours):
    accumulator = ours.public(tf.float32, [1])

    @tf.function
    def counts():
        return accumulator.num_accumulated(), accumulator.num_dropped(), accumulator.global_step()

    prefix = ours.nameless["set_global_step"].removesuffix("SetGlobalStep")
    names = {op.name for op in counts.get_concrete_function().graph.get_operations()}
    assert names >= {f"{prefix}{what}" for what in ("NumAccumulated", "NumDropped", "GlobalStep")}


def test_given_op_names_are_used(impl, graph):
    accumulator = impl.dense(tf.float32, [1])
    assert accumulator.num_accumulated(name="count").op.name == "count"
    assert accumulator.apply_grad([1.0], name="apply").name == "apply"
    assert accumulator.take_grad(1, name="take").op.name == "take"
    assert accumulator.set_global_step(1, name="step").name == "step"


def test_given_names_of_the_further_ops_are_used(ours, graph):
    accumulator = ours.dense(tf.float32, [1])
    assert accumulator.try_apply_grad([1.0], name="try_apply").op.name == "try_apply"
    assert accumulator.try_take_grad(1, name="try_take")[0].op.name == "try_take"
    assert accumulator.apply_contribution([1.0], 0, name="contribute").op.name == "contribute"
    assert accumulator.num_dropped(name="dropped").op.name == "dropped"
    assert accumulator.global_step(name="now").op.name == "now"


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
    accepted = accumulator.try_apply_grad(v1.placeholder(tf.float64, [2, 3]))
    assert (accepted.dtype, accepted.shape.as_list()) == (tf.bool, [])
    taken, value = accumulator.try_take_grad(1)
    assert (taken.dtype, taken.shape.as_list()) == (tf.bool, [])
    assert value.dtype == tf.float64
    for number in (accumulator.num_dropped(), accumulator.global_step()):
        assert (number.dtype, number.shape.as_list()) == (tf.int64, [])


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


def test_saver_keeps_the_node_and_never_the_state(impl, graph, tmp_path):
    variable = v1.get_variable("v", initializer=1.0)
    accumulator = impl.dense(tf.float32, [], name="Q")
    apply, count = accumulator.apply_grad(2.0), accumulator.num_accumulated()
    saver = v1.train.Saver()
    with v1.Session() as session:
        session.run([variable.initializer, apply])
        path = saver.save(session, str(tmp_path / "model"))
    assert [name for name, _ in tf.train.list_variables(path)] == ["v"]
    with tf.Graph().as_default() as restored, v1.Session() as session:
        v1.train.import_meta_graph(path + ".meta").restore(session, path)
        assert restored.get_operation_by_name("Q").type == impl.op_type
        assert session.run(count.name) == 0


def test_gradients_through_a_take_are_none(impl, graph):
    variable = v1.get_variable("v", initializer=1.0)
    accumulator = impl.dense(tf.float32, [])
    with tf.control_dependencies([accumulator.apply_grad(variable * 2.0)]):
        taken = accumulator.take_grad(1)
    assert v1.gradients(taken, [variable]) == [None]


@pytest.mark.kinds("dense")
def test_device_setter_puts_the_original_on_the_ps(original, graph):
    assert original.op_type in device_setter.STANDARD_PS_OPS
    with v1.device(v1.train.replica_device_setter(ps_tasks=1)):
        accumulator = original.dense(tf.float32)
    assert accumulator.accumulator_ref.device == "/job:ps/task:0"


def test_device_setter_with_our_op_puts_the_accumulator_on_the_ps(ours, graph):
    ps_ops = (*device_setter.STANDARD_PS_OPS, ours.op_type)
    with v1.device(v1.train.replica_device_setter(ps_tasks=2, ps_ops=ps_ops)):
        first, second = ours.dense(tf.float32), ours.dense(tf.float32)
        count = first.num_accumulated()
    assert first.accumulator_ref.device == "/job:ps/task:0"
    assert second.accumulator_ref.device == "/job:ps/task:1"
    assert count.device == "/job:worker"


def test_state_is_marked_stateful(impl, graph):
    accumulator = impl.dense(tf.float32, [1])
    ops = [
        accumulator.accumulator_ref.op,
        accumulator.take_grad(1).op,
        accumulator.num_accumulated().op,
    ]
    if impl.ours:
        ops += [accumulator.try_take_grad(1)[0].op, accumulator.global_step().op]
        ops += [accumulator.num_dropped().op, accumulator.try_apply_grad([1.0]).op.inputs[0].op]
        assert all(op.op_def.is_stateful for op in ops)
    assert ops[0].op_def.is_stateful
