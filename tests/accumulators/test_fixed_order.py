"""Tests of accumulators that add gradients in the order of their contributors."""

from __future__ import annotations

import copy
import functools
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compat import v1
from tensorflow.python.framework import config

import tf_condacc
from tf_condacc._accumulators import base

InvalidArgument = tf.errors.InvalidArgumentError
DENSE = tf_condacc.ConditionalAccumulator
SPARSE = tf_condacc.SparseConditionalAccumulator
NUM_CONTRIBUTORS = 5
RANDOM = np.random.default_rng(17)
# Numbers of very different sizes, whose sums differ in their last bits if the order does.
GRADIENTS = (
    RANDOM.standard_normal([NUM_CONTRIBUTORS, 40, 3])
    * 10.0 ** RANDOM.integers(-4, 5, [NUM_CONTRIBUTORS, 40, 3])
).astype(np.float32)
# In the last column, two numbers cancel each other, so that even bfloat16 shows the order.
GRADIENTS[0, :, 2], GRADIENTS[3, :, 2] = 1e9, -1e9
ROWS = [RANDOM.integers(0, 30, [40]) for _ in range(NUM_CONTRIBUTORS)]
WEIGHTS = [0.3, 0.7, 1.3, 0.3, 2.9]
ORDERS = [list(order) for order in itertools.islice(itertools.permutations(range(5)), 7, None, 23)]


class Kind:
    """A kind of accumulator, its gradients, and what a take gives as one tensor."""

    def __init__(self, kind: type, reduction_type: str, dtype: tf.DType = tf.float32) -> None:
        self._kind, self._arguments = kind, (dtype, [30 if kind is SPARSE else 40, 3])
        self._options: dict[str, Any] = {"reduction_type": reduction_type}
        self._dtype = dtype

    def plain(self) -> Any:
        return self._kind(*self._arguments, **self._options)

    def ordered(self, **options: Any) -> Any:
        return self._kind.deterministic(
            NUM_CONTRIBUTORS, *self._arguments, **self._options, **options
        )

    def apply(self, accumulator: Any, contributor: int, with_weight: bool) -> tf.Tensor:
        weight = WEIGHTS[contributor] if with_weight else None
        values = tf.cast(tf.constant(GRADIENTS[contributor]), self._dtype)
        if self._kind is DENSE:
            return accumulator.apply_contribution(values, contributor, weight=weight)
        slices = tf.IndexedSlices(values, tf.constant(ROWS[contributor]))
        return accumulator.apply_indexed_slices_contribution(slices, contributor, weight=weight)

    def take(self, accumulator: Any, num_required: int) -> tf.Tensor:
        value = accumulator.try_take_grad(num_required).value
        if self._kind is DENSE:
            return value
        return tf.concat([tf.cast(value.indices[:, None], self._dtype), value.values], 1)


KINDS = {
    "dense MEAN": Kind(DENSE, "MEAN"),
    "dense SUM": Kind(DENSE, "SUM"),
    "dense bfloat16": Kind(DENSE, "MEAN", tf.bfloat16),
    "sparse MEAN": Kind(SPARSE, "MEAN"),
    "sparse SUM": Kind(SPARSE, "SUM"),
    "sparse GLOBAL_MEAN": Kind(SPARSE, "GLOBAL_MEAN"),
}


def _arrived(kind: Kind, make: Callable, order: Sequence[int], with_weight: bool) -> np.ndarray:
    """Returns what a take gives after the contributors have come in this order."""
    accumulator = make()
    for contributor in order:
        assert kind.apply(accumulator, contributor, with_weight) == 1
    return kind.take(accumulator, len(order)).numpy()


def _in_function(kind: Kind, make: Callable, order: Sequence[int], with_weight: bool) -> np.ndarray:
    accumulator = make()

    @tf.function
    def step() -> tf.Tensor:
        for contributor in order:
            kind.apply(accumulator, contributor, with_weight)
        return kind.take(accumulator, len(order))

    return step().numpy()


