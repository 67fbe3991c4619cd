"""What accumulators of every kind have in common.

Mirrors ``tf.compat.v1.ConditionalAccumulatorBase``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from tf_condacc._host import arguments_on_host, host_int64
from tf_condacc._ops import ops
from tf_condacc._typing import DTypeLike, ShapeLike, TensorLike
from tf_condacc.accumulators import _eager


class TryTakeResult(NamedTuple):
    """What taking without waiting returns."""

    taken: tf.Tensor
    value: Any


@dataclass(frozen=True)
class AccumulatorOps:
    """The operations of one kind of accumulator, and what they are called.

    Operations without a name are named after the op types of TensorFlow's own accumulators.

    Attributes:
        make: Makes an accumulator, and returns its handle.
        take: Takes the gradients when enough are accumulated.
        try_take: Takes the gradients if enough are accumulated already.
        take_type: Registered type of the operation of `take`.
        num_take_outputs: Number of outputs of that operation.
        default_name: Default name of the operation that makes an accumulator.
        gradient_prefix: Prefix of the default names of operations that apply and take.
        state_prefix: Prefix of the default names of operations that read and set counts and steps.
    """

    make: Callable[..., tf.Tensor]
    take: Callable[..., Any]
    try_take: Callable[..., Any]
    take_type: str
    num_take_outputs: int
    default_name: str
    gradient_prefix: str
    state_prefix: str


class ConditionalAccumulatorBase:
    """What accumulators of every kind have in common.

    Mirrors ``tf.compat.v1.ConditionalAccumulatorBase``; `num_dropped` and `global_step` are beyond
    it. Works in graphs and sessions, in ``tf.function`` and eagerly.

    Args:
        dtype: Of the accumulated gradients.
        shape: Of the accumulated gradients: anything ``tf.TensorShape`` takes; None if unknown.
        accumulator_ref: The accumulator's handle, a scalar tensor of dtype resource.
    """

    _OPS: AccumulatorOps  # Set by each kind of accumulator.

    def __init__(self, dtype: DTypeLike, shape: ShapeLike, accumulator_ref: tf.Tensor) -> None:
        self._dtype = dtype
        self._shape = tf.TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        if tf.executing_eagerly():
            scope = tf.get_current_name_scope()
            self._name = f"{scope}/" if scope else ""
        else:
            self._name = accumulator_ref.op.name.split("/")[-1]

    @property
    def accumulator_ref(self) -> tf.Tensor:
        """The accumulator's handle, a scalar tensor of dtype resource."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The last part of the name of the accumulator's op; eagerly the current name scope."""
        return self._name

    @property
    def dtype(self) -> DTypeLike:
        """The dtype of the gradients, as it was given to the constructor."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> tf.Tensor:
        """Returns the number of gradients that are accumulated now: an int32 scalar.

        Args:
            name: Optional name of the operation.
        """
        return self._read(ops.condacc_accumulator_num_accumulated, "NumAccumulated", name)

    def num_dropped(self, name: str | None = None) -> tf.Tensor:
        """Returns the number of stale gradients dropped so far: an int64 scalar.

        TensorFlow's own accumulators do not count them.

        Args:
            name: Optional name of the operation.
        """
        return self._read(ops.condacc_accumulator_num_dropped, "NumDropped", name)

    def global_step(self, name: str | None = None) -> tf.Tensor:
        """Returns the accumulator's own step: an int64 scalar.

        Gradients with a lower local step are stale. TensorFlow's own accumulators do not tell
        their step.

        Args:
            name: Optional name of the operation.
        """
        return self._read(ops.condacc_accumulator_global_step, "GlobalStep", name)

    def set_global_step(
        self, new_global_step: TensorLike, name: str | None = None
    ) -> tf.Operation | None:
        """Sets the accumulator's own step.

        Accumulated gradients and waiting takes are not touched. A step lower than the current one
        is set too, and a warning logged.

        Args:
            new_global_step: A scalar, cast to int64: a tensor, variable or number.
            name: Optional name of the operation.

        Returns:
            The operation; None eagerly.

        Raises:
            ValueError: `new_global_step` is known not to be a scalar.
            tf.errors.InvalidArgumentError: It turns out not to be one when run.
        """
        return ops.condacc_accumulator_set_global_step(
            self._accumulator_ref,
            host_int64(new_global_step),
            name=name or f"{self._OPS.state_prefix}SetGlobalStep",
        )

    @classmethod
    def _make(
        cls,
        dtype: DTypeLike,
        shape: ShapeLike,
        shared_name: str | None,
        name: str | None,
        reduction_type: str,
    ) -> tf.Tensor:
        """Makes an accumulator with the constructor's arguments, and returns its handle."""
        name = name or cls._OPS.default_name
        return make_accumulator(cls._OPS.make, dtype, shape, shared_name, name, reduction_type)

    def _read(self, read: Callable[..., tf.Tensor], what: str, name: str | None) -> tf.Tensor:
        """Reads a counter of the accumulator.

        Args:
            read: Function of the operation that reads the counter.
            what: Last part of the operation's default name. The first part is the accumulator's
                name. An accumulator that was made eagerly has none; then it is the prefix of the
                op types of TensorFlow's own accumulators.
            name: Name of the operation; None for the default.
        """
        if name is None and self._name and not self._name.endswith("/"):
            name = f"{self._name}_{what}"
        return read(self._accumulator_ref, name=name or f"{self._OPS.state_prefix}{what}")

    def _take(self, num_required: TensorLike, name: str | None) -> list[tf.Tensor]:
        """The outputs of the operation that takes; eagerly it waits in a way that Ctrl-C ends."""
        if not tf.executing_eagerly():
            name = name or f"{self._OPS.gradient_prefix}TakeGradient"
            with arguments_on_host():
                outputs = self._OPS.take(
                    self._accumulator_ref, num_required, dtype=self._dtype, name=name
                )
            return list(outputs) if isinstance(outputs, tuple) else [outputs]
        # Asked without waiting first: a thread costs more. But not where the answer is clear, since
        # it may be zeros of any size.
        if not isinstance(num_required, int) or num_required <= int(self.num_accumulated()):
            taken, *outputs = self._try_take(num_required, name)
            if taken:
                return outputs
        return _eager.execute_interruptibly(
            self._OPS.take_type,
            self._OPS.num_take_outputs,
            [self._accumulator_ref, tf.convert_to_tensor(num_required, tf.int32)],
            ("dtype", tf.as_dtype(self._dtype).as_datatype_enum),
        )

    def _try_take(self, num_required: TensorLike, name: str | None) -> Sequence[tf.Tensor]:
        """The outputs of the operation that takes without waiting: whether it did, and what."""
        name = name or f"{self._OPS.gradient_prefix}TryTakeGradient"
        with arguments_on_host():
            return self._OPS.try_take(
                self._accumulator_ref, num_required, dtype=self._dtype, name=name
            )


