"""Tests of the sum of a variable's gradients over all towers: kinds, dtypes, shapes and order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tower_support import initialized_session, rows, sum_of, sums_one_by_one
from tf_condacc._ops.native import ops
from tf_condacc._towers.reduction import sum_gradients

v1 = tf.compat.v1
SHAPE = [4, 2]

# A function of the variable for each kind of gradient.
KINDS = {
    "dense": lambda v: tf.constant([[1.0, 2], [3, 4], [5, 6], [7, 8]]),
    "sparse": lambda v: rows([3, 1, 3], [[10.0, 10], [20, 20], [30, 30]], SHAPE),
}


@pytest.fixture(params=[False, True], ids=["at once", "one by one"])
def either_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Adds small dense gradients at once, and then one by one."""
    with sums_one_by_one(request.param):
        yield


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_narrow_gradients_are_added_in_float32_and_rounded_once(dtype: tf.DType):
    # In the narrow dtype, 2048 + 1 (or 256 + 1) would be rounded to 2048 (or 256).
    big = 2048.0 if dtype == tf.float16 else 256.0
    parts = [big] + [1.0] * 6
    with tf.Graph().as_default():
        dense = sum_of([lambda v, p=p: tf.constant([p], dtype) for p in parts], [1], dtype)
        with v1.variable_scope("other"):
            sparse = sum_of([lambda v, p=p: rows([0], [p], [1], dtype) for p in parts], [1], dtype)
        with v1.variable_scope("another"):
            repeated = [lambda v: tf.zeros([1], dtype), lambda v: rows([0] * 7, parts, [1], dtype)]
            mixed = sum_of(repeated, [1], dtype)
        with initialized_session() as session:
            values = session.run([dense, sparse.values, mixed])

    assert [float(value[0]) for value in values] == [big + 6] * 3


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("dtype", [tf.float64, tf.int32, tf.int64, tf.complex64, tf.complex128])
def test_other_dtypes_are_summed(dtype: tf.DType):
    with tf.Graph().as_default():
        variable = v1.get_variable("v", initializer=tf.zeros([2], dtype), use_resource=True)
        total = sum_gradients([tf.constant([1, 2], dtype), tf.constant([10, 20], dtype)], variable)
        with initialized_session() as session:
            assert session.run(total).tolist() == [11, 22]


def test_reference_variables_and_unknown_shapes_work():
    with tf.Graph().as_default():
        start = v1.placeholder_with_default([[1.0], [2.0]], [None, 1])
        variable = v1.Variable(start, use_resource=False, validate_shape=False)
        total = sum_gradients(
            [tf.constant([[1.0], [1]]), rows([1], [[5.0]], [2, 1]), rows([0], [[7.0]], [2, 1])],
            variable,
        )
        with initialized_session() as session:
            assert session.run(total).tolist() == [[8], [6]]


def test_a_sparse_gradient_of_unknown_dense_shape_is_summed():
    with tf.Graph().as_default():
        unknown = [tf.IndexedSlices(tf.ones([1, 2]), tf.constant([k])) for k in (2, 0)]
        variable = v1.get_variable("v", SHAPE, use_resource=True)
        sparse = sum_gradients(unknown, variable)
        mixed = sum_gradients([*unknown, tf.ones(SHAPE)], variable)
        with initialized_session() as session:
            value, dense = session.run([sparse, mixed])

    assert value.indices.tolist() == [0, 2] and value.dense_shape.tolist() == SHAPE
    assert dense.tolist() == [[2, 2], [1, 1], [2, 2], [1, 1]]


@pytest.mark.usefixtures("either_way")
def test_the_static_shape_is_the_variables():
    with tf.Graph().as_default():
        dense = sum_of([KINDS["dense"]] * 2, SHAPE)
        with v1.variable_scope("other"):
            sparse = sum_of([KINDS["sparse"]] * 2, SHAPE)

    assert dense.shape == SHAPE
    assert sparse.values.shape.as_list() == [None, 2]


@pytest.mark.usefixtures("either_way")
def test_gradients_of_another_shape_are_refused_when_built_and_when_run():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="[Ss]hape"):
            sum_of([KINDS["dense"], lambda v: tf.ones([3, 2])], SHAPE)
    with tf.Graph().as_default():
        unknown = v1.placeholder(tf.float32, None)
        total = sum_of([KINDS["dense"], lambda v: unknown], SHAPE)
        with initialized_session() as session:
            match = r"Shape mismatch: expected \[4,2\], got \[3,2\].*gradient_aggregating"
            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                session.run(total, {unknown: np.ones([3, 2])})


@pytest.mark.parametrize("other", ["sparse", "dense"])
@pytest.mark.parametrize("row", [-1, 4])
def test_rows_that_the_variable_does_not_have_are_refused(row: int, other: str):
    with tf.Graph().as_default():
        total = sum_of([KINDS[other], lambda v: rows([row], [[1.0, 1]], SHAPE)], SHAPE)
        with initialized_session() as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match="index of slice 0|negative"):
                session.run(total)


