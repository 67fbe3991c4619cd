"""The optimizer that averages the gradients of several workers in each step.

Mirrors ``tf.compat.v1.train.SyncReplicasOptimizer``.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._optimizers.sync_replicas.gate import GateOptions
from tf_condacc._optimizers.sync_replicas.graph import (
    RoundAndSlot,
    SyncGraph,
    warn_of_placeholders,
)
from tf_condacc._optimizers.sync_replicas.hook import HookOperations, SyncReplicasOptimizerHook
from tf_condacc._optimizers.sync_replicas.pushes import PushOptions
from tf_condacc._optimizers.sync_replicas.queue_runner import ChiefQueueRunner
from tf_condacc._optimizers.wrapper import OptimizerWrapper
from tf_condacc._sums import added_up
from tf_condacc._tensorflow import is_control_flow, is_determinism_enabled, is_function
from tf_condacc._typing import DTypeLike, GradientAndVariable

_TRANSPORT_DTYPES = (tf.bfloat16, tf.float16)
_SPARSE_REDUCTIONS = ("MEAN", "GLOBAL_MEAN", "SUM")


class SyncReplicasOptimizer(OptimizerWrapper):
    """Wraps an optimizer, and applies the mean of the gradients of several workers in each step.

    Mirrors ``tf.compat.v1.train.SyncReplicasOptimizer``; programs that were written for it need no
    change. A gate replaces its token queue:

    - A round has `replicas_to_aggregate` slots. A worker claims a slot, pushes all gradients with
      it, and waits for the next round. So all variables average the same workers, and none twice.
    - The slot of a step that failed, or whose worker died, is free at once. A waiting worker
      computes another gradient for it. If the first worker had begun to push, some variables
      average its gradient and others that of its successor; each has one gradient of each slot.
    - The chief takes a round when it is complete. Parameters do not change before.
    - If a round takes too long, the chief and the workers log who is missing.

    The local step, ``sync_rep_local_step``, is the number of the worker's current round. The gate
    counts rounds: their number never decreases, not even when the global step is restored.

    Example:
        >>> v1 = tf.compat.v1
        >>> with tf.Graph().as_default():
        ...     step = v1.train.get_or_create_global_step()
        ...     weight = v1.get_variable("weight", initializer=8.0)
        ...     optimizer = tf_condacc.SyncReplicasOptimizer(
        ...         v1.train.GradientDescentOptimizer(0.25), replicas_to_aggregate=1
        ...     )
        ...     train_op = optimizer.minimize(weight * weight, global_step=step)
        ...     hook = optimizer.make_session_run_hook(is_chief=True)
        ...     with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        ...         _ = session.run(train_op)
        ...         print(session.run(weight))
        4.0

    Args:
        opt: The optimizer to wrap, a ``tf.compat.v1.train.Optimizer``.
        replicas_to_aggregate: Number of gradients that each step averages.
        total_num_replicas: Number of workers; by default `replicas_to_aggregate`. If it is higher,
            the others are backups: the first gradients count, and later ones are dropped. If it is
            lower, or fewer workers come, workers compute several gradients in a step.
        variable_averages: A ``tf.train.ExponentialMovingAverage`` to apply after each step, or
            None.
        variables_to_average: The variables to average; by default all trainable variables.
        use_locking: Passed to the base class, as in the original. It has no effect.
        name: Name of this optimizer. Made unique in its graph, it is also the name by which the
            workers find each other. So all workers must build their graphs in the same way.

    Raises:
        ValueError: `replicas_to_aggregate` or `total_num_replicas` is lower than 1.
    """

    def __init__(
        self,
        opt: v1.train.Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: tf.train.ExponentialMovingAverage | None = None,
        variables_to_average: Iterable[tf.Variable] | None = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        if total_num_replicas is None:
            total_num_replicas = replicas_to_aggregate
        super().__init__(use_locking, name)
        self._opt = opt
        self._replicas_to_aggregate = self._checked_count(
            "replicas_to_aggregate", replicas_to_aggregate
        )
        self._total_num_replicas = self._checked_count("total_num_replicas", total_num_replicas)
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._graphs: list[SyncGraph] = []  # One for each gate.
        self._graph: SyncGraph | None = None  # That of the last call.
        self._is_chief: bool | None = None  # What the hook of a session says.
        # Subclasses that were written for the original read these attributes.
        self._tokens_per_step = max(self._total_num_replicas, self._replicas_to_aggregate)
        self._global_step: Any = None
        self._gradients_applied = False
        self._chief_queue_runner: ChiefQueueRunner | None = None
        self._accumulator_list: list[tuple[Any, str]] = []  # With the device of each.
        self.configure()

    def __getstate__(self) -> dict[str, Any]:
        """Returns what copies and pickles contain: all but the operations of a graph.

        Raises:
            TypeError: `apply_gradients` has been called, so a copy would have the same gate and
                gradients.
        """
        if self._graphs:
            raise TypeError(
                f"SyncReplicasOptimizer '{self.get_name()}' cannot be copied or pickled after "
                "apply_gradients() or round_and_slot(), because its gate and its gradients belong "
                "to the graph. Copy it before, or make another optimizer."
            )
        # Otherwise, shallow copies would share the lists.
        return {**vars(self), "_graphs": [], "_accumulator_list": []}

    def configure(
        self,
        *,
        takeover_secs: float | None = None,
        report_secs: float | None = 60,
        sparse_reduction: str = "MEAN",
        transport_dtype: DTypeLike | None = None,
        wait_for_lost: bool = False,
        deterministic: bool | None = None,
        start_secs: float | None = 60,
    ) -> None:
        """Sets options that the original does not have, before `apply_gradients`.

        The chief's options apply to all workers, except `report_secs`, which each process sets for
        its own reports, and for how long it waits for another training if it comes after the end.

        Args:
            takeover_secs: If the gate is idle for this many seconds, which means that no slot is
                claimed or completed, waiting workers take over the slots of workers that do not
                wait. It must be longer than a step takes. If all workers are needed, the update
                still waits for the chief's next step, because the chief may be saving a
                checkpoint. If it is None, training waits for a worker that is frozen, or that was
                killed between two steps.
            report_secs: If a round lasts longer than this many seconds while a worker waits, chief
                and workers log who is missing. If it is None, they never do.
            sparse_reduction: How ``tf.IndexedSlices`` are reduced: "MEAN" divides each row by the
                number of gradients that have it, as the original does; "GLOBAL_MEAN" by
                `replicas_to_aggregate`; "SUM" does not divide.
            transport_dtype: ``tf.bfloat16`` or ``tf.float16``: gradients of wider floating-point
                types are cast to it before they are sent, and their mean is rounded to it. They are
                summed as float32. By default they are sent as they are.
            wait_for_lost: The remaining workers compute the gradients of a lost worker. If none has
                remained for `report_secs`, the chief's step fails with a
                ``tf.errors.FailedPreconditionError`` that names the lost workers. If this is true,
                or `report_secs` is None, it waits until a worker returns.
            deterministic: Whether to add the gradients of a round in the order of their slots
                instead of that of their arrival, so that the bits of the sums do not depend on it.
                A program whose gradients are functions of the weights and of `round_and_slot` then
                makes the same updates, to the last bit, whatever fails meanwhile. All workers must
                set it alike. By default, it is what
                ``tf.config.experimental.enable_op_determinism`` has set.
            start_secs: How long the first round waits for workers of the cluster that have not come
                yet; later, others compute their gradients until they come, and the chief logs once
                who is missing, unless `report_secs` is None. The workers are those of
                the environment variable ``TF_CONFIG`` or else of the `cluster` of
                `tf_condacc.replica_device_setter`; if there is neither, nobody waits. With backup
                workers, `replicas_to_aggregate` of them are enough. None for no time.

        Raises:
            ValueError: An argument is out of range, or `apply_gradients` or `round_and_slot` has
                been called.
        """
        if self._graphs:
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects configure() before apply_gradients() and "
                "round_and_slot()."
            )
        if deterministic:
            self._check_has_no_backups("deterministic=True")
        if sparse_reduction not in _SPARSE_REDUCTIONS:
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects sparse_reduction to be one of "
                f"{', '.join(_SPARSE_REDUCTIONS)}, got {sparse_reduction!r}."
            )
        push_options = PushOptions(sparse_reduction, self._checked_transport_dtype(transport_dtype))
        self._gate_options = GateOptions(
            self._replicas_to_aggregate,
            self._total_num_replicas,
            self._checked_secs("takeover_secs", takeover_secs),
            self._checked_secs("report_secs", report_secs),
            bool(wait_for_lost),
            self._checked_secs("start_secs", start_secs),
        )
        self._push_options, self._is_deterministic = push_options, deterministic

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[GradientAndVariable]:
        """Computes gradients with the wrapped optimizer.

        Args:
            *args: Passed to the wrapped optimizer's `compute_gradients`.
            **kwargs: Passed to the wrapped optimizer's `compute_gradients`.

        Returns:
            A list of (gradient, variable) pairs.
        """
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradientAndVariable],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> Any:
        """Builds the step of a worker, and that of the chief.

        It may be called several times in a graph, as programs do that have a loss for each length
        of their input. All training operations share one hook and one queue runner. Those whose
        gradients are of the same variables and kinds bring them to the same rounds. Others have
        rounds of their own, so all workers must run them equally often.

        Args:
            grads_and_vars: Iterable of (gradient, variable) pairs, as `compute_gradients` returns
                them. Gradients may be tensors, ``tf.IndexedSlices`` or None. Those of a variable
                that occurs several times are added up.
            global_step: The step variable, which each round increments by one: `[] int32 or
                int64`. The gate is on its device.
            name: Not used, as in the original.

        Returns:
            The training operation of a worker. It ends when the worker is to begin its next step,
            and fails with ``tf.errors.OutOfRangeError`` when training has ended.

        Raises:
            ValueError: There are no pairs, `global_step` is None or another one than in an earlier
                call, or a gradient is of an unknown type; or it is called again after
                `round_and_slot`; or the sums are to be deterministic, and there are backup workers.
            RuntimeError: Eager execution is enabled, or this is a function, or a branch or loop of
                control flow version 2.
        """
        self._check_is_graph()
        grads_and_vars = tuple(grads_and_vars)
        if not grads_and_vars:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        for gradient, _ in grads_and_vars:
            if not isinstance(gradient, tf.Tensor | tf.IndexedSlices | None):
                raise ValueError("Unknown grad type!")
        grads_and_vars = added_up(grads_and_vars)
        self._forget_other_graph(global_step)
        if self._graph is not None and self._graph.is_complete and self._graph.claimed_first:
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects one call of apply_gradients() after "
                "round_and_slot(), because a step has one slot. Make another optimizer for other "
                "gradients."
            )
        for graph in self._graphs:
            if not graph.is_complete:
                self._complete(graph, grads_and_vars)
                break
            if graph.accepts(grads_and_vars):
                graph.add_step(grads_and_vars)
                break
        else:
            graph = self._new_graph(global_step)
            self._complete(graph, grads_and_vars)
        self._graph = graph
        return graph.step.train_op

    def _forget_other_graph(self, global_step: tf.Variable) -> None:
        """Begins anew if this is another graph than that of earlier calls.

        Raises:
            ValueError: `global_step` is another one than in an earlier call in the same graph.
        """
        if self._graphs and self._graphs[0].gate.handle.graph is not v1.get_default_graph():
            self._graphs, self._graph, self._chief_queue_runner = [], None, None
            self._accumulator_list = []
        if self._graphs and global_step is not self._graphs[0].global_step:
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects one global_step in all calls of "
                f"apply_gradients(), got '{global_step.op.name}' after "
                f"'{self._graphs[0].global_step.op.name}'. Make another optimizer for another step."
            )

    def _complete(self, graph: SyncGraph, grads_and_vars: list[GradientAndVariable]) -> None:
        """Adds the steps of a worker and of the chief to a gate."""
        graph.complete(grads_and_vars, lambda reduced: self._update(reduced, graph.global_step))
        warn_of_placeholders(graph.sync_op, self.get_name())
        if graph not in self._graphs:
            self._graphs.append(graph)
        self._global_step = graph.global_step
        self._gradients_applied = True
        self._accumulator_list += [(each.accumulator, each.device) for each in graph.pushed]
        with tf.control_dependencies(None), v1.name_scope(graph.scope):
            if self._chief_queue_runner is None:
                self._chief_queue_runner = ChiefQueueRunner(
                    self.get_name(), graph, lambda: self._is_chief
                )
                self.ready_for_local_init_op = graph.ready_for_local_init_op
                self.local_step_init_op = graph.local_step_init_op
                self.chief_init_op = graph.chief_init_op
            else:
                self._chief_queue_runner.add(graph)
                inits = [each.local_step_init_op for each in self._graphs]
                self.local_step_init_op = tf.group(*inits)
                self.chief_init_op = tf.group(*(each.chief_init_op for each in self._graphs))

    def _new_graph(self, global_step: tf.Variable) -> SyncGraph:
        """Returns a new gate without the steps of a worker and of the chief."""
        is_deterministic = self._is_deterministic
        if is_deterministic is None and is_determinism_enabled():
            self._check_has_no_backups("tf.config.experimental.enable_op_determinism()")
            is_deterministic = True
        options = self._push_options
        if is_deterministic:
            options = options._replace(num_ordered=self._replicas_to_aggregate)
        return SyncGraph(self.get_name(), global_step, self._gate_options, options)

    def round_and_slot(self, global_step: tf.Variable | None = None) -> RoundAndSlot:
        """Returns the round and the slot of the worker's step, to choose its examples by.

        A round has the same slots whichever workers compute their gradients: after a failure,
        another worker, or the same one again, gets the slot. If the examples of a step are a
        function of both numbers, each gradient is the same whoever computes it.

        Before `apply_gradients`, it adds the operations by which the worker's step claims its slot,
        so the gradients may depend on the tensors. Running the tensors without the training
        operation begins a step, and gives its slot back. After `apply_gradients`, it returns the
        tensors of the step that was added last. The original has no such method.

        Example:
            >>> v1 = tf.compat.v1
            >>> with tf.Graph().as_default():
            ...     step = v1.train.get_or_create_global_step()
            ...     weight = v1.get_variable("weight", initializer=8.0)
            ...     optimizer = tf_condacc.SyncReplicasOptimizer(
            ...         v1.train.GradientDescentOptimizer(0.25), replicas_to_aggregate=2
            ...     )
            ...     optimizer.configure(deterministic=True)
            ...     round_, slot = optimizer.round_and_slot(step)
            ...     example = tf.gather([1.0, 2.0, 3.0, 4.0], (2 * round_ + slot) % 4)
            ...     train_op = optimizer.minimize(example * weight * weight, global_step=step)

        Args:
            global_step: The step variable, the one that `apply_gradients` gets; by default that of
                the graph.

        Returns:
            A named tuple ``(round, slot)``. ``round: [] int64`` is the number of updates before
            that of the step, which is the global step; unlike the local step, it goes back if a
            checkpoint is restored. ``slot: [] int64`` is at least 0 and lower than
            `replicas_to_aggregate`; it is 0 if the step gets no slot, so that its gradients are
            dropped.

        Raises:
            ValueError: There is no global step, or there are backup workers, whose slots are known
                only after their gradients.
            RuntimeError: Eager execution is enabled, or this is a function, or a branch or loop of
                control flow version 2.
        """
        self._check_is_graph()
        if global_step is None:
            global_step = v1.train.get_global_step()
        if global_step is None:
            raise ValueError(f"Optimizer '{self.get_name()}' expects a global step.")
        self._forget_other_graph(global_step)
        if self._graph is None:
            self._check_has_no_backups("round_and_slot()")
            self._graph = self._new_graph(global_step)
            self._graphs.append(self._graph)
        return self._graph.round_and_slot()

    def get_chief_queue_runner(self) -> ChiefQueueRunner:
        """Returns the queue runner for the chief to start.

        The hook of a chief starts it. With a ``tf.compat.v1.train.Supervisor``, the program has to
        start it.

        Raises:
            ValueError: `apply_gradients` has not been called.
        """
        if self._chief_queue_runner is None:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> tf.Operation:
        """Returns an operation for the chief to run before its queue runner is started.

        No tokens are needed here. If a number is given, this many steps end without waiting for the
        round, as they do with the original. The gradients of the steps after them may be dropped.
        As with the original, the first round then waits for the workers that it needs beside these
        steps: with 0 tokens, for `replicas_to_aggregate` workers, or `total_num_replicas` if that
        is less. Without a number, it waits only for the workers that `start_secs` of `configure`
        describes. If neither this operation nor `chief_init_op` is run, it waits as with 0 tokens.

        Args:
            num_tokens: Number of steps that do not wait. If it is -1, all steps wait.

        Raises:
            ValueError: `apply_gradients` has not been called, or `num_tokens` is lower than what
                the original needs.
        """
        if self._chief_queue_runner is None:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        num_needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens != -1 and num_tokens < num_needed:
            raise ValueError(
                "Too few tokens to finish the first step: "
                f"{num_tokens} (given) vs {num_needed} (needed)"
            )
        return tf.group(*(each.gate.add_credits(num_tokens) for each in self._graphs))

    def make_session_run_hook(
        self, is_chief: bool, num_tokens: int = -1
    ) -> SyncReplicasOptimizerHook:
        """Returns the hook that every worker needs with a ``MonitoredTrainingSession``.

        Args:
            is_chief: Whether the worker is the chief.
            num_tokens: Argument of `get_init_tokens_op`.
        """
        make_operations = functools.partial(self._hook_operations, is_chief, num_tokens)
        return SyncReplicasOptimizerHook(is_chief, make_operations)

    def variables(self) -> list[tf.Variable]:
        """Returns the variables of the wrapped optimizer."""
        return self._opt.variables()

    @property
    def gradients_dropped(self) -> tf.Tensor:
        """A tensor that is True if the gradients of a step were dropped: `[] bool`.

        They are dropped if the round had no slot left for them, or if another worker took over the
        slot and pushed all of its gradients first. The tensor is part of the worker's step: fetch
        it together with the training operation. Fetching it alone also runs a step. After several
        calls of `apply_gradients`, it is that of the last one. The original has no such property.

        Raises:
            ValueError: `apply_gradients` has not been called.
        """
        if self._graph is None or not self._graph.is_complete:
            raise ValueError("gradients_dropped is known after apply_gradients().")
        return self._graph.step.dropped

    def num_dropped(self, name: str | None = None) -> tf.Tensor:
        """Returns the number of steps, of all workers, whose gradients were dropped: `[] int64`.

        The count begins with the process of the gate, and is not in checkpoints. The original has
        no such method. `apply_gradients` also adds a summary of it.

        Args:
            name: Optional name of the operation.

        Raises:
            ValueError: `apply_gradients` has not been called.
        """
        if self._chief_queue_runner is None:
            raise ValueError("num_dropped() should be called after apply_gradients().")
        counts = [each.gate.num_dropped() for each in self._graphs]
        return tf.identity(tf.add_n(counts) if len(counts) > 1 else counts[0], name=name)

    @property
    def _wrapped(self) -> v1.train.Optimizer:
        return self._opt

    def _hook_operations(self, is_chief: bool, num_tokens: int) -> HookOperations:
        """Returns what the hook of a worker runs. Subclasses may have replaced the attributes."""
        if self._chief_queue_runner is None:
            raise ValueError(
                "SyncReplicasOptimizer.apply_gradient should be called before using the hook."
            )
        self._is_chief = is_chief
        return HookOperations(
            self._graphs,
            self._chief_queue_runner,
            self.ready_for_local_init_op,
            self.chief_init_op if is_chief else self.local_step_init_op,
            self.get_init_tokens_op(num_tokens) if is_chief else None,
        )

    def _update(
        self, grads_and_vars: list[GradientAndVariable], global_step: tf.Variable
    ) -> tf.Operation:
        """Applies the gradients of a round, which may be None, and then the averages."""
        with v1.device(global_step.device), v1.name_scope(""):
            update = self._opt.apply_gradients(grads_and_vars, global_step)
        if self._variable_averages is None:
            return update
        with tf.control_dependencies([update]), v1.name_scope(""):
            return self._variable_averages.apply(self._variables_to_average)

    def _checked_count(self, argument: str, value: Any) -> int:
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects {argument} >= 1, got {value!r}."
            )
        return int(value)

    def _check_has_no_backups(self, argument: str) -> None:
        """Raises a ValueError if the gradients of a round are those of the fastest workers."""
        if self._replicas_to_aggregate < self._total_num_replicas:
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects replicas_to_aggregate >= "
                f"total_num_replicas with {argument}, got {self._replicas_to_aggregate} and "
                f"{self._total_num_replicas}: with backup workers, it depends on time whose "
                "gradients a round has. configure(deterministic=False) adds them as they arrive."
            )

    def _checked_secs(self, argument: str, seconds: float | None) -> float:
        """Returns a number of seconds for the gate, which takes 0 for never instead of None."""
        if seconds is not None and not 0 < seconds < 1e9:
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects {argument} to be a positive number of "
                f"seconds or None, got {seconds!r}."
            )
        return float(seconds or 0)

    def _checked_transport_dtype(self, transport_dtype: DTypeLike | None) -> tf.DType | None:
        if transport_dtype is None:
            return None
        try:
            dtype = tf.as_dtype(transport_dtype)
        except TypeError:
            dtype = None
        if dtype not in _TRANSPORT_DTYPES:
            raise ValueError(
                f"Optimizer '{self.get_name()}' expects transport_dtype to be one of "
                f"{', '.join(each.name for each in _TRANSPORT_DTYPES)} or None, got "
                f"{transport_dtype!r}."
            )
        return dtype

    def _check_is_graph(self) -> None:
        """Raises a RuntimeError unless operations are added to a graph for sessions."""
        if tf.executing_eagerly():
            where = "eager execution is enabled"
        elif is_control_flow(v1.get_default_graph()):
            raise RuntimeError(
                f"Optimizer '{self.get_name()}' cannot be used in a branch or a loop of control "
                "flow version 2. Call tf.compat.v1.disable_control_flow_v2() before the graph is "
                "built, or call apply_gradients() outside."
            )
        elif is_function(v1.get_default_graph()):
            where = "this is a tf.function, or code that a strategy runs on replicas"
        else:
            return
        raise RuntimeError(
            f"Optimizer '{self.get_name()}' works in graphs with sessions only, as "
            f"tf.compat.v1.train.SyncReplicasOptimizer does; {where}. Replicas of a strategy make "
            "each update together: there, use the optimizer that it wraps."
        )
