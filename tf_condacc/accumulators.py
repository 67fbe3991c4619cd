"""Conditional accumulators: gradients in if they are not stale, their average out when enough are.

Mirrors ``tf.compat.v1.ConditionalAccumulatorBase`` and ``tf.compat.v1.ConditionalAccumulator``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from tf_condacc import _eager
from tf_condacc._ops import ops


class TryTakeResult(NamedTuple):
    """What `ConditionalAccumulator.try_take_grad` returns."""

    taken: Any
    value: Any


class ConditionalAccumulatorBase:
    """What accumulators of every kind have in common.

    Mirrors ``tf.compat.v1.ConditionalAccumulatorBase``; `num_dropped` and `global_step` are beyond
    it. Works in graphs and sessions, in ``tf.function`` and eagerly.

    Args:
        dtype: Of the accumulated gradients.
        shape: Of the accumulated gradients: anything ``tf.TensorShape`` takes; None if unknown.
        accumulator_ref: The accumulator's handle, a scalar tensor of dtype resource.
    """

    def __init__(self, dtype, shape, accumulator_ref):
        self._dtype = dtype
        self._shape = tf.TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        if tf.executing_eagerly():
            scope = tf.get_current_name_scope()
            self._name = f"{scope}/" if scope else ""
        else:
            self._name = accumulator_ref.op.name.split("/")[-1]

    @property
    def accumulator_ref(self):
        """The accumulator's handle, a scalar tensor of dtype resource."""
        return self._accumulator_ref

    @property
    def name(self):
        """The last part of the name of the accumulator's op; eagerly the current name scope."""
        return self._name

    @property
    def dtype(self):
        """The dtype of the gradients, as it was given to the constructor."""
        return self._dtype

    def num_accumulated(self, name=None):
        """Counts the gradients that are accumulated now.

        Args:
            name: Optional name of the operation.

        Returns:
            An int32 scalar tensor.
        """
        return ops.condacc_accumulator_num_accumulated(
            self._accumulator_ref, name=self._name_of(name, "NumAccumulated")
        )

    def num_dropped(self, name=None):
        """Counts the stale gradients that were dropped since the accumulator was made.

        Not in the original.

        Args:
            name: Optional name of the operation.

        Returns:
            An int64 scalar tensor.
        """
        return ops.condacc_accumulator_num_dropped(
            self._accumulator_ref, name=self._name_of(name, "NumDropped")
        )

    def global_step(self, name=None):
        """Reads the accumulator's own step: gradients of a lower local step are stale.

        Not in the original.

        Args:
            name: Optional name of the operation.

        Returns:
            An int64 scalar tensor.
        """
        return ops.condacc_accumulator_global_step(
            self._accumulator_ref, name=self._name_of(name, "GlobalStep")
        )

    def set_global_step(self, new_global_step, name=None):
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
            self._accumulator_ref, _as_int64(new_global_step), name=name
        )

    def _name_of(self, name, what):
        """The given name of an operation, or one after the accumulator if that has a name."""
        if name is None and self._name and not self._name.endswith("/"):
            return f"{self._name}_{what}"
        return name


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """A conditional accumulator of dense gradients.

    Gradients are added if their local step is not lower than the accumulator's own step. A take
    waits until enough have been added, gives out their mean or sum, and moves the step on by one.

    Mirrors ``tf.compat.v1.ConditionalAccumulator``. Differences on purpose:

    - dtypes are float16, bfloat16, float32, float64, complex64, complex128, and with
      ``reduction_type="SUM"`` int32 and int64. float16 and bfloat16 are added in float32 and
      rounded once, when taken.
    - Eagerly each object has a state of its own, unless a `shared_name` is given.
    - Using a `shared_name` again with another kind, dtype, shape or reduction is an error.
    - `try_apply_grad`, `try_take_grad`, `num_dropped` and `global_step` are new.

    Args:
        dtype: Of the gradients.
        shape: Of the gradients: anything ``tf.TensorShape`` takes; None if unknown.
        shared_name: If given, the accumulator is shared under this name by all graphs and sessions
            that use the same resource manager: those of one ``tf.distribute.Server``, say.
        name: Of the accumulator's operation.
        reduction_type: "MEAN" or "SUM".

    Raises:
        TypeError: `dtype` is not supported, or an argument is of the wrong type.
        ValueError: `reduction_type` is neither "MEAN" nor "SUM", or is "MEAN" of integers; `shape`
            has a negative dimension.
    """

    def __init__(
        self,
        dtype,
        shape=None,
        shared_name=None,
        name="conditional_accumulator",
        reduction_type="MEAN",
    ):
        _check_mean_exists(dtype, reduction_type, name)
        accumulator_ref = ops.condacc_dense_accumulator(
            dtype=dtype,
            shape=tf.TensorShape(None) if shape is None else shape,
            reduction_type=reduction_type,
            anonymous=tf.executing_eagerly() and not shared_name,
            shared_name=shared_name,
            name=name,
        )
        super().__init__(dtype, shape, accumulator_ref)

    def apply_grad(self, grad, local_step=0, name=None):
        """Adds a gradient, or drops it silently if it is stale.

        Stale is a gradient whose `local_step` is lower than the accumulator's step; whether it
        would fit is not looked at then.

        Args:
            grad: A tensor of the accumulator's dtype and shape, or what converts to one.
                ``tf.IndexedSlices`` are made dense.
            local_step: A scalar, cast to int64: the step at which the gradient was computed.
            name: Optional name of the operation.

        Returns:
            The operation; None eagerly.

        Raises:
            ValueError: `grad` is known not to fit, or `local_step` not to be a scalar.
            tf.errors.InvalidArgumentError: So it turns out when run.
            tf.errors.ResourceExhaustedError: Memory is short. Nothing has changed then.
        """
        accepted = self._apply(grad, local_step, name)
        return None if tf.executing_eagerly() else accepted.op

    def try_apply_grad(self, grad, local_step=0, name=None):
        """Adds a gradient unless it is stale, and tells which. Not in the original.

        Args and errors are those of `apply_grad`.

        Returns:
            A bool scalar tensor: True if the gradient was added, False if it was dropped.
        """
        return self._apply(grad, local_step, name)

    def take_grad(self, num_required, name=None):
        """Waits until enough gradients are accumulated, and takes them all.

        Takes are served in the order in which they came, and the accumulator's step moves on by
        one with each. Waiting holds no thread of a session. Eagerly it blocks the calling thread
        until another one applies what is missing; Ctrl-C ends it. In one ``tf.function`` the ops
        on one accumulator run in the order in which they are written: a take before the applies it
        needs would wait for ever (`try_take_grad` does not).

        A take that waits longer than the environment variable TF_CONDACC_STALL_WARNING_SECS says
        (60 by default, 0 for never) logs one warning.

        Args:
            num_required: An int32 scalar, at least 1: how many gradients are enough.
            name: Optional name of the operation.

        Returns:
            A tensor of the gradients' dtype and shape: the mean (or sum) of all accumulated.

        Raises:
            ValueError: `num_required` is known not to be a scalar.
            tf.errors.InvalidArgumentError: It is not a scalar, or lower than 1.
            tf.errors.CancelledError: The session was closed or the step cancelled.
            tf.errors.DeadlineExceededError: The step ran out of time.
            tf.errors.OutOfRangeError: The step is 2**63 - 1.
        """
        if tf.executing_eagerly():
            average = self._eager_take(num_required)
        else:
            average = ops.condacc_dense_take(
                self._accumulator_ref, num_required, dtype=self._dtype, name=name
            )
        average.set_shape(self._shape)
        return average

    def try_take_grad(self, num_required, name=None):
        """Takes the accumulated gradients if there are enough and no other take waits.

        Never waits for gradients. Not in the original. Args and errors are those of `take_grad`.

        Returns:
            A pair ``(taken, value)``: a bool scalar tensor, and what `take_grad` would return if it
            is True. If it is False, zeros of the constructor's shape, with 0 in place of unknown
            dimensions (rank 0 if the rank is unknown).
        """
        result = self._try_take(num_required, name)
        result.value.set_shape(self._shape)
        return result

    def _apply(self, grad, local_step, name):
        grad = tf.convert_to_tensor(grad, dtype=self._dtype)
        grad.shape.assert_is_compatible_with(self._shape)
        return ops.condacc_dense_apply(
            self._accumulator_ref, _as_int64(local_step), grad, name=name
        )

    def _eager_take(self, num_required):
        result = self._try_take(num_required, None)
        if result.taken:
            return result.value
        inputs = [self._accumulator_ref, tf.convert_to_tensor(num_required, tf.int32)]
        attrs = ("dtype", tf.as_dtype(self._dtype).as_datatype_enum)
        (average,) = _eager.execute_interruptibly("Condacc>DenseTake", 1, inputs, attrs)
        return average

    def _try_take(self, num_required, name):
        return TryTakeResult(
            *ops.condacc_dense_try_take(
                self._accumulator_ref, num_required, dtype=self._dtype, name=name
            )
        )


def _as_int64(step):
    return tf.cast(tf.convert_to_tensor(step), tf.int64)


def _check_mean_exists(dtype, reduction_type, name):
    if reduction_type not in (None, "MEAN", b"MEAN"):
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