@pytest.mark.parametrize(
    ("size", "num_towers", "at_once"),
    [(2**16, 8, True), (2**16 + 1, 8, False), (2, 9, False), (None, 2, False)],
)
def test_a_few_small_gradients_are_added_at_once(size: int | None, num_towers: int, at_once: bool):
    with tf.Graph().as_default() as graph:
        start = v1.placeholder_with_default(tf.zeros([size or 3]), [size])
        variable = v1.Variable(start, use_resource=True, validate_shape=False)
        gradients = [tf.fill([size or 3], 1.0 + k) for k in range(num_towers)]
        total = sum_gradients(gradients, variable)
        types = [op.type for op in graph.get_operations()]
        with initialized_session() as session:
            value = session.run(total)

    assert types.count("Condacc>TowerDenseSumAtOnce") == at_once
    assert types.count("Condacc>TowerDenseAdd") == (0 if at_once else num_towers)
    np.testing.assert_array_equal(value, np.full([size or 3], num_towers * (num_towers + 1) / 2))


@pytest.mark.parametrize("either", [False, True], ids=["at once", "one by one"])
@pytest.mark.parametrize("count", [2, 8, 12])
def test_what_others_read_is_not_written_to(either: bool, count: int):
    with sums_one_by_one(either), tf.Graph().as_default():
        variables = [
            v1.get_variable(f"v{k}", initializer=[1.0 + k, 0.0], use_resource=True)
            for k in range(count)
        ]
        shared = [tf.identity(v.read_value()) for v in variables]
        mixed = [g if k % 2 else 2.0 * g for k, g in enumerate(shared)]
        totals = [sum_gradients(gradients, variables[0]) for gradients in (shared, mixed)]
        with tf.control_dependencies(totals):
            after = [tf.identity(g) for g in shared]
        with initialized_session() as session:
            for _ in range(2):
                values, results = session.run([after, totals])

    first = np.arange(1.0, count + 1)
    assert [value.tolist() for value in values] == [[number, 0.0] for number in first]
    assert results[0][0] == first.sum()
    assert results[1][0] == first.sum() + first[::2].sum()


class TestTheOps:
    """Tests of the ops alone, which learn the number of towers only from the take."""

    @staticmethod
    def _sum(kind: str = "dense", **attributes):
        make = getattr(ops, f"condacc_tower_{kind}_sum")
        return make(dtype=tf.float32, shape=[2], **attributes)

    @pytest.mark.parametrize(("reduction", "expected"), [("SUM", [6, 9]), ("MEAN", [2, 3])])
    def test_a_sum_is_scaled_as_asked(self, reduction: str, expected: list[float]):
        dense, sparse = (self._sum(kind, reduction_type=reduction) for kind in ("dense", "sparse"))
        for gradient in ([1.0, 2.0], [5.0, 0.0], [0.0, 7.0]):
            ops.condacc_tower_dense_add(dense, gradient)
        # The mean is over all towers, not only over those that have the row.
        for indices, values in (([0, 1], [1.0, 2]), ([0], [5.0]), ([1], [7.0])):
            ops.condacc_tower_sparse_add(sparse, indices, values, [2])

        assert ops.condacc_tower_dense_take(dense, 3, dtype=tf.float32).numpy().tolist() == expected
        taken = ops.condacc_tower_sparse_take(sparse, 3, dtype=tf.float32)
        assert taken.indices.numpy().tolist() == [0, 1]
        assert taken.values.numpy().tolist() == expected

    @pytest.mark.parametrize("kind", ["dense", "sparse"])
    def test_a_take_of_too_few_fails_rather_than_waits(self, kind: str):
        handle = self._sum(kind)
        take = getattr(ops, f"condacc_tower_{kind}_take")
        match = "Expected at least 2 gradients and no pending take, got 0"
        with pytest.raises(tf.errors.FailedPreconditionError, match=match):
            take(handle, 2, dtype=tf.float32)

    def test_handles_and_dtypes_of_something_else_are_refused(self):
        variable = tf.Variable([1.0, 2.0])
        accumulator = ops.condacc_dense_accumulator(dtype=tf.float32, shape=[2], anonymous=True)
        for handle in (variable.handle, accumulator, self._sum("sparse")):
            with pytest.raises(tf.errors.InvalidArgumentError, match="wrong type|Expected a dense"):
                ops.condacc_tower_dense_add(handle, [1.0, 2.0])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Dtype mismatch"):
            ops.condacc_tower_dense_add(self._sum(), tf.constant([1.0, 2.0], tf.float64))
        with pytest.raises(tf.errors.InvalidArgumentError, match="num_required"):
            ops.condacc_tower_dense_take(self._sum(), [1, 2], dtype=tf.float32)

    def test_every_execution_makes_another_sum(self):
        @tf.function
        def add_and_count() -> tf.Tensor:
            handle = self._sum()
            with tf.control_dependencies([ops.condacc_tower_dense_add(handle, [1.0, 2.0])]):
                return ops.condacc_accumulator_num_accumulated([handle])

        assert [int(add_and_count()) for _ in range(3)] == [1, 1, 1]

    def test_no_gradient_goes_through(self):
        with tf.GradientTape() as tape:
            value = tf.constant([1.0, 2.0])
            tape.watch(value)
            handle = self._sum()
            ops.condacc_tower_dense_add(handle, value)
            total = ops.condacc_tower_dense_take(handle, 1, dtype=tf.float32)
        assert tape.gradient(total, value) is None
