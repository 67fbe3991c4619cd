"""All operations of an optimizer in one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._optimizers.sync_replicas.gate import GateOptions, SyncGate
from tf_condacc._optimizers.sync_replicas.local_step import LocalStep
from tf_condacc._optimizers.sync_replicas.options import PushOptions
from tf_condacc._optimizers.sync_replicas.pushes import VariableGradients
from tf_condacc._optimizers.sync_replicas.queue_runner import ChiefQueueRunner
from tf_condacc._optimizers.sync_replicas.reports import Reports
from tf_condacc._optimizers.sync_replicas.steps import (
    chief_step,
    open_gate,
    worker_step,
)
from tf_condacc._optimizers.sync_replicas.worker_name import worker_name
from tf_condacc._typing import GradientAndVariable

v1 = tf.compat.v1


class SyncGraph:
    """The operations of a worker and of a chief. Both are in the graph of each worker.

    Args:
        name: Name of the optimizer. Made unique in the graph, it is also the name of the gate and
            the prefix of the names of the accumulators.
        grads_and_vars: The gradients, which may be None, and their variables.
        global_step: The step variable.
        options: The options of the gate.
        push_options: How gradients travel and are reduced.
        update: Applies reduced gradients.

    Attributes:
        gate: The gate.
        step: The worker's step.
        ready_for_local_init_op: Names of global variables that are not initialized: `[n] string`.
        local_step_init_op: Waits until the gate is open, and sets the local step.
        chief_init_op: Opens the gate, and sets the local step.
        queue_runner: Runs the chief's steps.
        reports: Reports about rounds that last for too long; None if there are none.
        end_ops: The operations to run at the end, by whether the worker is the chief.
        fail_op: Tells the gate that this worker has failed.
        lose_op: Tells the gate that the process of `lost_worker` is gone.
        lost_worker: The name of a worker, to be fed: `[] string`.
    """

    def __init__(
        self,
        name: str,
        grads_and_vars: Sequence[GradientAndVariable],
        global_step: tf.Variable,
        options: GateOptions,
        push_options: PushOptions,
        update: Callable[[list[GradientAndVariable]], tf.Operation],
    ) -> None:
        anchor = tf.no_op(name="local_anchor")
        with v1.name_scope(None, name) as scope:
            gate = SyncGate(f"{scope}gate", global_step.device, worker_name(anchor.device), options)
        local_step = LocalStep(anchor, gate, global_step.dtype.base_dtype)
        self.ready_for_local_init_op = v1.report_uninitialized_variables(v1.global_variables())
        self.ready_for_local_init_op.mark_used()
        with v1.name_scope(scope):
            gradients = [
                None if gradient is None else VariableGradients(gradient, v, scope, push_options)
                for gradient, v in grads_and_vars
            ]
            pushed = [each for each in gradients if each is not None]
            # If every worker has a slot, nobody else needs this one, and it is claimed at once.
            claims_early = options.num_slots >= options.num_workers
            computed = None if claims_early else [gradient for gradient, _ in grads_and_vars]
            self.gate = gate
            self.step = worker_step(gate, local_step, pushed, computed)

            def apply(taken: list[Any]) -> tf.Operation:
                return update(list(zip(taken, [v for _, v in grads_and_vars], strict=True)))

            sync_op = chief_step(gate, gradients, options.num_slots, apply)
            self.reports = Reports(gate, name) if options.report_secs else None
            self.queue_runner = ChiefQueueRunner(gate, sync_op, self.reports)
            self.local_step_init_op = local_step.assign(gate.await_open())
            self.chief_init_op = open_gate(gate, local_step, global_step, pushed)
            self.end_ops = {True: gate.close(), False: gate.leave()}
            self.fail_op = gate.fail()
            with gate.on_device():
                self.lost_worker = v1.placeholder_with_default("", [], name="lost_worker")
            self.lose_op = gate.lose(self.lost_worker)
            v1.summary.scalar("num_dropped", gate.num_dropped())