def _in_graph(kind: Kind, make: Callable, order: Sequence[int], with_weight: bool) -> np.ndarray:
    with tf.Graph().as_default(), v1.Session() as session:
        accumulator = make()
        applies = [
            kind.apply(accumulator, contributor, with_weight)
            for contributor in range(NUM_CONTRIBUTORS)
        ]
        taken = kind.take(accumulator, len(order))
        for contributor in order:
            assert session.run(applies[contributor]) == 1
        return session.run(taken)


dense_and_sparse = pytest.mark.parametrize(
    "kind", [KINDS["dense MEAN"], KINDS["sparse MEAN"]], ids=["dense", "sparse"]
)
both_classes = pytest.mark.parametrize("kind", [DENSE, SPARSE], ids=["dense", "sparse"])
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def _bits(values: np.ndarray) -> bytes:
    return values.tobytes()


@functools.cache
def _expected(kind: Kind, with_weight: bool) -> bytes:
    """Returns the bits of arrival in order, after a check that other orders give others."""
    orders = [list(range(NUM_CONTRIBUTORS)), *ORDERS]
    arrived = [_bits(_arrived(kind, kind.plain, order, with_weight)) for order in orders]
    assert len(set(arrived)) > 1, "with these gradients, the order must matter"
    return arrived[0]


@pytest.mark.weighted_means("sparse MEAN")
@every_kind
def test_the_bits_do_not_depend_on_the_order_of_arrival(kind):
    expected = _expected(kind, True)
    for order in ORDERS:
        assert _bits(_arrived(kind, kind.ordered, order, True)) == expected


@dense_and_sparse
@pytest.mark.parametrize("run", [_in_function, _in_graph])
def test_nor_do_they_in_a_function_or_a_graph(run, kind):
    expected = _expected(kind, False)
    for order in ORDERS:
        assert _bits(run(kind, kind.ordered, order, False)) == expected


@pytest.mark.weighted_means("sparse MEAN")
@every_kind
def test_a_take_of_some_contributors_adds_them_in_order(kind):
    expected = _bits(_arrived(kind, kind.plain, [1, 2, 4], True))
    for order in itertools.permutations([1, 2, 4]):
        assert _bits(_arrived(kind, kind.ordered, order, True)) == expected


@dense_and_sparse
def test_every_round_and_every_copy_has_its_own_order(kind):
    made = kind.ordered()
    results = set()
    for accumulator in (made, copy.deepcopy(made)):
        for order in ORDERS:
            assert int(kind.apply(accumulator, order[0], False)) == 1
            assert int(kind.apply(accumulator, order[0], True)) == 3, "a duplicate"
            for contributor in order[1:]:
                kind.apply(accumulator, contributor, False)
            results.add(_bits(kind.take(accumulator, NUM_CONTRIBUTORS).numpy()))
            accumulator.reset(0)
    assert len(results) == 1


@dense_and_sparse
def test_applies_and_takes_that_do_not_fit_are_refused(kind):
    accumulator = kind.ordered(name="strict")
    gradient = GRADIENTS[0] if kind is KINDS["dense MEAN"] else (ROWS[0], GRADIENTS[0])
    gradient = gradient if isinstance(gradient, tuple) else (gradient,)
    expected = r"contributors 0 to 4: expected one of these, got {} \(accumulator 'strict'\)"
    with pytest.raises(InvalidArgument, match=expected.format("no contributor")):
        accumulator.apply_grad(*gradient)
    with pytest.raises(InvalidArgument, match=expected.format("no contributor")):
        accumulator.try_apply_grad(*gradient, weight=2.0)
    for contributor in (-1, 5):
        with pytest.raises(InvalidArgument, match=expected.format(contributor)):
            accumulator.apply_contribution(*gradient, contributor)
    with pytest.raises(InvalidArgument, match="num_required .* 5, but was 6 .*strict"):
        accumulator.take_grad(6)
    assert int(accumulator.num_accumulated()) == 0