def make_accumulator(
    make_op: Callable[..., tf.Tensor],
    dtype: DTypeLike,
    shape: ShapeLike,
    shared_name: str | None,
    name: str,
    reduction_type: str,
) -> tf.Tensor:
    """Makes the handle of an accumulator; eagerly one of its own unless it is to be shared.

    Args:
        make_op: Function of the operation that makes accumulators of the kind.
        dtype: As the constructor was given it; so are all that follow.
        shape: None if unknown.
        shared_name: None or empty if it is not to be shared.
        name: Of the operation.
        reduction_type: None stands for "MEAN".

    Returns:
        A scalar tensor of dtype resource.

    Raises:
        ValueError: A mean of integers is asked for.
    """
    _check_mean_exists(dtype, reduction_type, name)
    return make_op(
        dtype=dtype,
        shape=tf.TensorShape(None) if shape is None else shape,
        reduction_type=reduction_type,
        anonymous=tf.executing_eagerly() and not shared_name,
        shared_name=shared_name,
        name=name,
    )


def _check_mean_exists(dtype: DTypeLike, reduction_type: str | bytes, name: str) -> None:
    if reduction_type in ("SUM", b"SUM"):
        return
    try:
        is_integer = tf.as_dtype(dtype).is_integer
    except TypeError:
        return  # the operation tells what is wrong with the dtype
    if is_integer:
        raise ValueError(
            f"Integer gradients have no mean: accumulator '{name}' of dtype "
            f"{tf.as_dtype(dtype).name} expects reduction_type 'SUM', got {reduction_type!r}."
        )
