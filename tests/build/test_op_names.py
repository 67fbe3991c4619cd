"""Tests of operation names, which do not contain the namespace of this package's op types."""

from __future__ import annotations

from operator import attrgetter

import tensorflow as tf

import tf_condacc
from tests.support.drop_stale_support import drop_stale, half_square
from tests.support.tower_support import rows
from tf_condacc._towers.reduction import sum_gradients

v1 = tf.compat.v1


def use_accumulators() -> None:
    for name in ("conditional_accumulator", None, ""):
        dense = tf_condacc.ConditionalAccumulator(tf.float32, [2], name=name)
        sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [2], name=name)
        slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))
        for method in ("apply_grad", "try_apply_grad"):
            getattr(dense, method)([1.0, 2.0], local_step=1)
            getattr(sparse, method)([0], [1.0], local_step=1)
        sparse.apply_indexed_slices_grad(slices)
        sparse.try_apply_indexed_slices_grad(slices)
        sparse.take_indexed_slices_grad(1)
        sparse.try_take_indexed_slices_grad(1)
        sparse.apply_indexed_slices_contribution(slices, 0)
        dense.apply_contribution([1.0, 2.0], 0)
        sparse.apply_contribution([0], [1.0], 0)
        for accumulator in (dense, sparse):
            accumulator.take_grad(1)
            accumulator.try_take_grad(1)
            accumulator.try_take_grad(1, global_step=1)
            accumulator.set_global_step(2)
            accumulator.reset(2)
            accumulator.num_accumulated()
            accumulator.num_dropped()
            accumulator.global_step()


def drop_stale_gradients() -> None:
    step = v1.train.get_or_create_global_step()
    weights = v1.get_variable("w", initializer=[1.0, 2.0])
    optimizer = drop_stale()
    optimizer.minimize(half_square(tf.convert_to_tensor(weights)), step)
    optimizer.num_accepted()
    optimizer.num_dropped()


def sum_gradients_of_towers() -> None:
    variable = v1.get_variable("v", initializer=[0.0, 0.0])
    sum_gradients([tf.constant([1.0, 2.0]), tf.constant([10.0, 20.0])], variable)
    sum_gradients([rows([1], [20.0], [2]), rows([0, 1], [1, 2], [2])], variable)


def all_operations(graph: tf.Graph) -> list:
    functions = attrgetter("library.function")(graph.as_graph_def())
    return [*graph.get_operations(), *(node for one in functions for node in one.node_def)]


def test_no_name_of_an_operation_has_the_namespace_in_it(switches):
    for use in (use_accumulators, drop_stale_gradients, sum_gradients_of_towers):
        use()
        with v1.variable_scope(f"scope_of_{use.__name__}"):
            use()
    operations = all_operations(v1.get_default_graph())
    types = {getattr(op, "type", None) or op.op for op in operations}
    assert len({name for name in types if name.startswith("Condacc>")}) >= 23
    assert [op.name for op in operations if "condacc" in op.name.lower()] == []


def test_programs_that_look_operations_up_by_the_originals_names_find_them(v1_graph):
    dense = tf_condacc.ConditionalAccumulator(tf.float32, [])
    taken = dense.take_grad(1)
    applied = dense.apply_grad(2.0)
    find = v1_graph.get_operation_by_name
    assert find("conditional_accumulator") is dense.accumulator_ref.op
    assert find("ResourceAccumulatorTakeGradient") is taken.op
    assert find("ResourceAccumulatorApplyGradient") is applied


def test_graph_of_version_1_has_no_operation_that_says_what_to_import(v1_graph):
    dense = tf_condacc.ConditionalAccumulator(tf.float32, [])
    dense.take_grad(1)
    types = [op.type for op in v1_graph.get_operations() if op.type.startswith("Condacc>")]
    assert types == ["Condacc>DenseAccumulator", "Condacc>DenseTake"]
