"""Builds the operations of a worker's step, of the chief's step, and of the start of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_condacc._ops.host import host_int64
from tf_condacc._optimizers.sync_replicas.gate import SyncGate
from tf_condacc._optimizers.sync_replicas.local_step import LocalStep
from tf_condacc._optimizers.sync_replicas.pushes import Claim, VariableGradients, any_added
from tf_condacc._typing import GradientAndVariable

v1 = tf.compat.v1


class WorkerStep(NamedTuple):
    """A worker's step.

    Attributes:
        train_op: Assigns the round of the next step to the local step.
        claim: The round and the slot of the step: `[2] int64`.
        outcomes: Outcome of the push of each gradient: `[] int32` each.
        dropped: Whether all gradients were dropped, because there was no slot, or another worker
            has taken it over: `[] bool`. It is known at the end of the step.
    """

    train_op: Any
    claim: tf.Tensor
    outcomes: list[tf.Tensor]
    dropped: tf.Tensor


def worker_step(
    gate: SyncGate,
    local_step: LocalStep,
    gradients: Sequence[VariableGradients],
    computed: Sequence[Any] | None,
) -> WorkerStep:
    """Pushes the gradients with a slot of the round, and waits for the next round.

    Args:
        gate: The gate.
        local_step: The local step of the worker.
        gradients: The gradients to push.
        computed: Gradients to wait for before the slot is claimed. None claims it when the step
            begins, which costs no time.
    """
    reservation = gate.enter(local_step.at_gate())
    waits: list[tf.Operation] = []
    if computed is not None:
        with v1.device(local_step.device), tf.control_dependencies(_operations(computed)):
            waits = [tf.no_op(name="computed")]  # One edge to the gate, from however many.
    with tf.control_dependencies(waits):
        packed = gate.claim(reservation)
    claim = Claim(packed)
    outcomes = [each.push(claim) for each in gradients]
    next_round, is_dropped = gate.finish(reservation, any_added(gradients, outcomes))
    train_op = local_step.assign(next_round)
    with v1.device(local_step.device), tf.control_dependencies([train_op.op]):
        dropped = tf.identity(is_dropped, name="dropped")
    return WorkerStep(train_op, packed, outcomes, dropped)


def chief_step(
    gate: SyncGate,
    gradients: Sequence[VariableGradients | None],
    num_required: int,
    apply: Callable[[list[Any]], tf.Operation],
) -> tf.Operation:
    """Waits for all gradients of a round, applies them, and begins the next round.

    Args:
        gate: The gate.
        gradients: The gradients to take; None is passed on.
        num_required: Number of gradients in a round.
        apply: Applies gradients.
    """
    round_ = gate.await_full()
    taken = [each if each is None else each.take(num_required, round_) for each in gradients]
    with tf.control_dependencies([apply(taken)]):
        return gate.advance(round_)


def update_variables(
    optimizer: tf.compat.v1.train.Optimizer,
    grads_and_vars: list[GradientAndVariable],
    global_step: tf.Variable,
    averages: tf.train.ExponentialMovingAverage | None,
    variables_to_average: Iterable[tf.Variable] | None,
) -> tf.Operation:
    """Applies the gradients of a round, and then the averages.

    Args:
        optimizer: Optimizer that applies the gradients.
        grads_and_vars: The gradients, which may be None, and their variables.
        global_step: The step variable to increment.
        averages: The averages to apply after the update; None for none.
        variables_to_average: The variables to average; None for all trainable variables.
    """
    with v1.device(global_step.device), v1.name_scope(""):
        update = optimizer.apply_gradients(grads_and_vars, global_step)
    if averages is None:
        return update
    with tf.control_dependencies([update]), v1.name_scope(""):
        return averages.apply(variables_to_average)


def open_gate(
    gate: SyncGate,
    local_step: LocalStep,
    global_step: tf.Variable,
    gradients: Sequence[VariableGradients],
) -> tf.Operation:
    """Begins a round whose number is higher than all before, with nothing accumulated."""
    steps = [each.step() for each in gradients]
    with gate.on_device():
        highest = tf.reduce_max(tf.stack([host_int64(global_step), *steps]), name="highest_step")
    round_ = gate.prepare(highest)
    resets = [each.reset(round_) for each in gradients]
    with tf.control_dependencies([tf.group(*resets, name="reset")]):
        opened = gate.open(round_)
    with tf.control_dependencies([opened]):
        return tf.group(local_step.assign(round_))


def _operations(gradients: Sequence[Any]) -> list[tf.Operation]:
    """Returns the operations that compute gradients, which may be sparse."""
    found = []
    for gradient in gradients:
        is_sparse = isinstance(gradient, tf.IndexedSlices)
        parts = (gradient.values, gradient.indices) if is_sparse else (gradient,)
        found += [part.op for part in parts if isinstance(part, tf.Tensor)]
    return found
