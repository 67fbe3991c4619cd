"""Where accumulators are that are made eagerly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf

import tf_condacc
from tf_condacc._ops.native import ops

# TensorFlow makes trackable resources on the first CPU if the program names no device.
PLACES = {None: "CPU:0", "/CPU:0": "CPU:0", "/GPU:0": "GPU:0"}


@pytest.fixture(autouse=True)
def placed_by_tensorflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets TensorFlow place the operations that make accumulators."""
    for name in ("condacc_dense_accumulator", "condacc_sparse_accumulator"):
        make = getattr(ops, name)
        monkeypatch.setattr(ops, name, getattr(make, "__wrapped__", make))
    with tf.device(None):
        yield


@pytest.mark.parametrize("device", PLACES)
def test_eager_accumulators_are_where_the_program_puts_them_or_on_the_cpu(
    device: str | None,
) -> None:
    with tf.device(device):
        accumulators = [
            tf_condacc.ConditionalAccumulator(tf.float32),
            tf_condacc.SparseConditionalAccumulator(tf.float32, shared_name=f"shared {device}"),
        ]
    for accumulator in accumulators:
        assert accumulator.accumulator_ref.device.endswith(PLACES[device])
