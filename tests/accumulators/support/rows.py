"""Sparse gradients as arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from tensorflow.python.framework import kernels

from tests.support.gpus import has_gpu


class Rows(NamedTuple):
    """A sparse gradient; if `shape` is None, the shape of the whole tensor is not given."""

    indices: Any
    values: Any
    shape: Any = None


def assert_rows(got: Any, indices: Any, values: Any, shape: Any = None) -> None:
    """Checks the rows that a take returned, for exact equality."""
    np.testing.assert_array_equal(got.indices, indices)
    np.testing.assert_array_equal(got.values, values)
    assert got.indices.dtype == np.int64 and got.shape.dtype == np.int64
    if shape is not None:
        np.testing.assert_array_equal(got.shape, shape)


def take_refuses_rows(impl: Any) -> bool:
    """Returns whether it is the take, and not the apply, that fails because of a bad row number.

    Our accumulators on a GPU check row numbers when they merge them, and then the round is lost.
    """
    if not impl.ours:
        return False
    kernel_defs = kernels.get_registered_kernels_for_op("Condacc>SparseTake").kernel
    return has_gpu() and any(kernel.device_type == "GPU" for kernel in kernel_defs)
