"""Where accumulators are that are made eagerly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tf_condacc._ops.native import ops

PLACES = {None: "GPU:0", "/CPU:0": "CPU:0", "/GPU:0": "GPU:0"}


@pytest.fixture(autouse=True)
def placed_by_tensorflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets TensorFlow place the operations that make accumulators."""
    for name in ("condacc_dense_accumulator", "condacc_sparse_accumulator"):
        make = getattr(ops, name)
        monkeypatch.setattr(ops, name, getattr(make, "__wrapped__", make))
    with tf.device(None):
        yield


@pytest.mark.parametrize("device", PLACES)
def test_accumulators_are_where_the_program_or_tensorflow_puts_them(device: str | None) -> None:
    with tf.device(device):
        accumulators = [
            tf_condacc.ConditionalAccumulator(tf.float32),
            tf_condacc.SparseConditionalAccumulator(tf.float32, shared_name=f"shared {device}"),
        ]
    for accumulator in accumulators:
        assert accumulator.accumulator_ref.device.endswith(PLACES[device])


@pytest.mark.parametrize("device", ["/CPU:0", "/GPU:0"])
def test_gradients_of_a_variable_are_accumulated_where_it_is(device: str) -> None:
    with tf.device(device):
        variable = tf.Variable(np.zeros([3], np.float32))
    accumulator = tf_condacc.GradientAccumulator([variable], 2)
    with tf.device("/CPU:0"):
        for value in (1.0, 3.0):
            accumulator.accumulate([tf.constant(np.full([3], value, np.float32))], weight=value)
        (taken,) = accumulator.take(2)
    np.testing.assert_array_equal(taken, np.full([3], 2.5, np.float32))
    (made,) = accumulator._replicas._sums[0]
    assert made.accumulator.accumulator_ref.device.endswith(PLACES[device])
