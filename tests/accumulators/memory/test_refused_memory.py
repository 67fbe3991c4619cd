"""Tests of a process that may have little more memory than it has: accumulators keep their state.

`test_refused_requests.py` refuses one request for memory after another. Here the system refuses
whatever is large.
"""

from __future__ import annotations

import contextlib
import gc
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.processes.isolated import isolated
from tests.support.gpus import skip_on_gpu
from tests.support.memory import MEGABYTE

pytestmark = [pytest.mark.long, isolated()]
SPARE_BYTES = 96 * MEGABYTE  # For all small allocations.
WIDTH = 64
ROWS = MEGABYTE  # A sparse gradient has 256 MB of float32 values and 8 MB of row numbers.


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Limits the address space of the process to little more than it uses."""
    skip_on_gpu("the limit is not that of the GPU's memory")
    gc.collect()  # Or results of earlier tests would be freed meanwhile.
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + SPARE_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.kinds("sparse")
def test_takes_leave_the_gradients(ours):
    acc = ours.sparse(tf.float32, reduction_type="SUM")
    for _ in range(2):
        acc.apply_grad(tf.range(ROWS, dtype=tf.int64)[::-1], tf.fill([ROWS, WIDTH], 3.0))
    with little_memory():
        for take_grad in (acc.take_grad, acc.try_take_grad, acc.take_grad):
            with pytest.raises(tf.errors.ResourceExhaustedError):
                take_grad(2)
            assert (int(acc.num_accumulated()), int(acc.global_step())) == (2, 0)
    taken = acc.take_grad(2)
    np.testing.assert_array_equal(taken.indices, np.arange(ROWS))
    assert (np.min(taken.values), np.max(taken.values)) == (6.0, 6.0)


@pytest.mark.kinds("sparse")
def test_fold_of_sparse_gradients_leaves_what_was_there(ours):
    """Small gradients cause a merge of the large ones that are accumulated."""
    acc = ours.sparse(tf.float32, reduction_type="SUM")
    for part in range(3):
        rows = tf.range(part * ROWS // 2, (part + 1) * ROWS // 2, dtype=tf.int64)
        acc.apply_grad(rows, tf.fill([ROWS // 2, WIDTH], 3.0))
    small = (tf.constant([0], tf.int64), tf.ones([1, WIDTH]))
    accepted = 0
    with little_memory():
        for _ in range(30):
            with contextlib.suppress(tf.errors.ResourceExhaustedError):
                acc.apply_grad(*small)
                accepted += 1
        assert int(acc.num_accumulated()) == 3 + accepted
    assert accepted < 30, "no request was refused"
    taken = acc.take_grad(3 + accepted)
    np.testing.assert_array_equal(taken.indices, np.arange(3 * ROWS // 2))
    np.testing.assert_array_equal(taken.values[0], np.full([WIDTH], 3.0 + accepted))
    assert (np.min(taken.values[1:]), np.max(taken.values[1:])) == (3.0, 3.0)
