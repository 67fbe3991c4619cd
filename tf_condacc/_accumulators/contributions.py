"""The outcomes of an apply, and the ids of contributors."""

from __future__ import annotations

import enum
import numbers

import tensorflow as tf

from tf_condacc._ops.host import host_int64, on_host, scalar
from tf_condacc._typing import TensorLike


class ApplyOutcome(enum.IntEnum):
    """The outcome of a gradient that was applied for a contributor.

    The members are integers and can be compared with the tensors that `apply_contribution` returns.
    None of them is 0, so an outcome cannot serve as a condition: compare it with `ADDED`.

    Example:
        >>> accumulator = tf_condacc.ConditionalAccumulator(tf.float32, shape=[])
        >>> outcome = accumulator.apply_contribution(2.0, contributor=0)
        >>> tf_condacc.ApplyOutcome(int(outcome)).name
        'ADDED'
        >>> outcome = accumulator.apply_contribution(2.0, contributor=0)
        >>> int(outcome) == tf_condacc.ApplyOutcome.DUPLICATE
        True

    Attributes:
        ADDED: The gradient was accumulated.
        STALE: Its local step was lower than the accumulator's step. It was dropped, and
            `num_dropped` counts it, and no other outcome.
        DUPLICATE: Its contributor already had a gradient among the accumulated ones. It was
            ignored: the first one counts.
        AHEAD: Its local step was higher than the accumulator's step. It was refused, and can be
            applied again when the accumulator has come to that step.
    """

    ADDED = 1
    STALE = 2
    DUPLICATE = 3
    AHEAD = 4


def contributor_id(contributor: TensorLike, accumulator: str) -> tf.Tensor:
    """Converts the id of a contributor to int64, on the host: `[] int64`.

    Raises:
        TypeError: `contributor` is not of an integer type.
    """
    if isinstance(contributor, numbers.Integral):
        return host_int64(contributor)
    with on_host():
        tensor = tf.convert_to_tensor(contributor)
    if not tensor.dtype.base_dtype.is_integer:
        where = f" (accumulator '{accumulator}')" if accumulator else ""
        raise TypeError(f"Argument contributor must be an integer, got {tensor.dtype.name}{where}.")
    return host_int64(tensor)


def was_added(outcome: tf.Tensor, name: str) -> tf.Tensor:
    """Returns whether an outcome is `ApplyOutcome.ADDED`: `[] bool`, on the host."""
    with on_host():
        return tf.equal(outcome, scalar(int(ApplyOutcome.ADDED), tf.int32), name=name)
