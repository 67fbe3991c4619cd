"""The gradients of one variable: a worker's push, and the chief's take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._accumulators.dense import ConditionalAccumulator
from tf_condacc._accumulators.saving import leave_out
from tf_condacc._accumulators.sparse import SparseConditionalAccumulator
from tf_condacc._ops.host import host_of, on_host
from tf_condacc._ops.native import ops
from tf_condacc._typing import Gradient


class PushOptions(NamedTuple):
    """How gradients travel and are reduced.

    Attributes:
        sparse_reduction: How ``tf.IndexedSlices`` are reduced.
        transport_dtype: Data type in which gradients travel if theirs is wider; None for theirs.
        num_ordered: Number of slots in whose order gradients are added; 0 for the order of arrival.
    """

    sparse_reduction: str
    transport_dtype: tf.DType | None
    num_ordered: int = 0


class Claim:
    """The round and slot of a step, on each device that gradients are pushed to.

    Args:
        packed: The round and the slot: `[2] int64`. They travel as one tensor.
    """

    def __init__(self, packed: tf.Tensor) -> None:
        self._packed = packed
        self._parts: dict[str, list[tf.Tensor]] = {}

    def on(self, device: str) -> list[tf.Tensor]:
        """Returns the round and the slot: `[] int64` each."""
        if device not in self._parts:
            with v1.device(device), on_host():
                self._parts[device] = tf.unstack(self._packed, num=2, name="claimed")
        return self._parts[device]


def any_added(
    gradients: Sequence[VariableGradients], outcomes: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Checks the outcomes of all pushes of a step.

    Args:
        gradients: The gradients that were pushed.
        outcomes: The outcome of each: `[] int32`.

    Returns:
        Whether any gradient was added, for each device with accumulators: `[] bool` each.
    """
    by_device: dict[str, list[tuple[str, tf.Tensor]]] = {}
    for gradient, outcome in zip(gradients, outcomes, strict=True):
        by_device.setdefault(gradient.device, []).append((gradient.name, outcome))
    added = []
    for device, pushed in by_device.items():
        with v1.device(host_of(device)):
            names = [name for name, _ in pushed]
            values = [outcome for _, outcome in pushed]
            added.append(ops.condacc_sync_gate_pushed(values, accumulators=names, name="pushed"))
    return added


class VariableGradients:
    """The accumulator of one variable's gradients, beside the variable.

    Args:
        gradient: This worker's gradient, a tensor or ``tf.IndexedSlices``.
        variable: The variable.
        scope: Prefix of the accumulator's name, the same in the graphs of all workers.
        options: How gradients travel and are reduced.

    Attributes:
        computed: The gradient, as the worker computes it.
        gradient: The gradient, in the data type in which it is sent.
        variable: The variable.
        name: Name of the accumulator.
        device: Device of the variable and the accumulator.
        accumulator: The accumulator.
    """

    def __init__(
        self, gradient: Gradient, variable: tf.Variable, scope: str, options: PushOptions
    ) -> None:
        self.computed = gradient
        self._dtype = gradient.dtype
        self.gradient = _in_transport_dtype(gradient, options.transport_dtype)
        self.variable = variable
        shared_name = f"{scope}{variable.op.name}/grad_accum"
        arguments = (self.gradient.dtype, variable.shape, shared_name)
        kind: Any = ConditionalAccumulator
        reduction: dict[str, str] = {}
        if isinstance(gradient, tf.IndexedSlices):
            kind = SparseConditionalAccumulator
            reduction = {"reduction_type": options.sparse_reduction}
        with v1.device(variable.device):
            if options.num_ordered:
                self.accumulator = kind.deterministic(options.num_ordered, *arguments, **reduction)
            else:
                self.accumulator = kind(*arguments, **reduction)
        leave_out(self.accumulator)
        self.name = shared_name
        self.device = variable.device

    def push(self, claim: Claim, arrived: Gradient) -> tf.Tensor:
        """Pushes the gradient with the slot of a step; returns the outcome: `[] int32`.

        Args:
            claim: The round and slot of the step.
            arrived: `gradient`, or the copy of it that has come in a bundle.
        """
        round_, slot = claim.on(self.variable.device)
        with v1.device(self.variable.device):
            if isinstance(arrived, tf.IndexedSlices):
                return self.accumulator.apply_indexed_slices_contribution(arrived, slot, round_)
            return self.accumulator.apply_contribution(arrived, slot, round_)

    def take(self, num_required: int, round_: tf.Tensor) -> Gradient:
        """Takes the reduced gradient of a round; fails if the accumulator is at another one."""
        with v1.device(self.variable.device):
            if isinstance(self.gradient, tf.IndexedSlices):
                taken, slices = self.accumulator.try_take_indexed_slices_grad(
                    num_required, global_step=round_
                )
                values = self._passed(taken, slices.values)
                values.set_shape([None, *self.variable.shape[1:]])
                return tf.IndexedSlices(values, slices.indices, slices.dense_shape)
            taken, value = self.accumulator.try_take_grad(num_required, global_step=round_)
            return self._passed(taken, value)

    def step(self) -> tf.Tensor:
        """Returns the accumulator's own step: `[] int64`."""
        with v1.device(self.variable.device):
            return self.accumulator.global_step()

    def reset(self, round_: tf.Tensor) -> tf.Tensor:
        """Discards the accumulated gradients and sets the step to `round_`, if that is later."""
        with v1.device(self.variable.device):
            return ops.condacc_accumulator_reset(
                self.accumulator.accumulator_ref, round_, only_forward=True, name="reset"
            )

    def _passed(self, taken: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        passed = ops.condacc_accumulator_require_taken(
            taken, value, accumulator=self.name, name="taken"
        )
        return tf.cast(passed, self._dtype)


def _in_transport_dtype(gradient: Gradient, dtype: tf.DType | None) -> Gradient:
    """Returns a gradient, or its cast to a narrower floating-point type."""
    if dtype is None or not gradient.dtype.is_floating or gradient.dtype.size <= dtype.size:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        values = tf.cast(gradient.values, dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return tf.cast(gradient, dtype)
