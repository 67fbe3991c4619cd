"""All operations of an optimizer in one graph: the steps of a worker and of the chief."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._ops.host import host_int64, host_of
from tf_condacc._optimizers.sync_replicas.bundling import sent_in_bundles
from tf_condacc._optimizers.sync_replicas.gate import GateOptions, Reports, SyncGate
from tf_condacc._optimizers.sync_replicas.pushes import (
    Claim,
    PushOptions,
    VariableGradients,
    any_added,
)
from tf_condacc._optimizers.sync_replicas.worker_name import worker_name
from tf_condacc._typing import Gradient, GradientAndVariable

_LOG = logging.getLogger("tf_condacc")
# What becomes of an update that depends on a placeholder.
_PLACEHOLDERS = {
    "Placeholder": "the updates will fail",
    "PlaceholderV2": "the updates will fail",
    "PlaceholderWithDefault": "the updates use the default",
}


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


class RoundAndSlot(NamedTuple):
    """The place of a worker's step in a training.

    Attributes:
        round: The number of updates before that of the step: `[] int64`.
        slot: The slot of the update, from 0 to ``replicas_to_aggregate - 1``: `[] int64`.
    """

    round: tf.Tensor
    slot: tf.Tensor


class SyncGraph:
    """The operations of a worker and of a chief. Both are in the graph of each worker.

    It is made with the gate alone, which can grant a worker's slot before its gradients are known.
    `complete` adds the other operations.

    Args:
        name: Name of the optimizer. Made unique in the graph, it is also the name of the gate and
            the prefix of the names of the accumulators.
        global_step: The step variable.
        options: The options of the gate.
        push_options: How gradients travel and are reduced.

    Attributes:
        scope: The name scope of the operations.
        gate: The gate.
        global_step: The step variable.
        step: The worker's step that was added last.
        pushed: The gradients that the first step pushes.
        ready_for_local_init_op: Names of global variables that are not initialized: `[n] string`.
        local_step_init_op: Waits until the gate is open, and sets the local step.
        chief_init_op: Opens the gate, and sets the local step.
        is_chief: Whether the gate belongs to this chief after `chief_init_op`: `[] bool`. It does
            not if a volunteer has found the gate opened by another chief.
        sync_op: Waits for a round and applies its gradients.
        is_complete: Whether `complete` was called.
        claimed_first: Whether a slot is claimed before the gradients are known.
        reports: Reports about rounds that last for too long; None if there are none.
        close_op: Closes the gate, which ends the training of all workers.
        dismiss_op: Ends the waits of this session's chief and reports.
        leave_op: Tells the gate that this worker leaves, although the training continues.
        fail_op: Tells the gate that this worker has failed.
        lose_op: Tells the gate that the process of `lost_worker` is gone.
        lost_worker: The name of a worker, to be fed: `[] string`.
    """

    def __init__(
        self,
        name: str,
        global_step: tf.Variable,
        options: GateOptions,
        push_options: PushOptions,
    ) -> None:
        self._name, self._options, self.global_step = name, options, global_step
        self.is_complete = self.claimed_first = False
        # If every worker has a slot, no other worker needs this one, so it is claimed at once.
        self._claims_early = options.num_slots >= options.num_workers
        self._push_options = push_options
        # Only a worker's step waits for the caller's control dependencies, such as the updates of
        # batch normalization. The chief's steps and the end of training must not run them.
        with tf.control_dependencies(None):
            self._anchor = tf.no_op(name="local_anchor")
            with v1.device(self._anchor.device):
                # Not a constant or a no-op, because the runtime would remove an edge from those.
                self._began = v1.placeholder_with_default(True, [], name="began")
            worker = worker_name(self._anchor.device)
            with v1.name_scope(None, name) as scope:
                self.gate = SyncGate(f"{scope}gate", global_step.device, worker, options)
            self.scope = scope
            self._local_step = _LocalStep(self.gate, global_step.dtype.base_dtype)
        # The handle and the claim of the step that is added next, if it has been entered already.
        self._entered: tuple[tf.Tensor, tf.Tensor] | None = None
        self._round_and_slot: RoundAndSlot | None = None

    def round_and_slot(self) -> RoundAndSlot:
        """Returns the round and the slot of the worker's step.

        If there is no step yet, it enters the gate with these operations, and `complete` adds the
        rest. The slots must be claimed before the gradients are known.
        """
        if self._round_and_slot is None:
            if self.is_complete:
                packed = self.step.claim
            else:
                self.claimed_first = True
                with v1.name_scope(self.scope):
                    self._entered = self._enter([])
                packed = self._entered[1]
            # The gate's own number of the round jumps when a chief is replaced. The global step
            # does not change while the step has a slot, because the update needs all slots.
            with v1.name_scope(self.scope), tf.control_dependencies([packed]):
                with v1.device(self.global_step.device):
                    updates = host_int64(self.global_step.read_value())
                with v1.device(host_of(self._anchor.device)):
                    self._round_and_slot = RoundAndSlot(
                        tf.identity(updates, name="round"), tf.identity(packed[1], name="slot")
                    )
        return self._round_and_slot

    def complete(
        self,
        grads_and_vars: Sequence[GradientAndVariable],
        update: Callable[[list[GradientAndVariable]], tf.Operation],
    ) -> None:
        """Adds the worker's step and that of the chief.

        Args:
            grads_and_vars: The gradients, which may be None, and their variables, each once.
            update: Applies reduced gradients.
        """
        with tf.control_dependencies(None):
            self.ready_for_local_init_op = v1.report_uninitialized_variables(v1.global_variables())
            self.ready_for_local_init_op.mark_used()
            gradients = self._accumulated(grads_and_vars)
        self.pushed = [each for each in gradients if each is not None]
        self.step = self._worker_step(grads_and_vars, self.pushed)

        def apply(taken: list[Gradient | None]) -> tf.Operation:
            return update(list(zip(taken, [v for _, v in grads_and_vars], strict=True)))

        with v1.name_scope(self.scope), tf.control_dependencies(None):
            self.sync_op = _chief_step(self.gate, gradients, self._options.num_slots, apply)
            self.reports = Reports(self.gate, self._name) if self._options.report_secs else None
            self._add_beginning_and_end(self.global_step)
            v1.summary.scalar("num_dropped", self.gate.num_dropped())
        self.is_complete = True

    def _add_beginning_and_end(self, global_step: tf.Variable) -> None:
        """Adds the operations by which the chief and workers begin and end their parts."""
        gate, local_step = self.gate, self._local_step
        self.local_step_init_op = local_step.assign(gate.await_open())
        self.chief_init_op, self.is_chief = _open_gate(gate, local_step, global_step, self.pushed)
        self.close_op = gate.close()
        self.dismiss_op = gate.dismiss()
        self.leave_op = gate.leave()
        self.fail_op = gate.fail()
        with gate.on_device():
            self.lost_worker = v1.placeholder_with_default("", [], name="lost_worker")
        self.lose_op = gate.lose(self.lost_worker)

    def accepts(self, grads_and_vars: Sequence[GradientAndVariable]) -> bool:
        """Returns whether the rounds of this gate can contain other gradients.

        They can if the same variables have gradients, of the same kinds and data types.
        """
        others = {
            variable.ref(): _kind(gradient)
            for gradient, variable in grads_and_vars
            if gradient is not None
        }
        return others == {each.variable.ref(): _kind(each.computed) for each in self.pushed}

    def add_step(self, grads_and_vars: Sequence[GradientAndVariable]) -> None:
        """Adds another step of a worker, which brings other gradients to the same rounds.

        Args:
            grads_and_vars: Gradients that `accepts` accepts, and their variables.
        """
        self._round_and_slot = None
        with tf.control_dependencies(None):
            gradients = self._accumulated(grads_and_vars)
        pushed = [each for each in gradients if each is not None]
        self.step = self._worker_step(grads_and_vars, pushed)

    def _accumulated(
        self, grads_and_vars: Sequence[GradientAndVariable]
    ) -> list[VariableGradients | None]:
        with v1.name_scope(self.scope):
            return [
                None
                if each is None
                else VariableGradients(each, variable, self.scope, self._push_options)
                for each, variable in grads_and_vars
            ]

    def _worker_step(
        self, grads_and_vars: Sequence[GradientAndVariable], pushed: Sequence[VariableGradients]
    ) -> WorkerStep:
        """Pushes gradients with a slot of the round, and waits for the next round."""
        gate = self.gate
        with v1.name_scope(self.scope):
            claim_after: list[tf.Operation] = []
            if not self._claims_early:
                computed = _operations([gradient for gradient, _ in grads_and_vars])
                with v1.device(self._anchor.device), tf.control_dependencies(computed):
                    # One edge to the gate instead of many.
                    claim_after = [tf.no_op(name="computed")]
            step, packed = self._entered or self._enter(claim_after)
            self._entered = None
            claim = Claim(packed)
            arrived = sent_in_bundles([(each.gradient, each.variable) for each in pushed])
            outcomes = [
                each.push(claim, gradient) for each, gradient in zip(pushed, arrived, strict=True)
            ]
            next_round, is_dropped = gate.finish(step, any_added(pushed, outcomes))
            train_op = self._local_step.assign(next_round)
            with gate.on_device(), tf.control_dependencies([train_op]):
                dropped = tf.identity(is_dropped, name="dropped")
        return WorkerStep(train_op, packed, outcomes, dropped)

    def _enter(self, claim_after: list[tf.Operation]) -> tuple[tf.Tensor, tf.Tensor]:
        """Begins a step at the gate, and claims a slot after some operations.

        Returns:
            The handle of the step, `[] resource`, and its round and slot: `[2] int64`.
        """
        # The step enters the gate after a tensor of the worker's device. If a step fails on the
        # worker early, the gate's server may get its part of the step only when the runtime has
        # cleaned up after the failure, and that part then waits forever for the gradients. Without
        # this tensor, it would hold a slot meanwhile.
        with tf.control_dependencies([self._began]):
            step = self.gate.enter(self._local_step.value())
        with tf.control_dependencies(claim_after):
            return step, self.gate.claim(step)


class _LocalStep:
    """The local step of a worker, beside the gate.

    A worker's step reads and assigns it there, so it is sent to the worker only if the worker
    fetches it. Each optimizer of each graph has its own variable, so a worker that replaces another
    one does not share that worker's variable.

    Args:
        gate: The gate.
        dtype: Data type of the global step.
    """

    def __init__(self, gate: SyncGate, dtype: tf.DType) -> None:
        self._gate = gate
        # Variables of one name and container on a server are one variable, and all graphs give this
        # one the same name. None disables device functions: replica_device_setter would count the
        # variable, and place the next ones on other servers.
        with v1.container(gate.graph_id), v1.device(None), gate.on_device():
            self._variable = v1.Variable(
                0,
                dtype=dtype,
                trainable=False,
                collections=[v1.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
                name="sync_rep_local_step",
            )

    def value(self) -> tf.Tensor:
        """Returns the local step: `[] int64`."""
        with self._gate.on_device():
            return host_int64(self._variable.read_value())

    def assign(self, round_: tf.Tensor) -> Any:
        """Assigns a round: `[] int64`."""
        with self._gate.on_device():
            return v1.assign(self._variable, tf.cast(round_, self._variable.dtype))


def _chief_step(
    gate: SyncGate,
    gradients: Sequence[VariableGradients | None],
    num_required: int,
    apply: Callable[[list[Gradient | None]], tf.Operation],
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


def _open_gate(
    gate: SyncGate,
    local_step: _LocalStep,
    global_step: tf.Variable,
    gradients: Sequence[VariableGradients],
) -> tuple[tf.Operation, tf.Tensor]:
    """Begins a round whose number is higher than all earlier ones, with nothing accumulated.

    If this session has opened the gate already, the running round goes on.

    Returns:
        The operation, and whether the gate then belongs to this chief: `[] bool`.
    """
    steps = [each.step() for each in gradients]
    with gate.on_device():
        highest = tf.reduce_max(tf.stack([host_int64(global_step), *steps]), name="highest_step")
    round_, is_chief = gate.prepare(highest)
    resets = [each.reset(round_) for each in gradients]
    with tf.control_dependencies([tf.group(*resets, name="reset")]):
        opened = gate.open(round_)
    with tf.control_dependencies([opened]):
        return tf.group(local_step.assign(round_)), is_chief


def _kind(gradient: Gradient) -> tuple[bool, tf.DType]:
    return isinstance(gradient, tf.IndexedSlices), gradient.dtype.base_dtype


def warn_of_placeholders(sync_op: tf.Operation, optimizer: str) -> None:
    """Logs if the chief's updates depend on placeholders, such as a learning rate.

    Args:
        sync_op: The chief's step.
        optimizer: Name of the optimizer.
    """
    seen: set[str] = set()
    left = [sync_op]
    while left:
        op = left.pop()
        if op.name in seen or op.type.startswith("Condacc>SyncGateAwait"):
            continue
        seen.add(op.name)
        if op.type in _PLACEHOLDERS:
            _LOG.warning(
                "SyncReplicasOptimizer '%s': the updates depend on the placeholder '%s'. The "
                "chief's queue runner makes them, apart from the steps of workers, so it does not "
                "get what these feed: %s. Use a variable, or a function of the global step.",
                optimizer,
                op.name,
                _PLACEHOLDERS[op.type],
            )
        left += [*(each.op for each in op.inputs), *op.control_inputs]


def _operations(gradients: Sequence[Gradient | None]) -> list[tf.Operation]:
    """Returns the operations that compute gradients, which may be sparse."""
    found = []
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            parts = [gradient.values, gradient.indices]
        else:
            parts = [gradient]
        found += [part.op for part in parts if isinstance(part, tf.Tensor)]
    return found
