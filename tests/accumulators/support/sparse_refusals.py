"""Sparse gradients that must be refused, and the messages of the errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorflow.python.framework import kernels

from tests.accumulators.support.rows import Rows
from tests.support.gpus import has_gpu


def ones(*shape):
    return np.ones(shape, np.float32)


# Each case has the constructor's shape, a gradient that is accumulated already, the refused
# gradient, and words of the message.
REFUSED = {
    "indices_of_rank_2": (
        None,
        None,
        Rows([[0, 1], [2, 3]], ones(2, 2)),
        "Input indices should be vector but received shape: [2,2]",
    ),
    "scalar_index": (
        None,
        None,
        Rows(3, ones(1, 2)),
        "Input indices should be vector but received shape: []",
    ),
    "scalar_values": (None, None, Rows([1], 1.0), "Values cannot be 0-dimensional."),
    "too_few_values": (
        None,
        None,
        Rows([1, 2], ones(1, 2)),
        "Expected 2 non-empty input values, got 1",
    ),
    "too_many_values": (
        None,
        None,
        Rows([1], ones(3, 2)),
        "Expected 1 non-empty input values, got 3",
    ),
    "no_values": (None, None, Rows([1], ones(0, 2)), "Expected 1 non-empty input values, got 0"),
    "no_indices": (None, None, Rows([], ones(2, 2)), "Expected 0 non-empty input values, got 2"),
    "grad_shape_of_lower_rank": (
        [3, 2, 2],
        None,
        Rows([1], ones(1, 2, 2), [3, 2]),
        "Shape mismatch: expected shape rank at least 3, got 2",
    ),
    "grad_shape_of_another_width": (
        [3, 2],
        None,
        Rows([1], ones(1, 2), [3, 3]),
        "Shape mismatch: expected shape dim 1 to be 2, got 3",
    ),
    "grad_shape_of_other_rows": (
        [3, 2],
        None,
        Rows([1], ones(1, 2), [4, 2]),
        "Shape mismatch: expected shape dim 0 to be 3, got 4",
    ),
    "row_beyond_the_constructors": (
        [3, 2],
        None,
        Rows([3], ones(1, 2)),
        "Shape mismatch: index of slice 0 exceeded limits of shape; index is 3 exceeded 3",
    ),
    "later_row_beyond_the_constructors": (
        [3, None],
        None,
        Rows([0, 2, 7, 9], ones(4, 2)),
        "Shape mismatch: index of slice 2 exceeded limits of shape; index is 7 exceeded 3",
    ),
    "other_rank_than_accumulated": (
        None,
        Rows([1], ones(1, 2, 2, 2)),
        Rows([1], ones(1, 2, 2)),
        "Shape mismatch: expected values rank 4, got 3",
    ),
    "other_width_than_accumulated": (
        None,
        Rows([1], ones(1, 2, 2, 2)),
        Rows([1], ones(1, 2, 2, 3)),
        "Shape mismatch: expected values dim 3 to be 2, got 3",
    ),
    "lower_rank_than_the_constructors": (
        [3, 2, 2],
        None,
        Rows([1], ones(1, 2)),
        "Shape mismatch: expected values rank at least 3, got 2",
    ),
    "another_width_than_the_constructors": (
        [3, 2],
        None,
        Rows([1], ones(1, 3)),
        "Shape mismatch: expected values dim 1 to be 2, got 3",
    ),
    "another_width_without_rows": (
        [3, 2],
        None,
        Rows([], ones(0, 3)),
        "Shape mismatch: expected values dim 1 to be 2, got 3",
    ),
}

# The original accepts these gradients, and ours refuses them. Only our messages have the last part.
OURS_ONLY = {
    "negative_row": (None, Rows([0, -1], ones(2, 2)), "index of slice 1 is negative; index is -1"),
    "negative_row_of_known_rows": ([3, 2], Rows([-4], ones(1, 2)), "index is -4"),
    "most_negative_row": (None, Rows([-(2**63)], ones(1)), f"index is {-(2**63)}"),
    "row_beyond_grad_shape": (
        None,
        Rows([2, 3], ones(2, 2), [3, 2]),
        "index of slice 1 exceeded limits of shape; index is 3 exceeded 3",
    ),
    "huge_row_beyond_grad_shape": (
        [None, 2],
        Rows([2**62], ones(1, 2), [3, 2]),
        f"index is {2**62} exceeded 3",
    ),
    "row_of_no_rows": (None, Rows([0], ones(1, 2), [0, 2]), "index is 0 exceeded 0"),
}

# These cases are refused because of one of their indices.
BAD_ROWS = {"row_beyond_the_constructors", "later_row_beyond_the_constructors", *OURS_ONLY}


def take_refuses_rows(impl: Any, case: str | None = None) -> bool:
    """Returns whether it is the take, and not the apply, that fails because of a bad row.

    Our accumulators on a GPU check indices when they merge them, and then the round is lost.

    Args:
        impl: The implementation.
        case: A case of REFUSED or OURS_ONLY, which may have another fault than a bad row. None
            stands for a bad row.
    """
    if not impl.ours or not (case is None or case in BAD_ROWS):
        return False
    kernel_defs = kernels.get_registered_kernels_for_op("Condacc>SparseTake").kernel
    has_kernel = any(kernel.device_type == "GPU" for kernel in kernel_defs)
    return has_kernel and has_gpu()


# Both libraries accept these gradients. Each case has the constructor's shape, the gradients, and
# the resulting shape. Each gradient has the row 1, and its values are ones.
ACCEPTED = {
    "values_of_higher_rank": ([2, None], [Rows([1], ones(1, 2, 2, 2))], [2, 2, 2, 2]),
    "values_of_rank_2_for_a_vector": ([3], [Rows([1], ones(1, 5))], [3, 5]),
    "higher_rank_twice": ([3, 2], [Rows([1], ones(1, 2, 4))] * 2, [3, 2, 4]),
    "higher_rank_with_grad_shape": (
        [2, None],
        [Rows([1], ones(1, 2, 2, 2), [2, 2, 2, 2])],
        [2, 2, 2, 2],
    ),
    "grad_shape_of_two_widths": (None, [Rows([1], ones(1, 2), [3, 4])], [-1, 2]),
    "grad_shape_of_higher_rank": ([3, 2], [Rows([1], ones(1, 2), [3, 2, 5])], [3, 2]),
    "grad_shape_of_the_rows_alone": (None, [Rows([1], ones(1, 2), [3])], [-1, 2]),
    "negative_width_in_grad_shape": (None, [Rows([1], ones(1, 2), [3, -2])], [-1, 2]),
    "unknown_rows_in_grad_shape": (None, [Rows([1], ones(1, 2), [-1, 2])], [-1, 2]),
    "overflowing_grad_shape": (None, [Rows([1], ones(1, 2), [2**62, 2**62])], [-1, 2]),
    "grad_shape_of_very_many_dims": (None, [Rows([1], ones(1, 2), [2] * 5000)], [-1, 2]),
    "grad_shape_that_is_a_scalar": (None, [Rows([1], ones(1, 2), 3)], [-1, 2]),
    "grad_shape_that_is_a_matrix": ([3, 2], [Rows([1], ones(1, 2), [[3, 2]])], [3, 2]),
    "grad_shapes_of_different_rows": (
        None,
        [Rows([1], ones(1, 2), [3, 2]), Rows([1], ones(1, 2), [9, 2]), Rows([1], ones(1, 2))],
        [-1, 2],
    ),
}