@both_classes
@pytest.mark.parametrize("number, error", [(0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_the_number_of_contributors_is_a_positive_integer(kind, number, error):
    with pytest.raises(error, match=rf"{kind.__name__}.deterministic\(\) expects .* got {number}"):
        kind.deterministic(number, tf.float32, [2])


@pytest.mark.weighted_means("sparse")
@dense_and_sparse
def test_contributors_may_have_weights_in_order_of_arrival_too(kind):
    mean = _arrived(kind, kind.plain, list(range(NUM_CONTRIBUTORS)), True)
    if kind is KINDS["dense MEAN"]:
        expected = np.average(GRADIENTS, 0, WEIGHTS)
        np.testing.assert_allclose(mean[:, :2], expected[:, :2], rtol=1e-4, atol=1e-2)
    else:
        sums, totals = np.zeros([30, 3]), np.zeros(30)
        for rows, gradient, weight in zip(ROWS, GRADIENTS, WEIGHTS, strict=True):
            np.add.at(sums, rows, weight * gradient)
            totals[np.unique(rows)] += weight
        present = mean[:, 0].astype(int)
        expected = (sums / totals[:, None])[present]
        np.testing.assert_allclose(mean[:, 1:3], expected[:, :2], rtol=1e-4, atol=1e-2)


def test_with_op_determinism_sums_in_order_of_arrival_are_reported_once(caplog, monkeypatch):
    monkeypatch.setattr(base, "_warned_of_arrival", False)
    tf.config.experimental.enable_op_determinism()
    try:
        with caplog.at_level(logging.WARNING, "tf_condacc"):
            DENSE.deterministic(2, tf.float32, [2])
            SPARSE.deterministic(2, tf.float32, [2])
            DENSE(tf.int32, [2], reduction_type="SUM")  # Such sums have no rounding errors.
            variables = [tf.Variable([1.0, 2.0]), tf.Variable([1.0])]
            sums = tf_condacc.GradientAccumulator(variables, 2)
            sums.accumulate([tf.constant([1.0, 2.0]), None], weight=2.0)
            assert not caplog.records
            for kind in (DENSE, SPARSE, DENSE):
                kind(tf.float32, [2], name=f"late_{kind.__name__}")
    finally:
        config.disable_op_determinism()
    assert [
        record.getMessage().count("'late_ConditionalAccumulator'") for record in caplog.records
    ] == [1]


def test_the_operation_takes_at_most_one_contributor_and_one_weight():
    apply = tf_condacc._ops.native.ops.condacc_dense_apply
    handle = DENSE(tf.float32, [2], name="heavy").accumulator_ref
    number, weight = tf.constant(0, tf.int64), tf.constant(2.0, tf.float64)
    with pytest.raises(InvalidArgument, match="num_weights <= 1, got 2"):
        apply(handle, number, [1.0, 2.0], [number], [weight, weight])
    with pytest.raises(InvalidArgument, match="num_contributors <= 1, got 2"):
        apply(handle, number, [1.0, 2.0], [number, number], [])
    with pytest.raises(InvalidArgument, match="weight must be finite .*heavy"):
        apply(handle, number, [1.0, 2.0], [number], [-weight])


def test_a_saved_model_keeps_the_order(tmp_path):
    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.accumulator = DENSE.deterministic(2, tf.float32, [1], reduction_type="SUM")

        @tf.function(input_signature=[tf.TensorSpec([1]), tf.TensorSpec([], tf.int64)])
        def apply(self, gradient: tf.Tensor, contributor: tf.Tensor) -> tf.Tensor:
            return self.accumulator.apply_contribution(gradient, contributor)

    tf.saved_model.save(Model(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert int(loaded.apply([1.0], tf.constant(1, tf.int64))) == 1
    with pytest.raises(InvalidArgument, match="contributors 0 to 1"):
        loaded.apply([1.0], tf.constant(2, tf.int64))
