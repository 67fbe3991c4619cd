"""What is done with gradients before they are accumulated or applied: checks, and clipping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_condacc._micro_batches.checks import (
    Checks,
    checked_scalar,
    dtype_of,
    is_loss_scaling,
    parts_of,
)
from tf_condacc._typing import Gradient, TensorLike

_KINDS = ("clipnorm", "global_clipnorm", "clipvalue")  # The names of Keras.
_HAS_NON_FINITE = 2  # The mode whose second output is 1 if an element is not finite, otherwise 0.


@dataclass(frozen=True)
class Clipping:
    """A kind of clipping, and its limit.

    Attributes:
        kind: "clipnorm", "global_clipnorm" or "clipvalue".
        limit: The highest norm, or the highest absolute value: `[] float64`.
    """

    kind: str
    limit: tf.Tensor

    def __call__(self, gradients: Sequence[Gradient], optimizer: Any) -> list[Gradient]:
        """Clips gradients, whose ``tf.IndexedSlices`` have unique rows.

        Args:
            gradients: The gradients of all variables.
            optimizer: The optimizer that gets them. If it scales losses, the limit is that of
                unscaled gradients. NaN and infinity are kept, so that the optimizer sees them.
        """
        limit = self.limit
        if hasattr(optimizer, "scale_loss"):
            limit = tf.cast(optimizer.scale_loss(tf.cast(limit, tf.float32)), tf.float64)
        if self.kind == "clipvalue":
            keeps = is_loss_scaling(optimizer)
            return [_clipped_by_value(one, limit, keeps) for one in gradients]
        squares = [_sum_of_squares(one) for one in gradients]
        if self.kind == "global_clipnorm":
            squares = [tf.add_n(squares)] * len(squares)
        return [
            _clipped_by_norm(one, tf.sqrt(square), limit)
            for one, square in zip(gradients, squares, strict=True)
        ]


def checked_clipping(
    checks: Checks,
    clipnorm: TensorLike | None,
    global_clipnorm: TensorLike | None,
    clipvalue: TensorLike | None,
    others: Iterable[str] = (),
) -> Clipping | None:
    """Returns the clipping that arguments ask for, or None.

    Args:
        checks: The checks of the object whose gradients are clipped.
        clipnorm: The highest norm of each gradient: `[]`, a number above 0. None, here and below,
            stands for no such limit.
        global_clipnorm: The highest norm of all gradients together: `[]`.
        clipvalue: The highest absolute value of an element: `[]`.
        others: The names of the arguments for the optimizer.

    Raises:
        TypeError: A limit is not a real number, or one of `others` is another name of a limit.
        ValueError: There are several limits, one is not a scalar, or a variable is complex and
            `clipvalue` is given.
        tf.errors.InvalidArgumentError: A limit is not above 0. Raised at once if the value is
            known, and otherwise when the gradients are clipped.
    """
    for kind in _KINDS:
        # Optimizers of Keras 2 ignore arguments that they do not know.
        if (other := kind.replace("clip", "clip_")) in others:
            raise TypeError(f"{checks.title} expects the argument {kind}, got {other}.")
    limits = zip(_KINDS, (clipnorm, global_clipnorm, clipvalue), strict=True)
    given = {kind: limit for kind, limit in limits if limit is not None}
    if not given:
        return None
    if len(given) > 1:
        raise ValueError(
            f"{checks.title} expects at most one of {', '.join(_KINDS)}, as optimizers of Keras "
            f"do, got {' and '.join(given)}."
        )
    ((kind, limit),) = given.items()
    for variable in checks.variables if kind == "clipvalue" else ():
        if dtype_of(variable).is_complex:
            raise ValueError(
                f"{checks.title_of(variable)} is complex, and complex numbers have no order. Use "
                "clipnorm or global_clipnorm instead of clipvalue."
            )
    expected = f"{checks.title} expects a {kind} that is a number above 0"
    return Clipping(kind, checked_scalar(expected, limit, lambda x: x > 0))


def clips_itself(optimizer: Any) -> bool:
    """Returns whether an optimizer of Keras clips the gradients that it is given."""
    return any(getattr(part, name, None) for part in parts_of(optimizer) for name in _KINDS)


def _sum_of_squares(gradient: Gradient) -> tf.Tensor:
    """Returns the sum of the squares of a gradient's elements: `[] float64`."""
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    if values.dtype.is_complex:
        return _sum_of_squares(tf.math.real(values)) + _sum_of_squares(tf.math.imag(values))
    if values.dtype in (tf.float16, tf.bfloat16):
        values = tf.cast(values, tf.float32)
    return 2 * tf.cast(tf.nn.l2_loss(values), tf.float64)


def _clipped_by_norm(gradient: Gradient, norm: tf.Tensor, limit: tf.Tensor) -> Gradient:
    """Scales a gradient down if `norm` exceeds `limit`. If `norm` is not finite, returns NaNs."""
    if isinstance(gradient, tf.IndexedSlices):
        values = _clipped_by_norm(gradient.values, norm, limit)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    spoilt = norm - norm  # NaN if the norm is not finite, and 0 otherwise.
    return gradient * tf.cast(limit / tf.maximum(norm, limit) + spoilt, gradient.dtype)


def _clipped_by_value(gradient: Gradient, limit: tf.Tensor, keeps_non_finite: bool) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        values = _clipped_by_value(gradient.values, limit, keeps_non_finite)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    limit = tf.cast(limit, gradient.dtype)
    clipped = tf.clip_by_value(gradient, -limit, limit)
    return tf.where(tf.math.is_finite(gradient), clipped, gradient) if keeps_non_finite else clipped


def is_any_not_finite(
    gradients: Sequence[Gradient | None], weight: tf.Tensor | None = None
) -> tf.Tensor | bool:
    """Returns whether any gradient of any replica has a NaN or an infinity: `[] bool`.

    The gradients of a replica whose weight is 0 do not matter: they add zeros.

    The operation of TensorFlow's debugger reads each element once and writes nothing, unlike
    ``tf.reduce_all(tf.math.is_finite(...))``. Several gradients are checked in parallel.

    Args:
        gradients: The gradients of this replica. A gradient of None is finite.
        weight: Their weight: `[] float64`; None for 1.
    """
    present = [one for one in gradients if one is not None]
    values = [one.values if isinstance(one, tf.IndexedSlices) else one for one in present]
    parts = [
        part
        for one in values
        for part in ([tf.math.real(one), tf.math.imag(one)] if one.dtype.is_complex else [one])
    ]
    outputs = [
        tf.raw_ops.DebugNumericSummaryV2(input=part, tensor_debug_mode=_HAS_NON_FINITE)
        for part in parts
    ]
    if tf.executing_eagerly():  # Eager operations on scalars would take most of the time.
        num_bad: Any = sum(float(output.numpy()[1]) for output in outputs)
    else:
        num_bad = tf.add_n(outputs)[1]
    if weight is not None:
        num_bad = tf.where(weight > 0, num_bad, 0.0)
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        context = tf.distribute.get_replica_context()
        num_bad = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.convert_to_tensor(num_bad))
    return num_bad > 0
