"""Sums over towers on the emulated GPU have the bits of numpy's sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from emulated_gpu import num_pushed

from tf_condacc._ops.native import ops

v1 = tf.compat.v1

NUM_SUMS = 3


def tower_sum(gradients: list[tf.Tensor], size: int, reduction_type: str) -> tf.Tensor:
    """Adds the gradients one after the other, as under determinism."""
    handle = ops.condacc_tower_dense_sum(
        dtype=tf.float32, shape=[size], reduction_type=reduction_type
    )
    adds: list[Any] = []
    for gradient in gradients:
        with tf.control_dependencies(adds[-1:]):
            adds.append(ops.condacc_tower_dense_add(handle, gradient))
    with tf.control_dependencies(adds):
        return ops.condacc_tower_dense_take(handle, len(gradients), dtype=tf.float32)


@pytest.mark.parametrize("reduction_type", ["MEAN", "SUM"])
@pytest.mark.parametrize("size", [3, 1001, 300000])
def test_sums_have_the_bits_of_numpy(seed: int, size: int, reduction_type: str) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    before = num_pushed()
    with tf.Graph().as_default() as graph:
        fed = [v1.placeholder(tf.float32, [size]) for _ in range(count)]
        gradients = [one * 1.0 for one in fed]
        sums = [tf.identity(tower_sum(gradients, size, reduction_type)) for _ in range(NUM_SUMS)]
        at_once = tf.identity(ops.condacc_tower_dense_sum_at_once(gradients, shape=[size]))
        config = v1.ConfigProto(allow_soft_placement=False)
        with v1.Session(graph=graph, config=config) as session:
            for _ in range(NUM_SUMS):
                data = [rng.standard_normal(size).astype(np.float32) for _ in range(count)]
                got, got_at_once = session.run([sums, at_once], dict(zip(fed, data, strict=True)))
                total = sum(data[1:], data[0])
                np.testing.assert_array_equal(got_at_once, total)
                mean = reduction_type == "MEAN"
                expected = total / np.float32(count) if mean else total
                for one in got:
                    np.testing.assert_array_equal(one, expected)
    assert num_pushed() > before, "nothing was put on the stream of the GPU"
