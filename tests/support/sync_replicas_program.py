"""Builds the graphs of workers whose gradients tell who made them."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import tf_condacc
from tests.support.sync_replicas_log import PushLog
from tests.support.waiting import PATIENCE_SECS
from tf_condacc._ops.native import ops

v1 = tf.compat.v1
# Arguments of a monitored session that saves and logs nothing, and waits for its threads.
QUIET: dict[str, Any] = {
    **dict.fromkeys(("save_checkpoint_secs", "save_summaries_steps", "log_step_count_steps")),
    "stop_grace_period_secs": PATIENCE_SECS,
}


class LoggingDescent(v1.train.GradientDescentOptimizer):
    """Adds gradients to the variables, and logs them on the worker that is the chief."""

    def __init__(self, log: PushLog, device: str, replicas: int) -> None:
        super().__init__(-1.0)
        self._log_of_takes = log
        self._device = device
        self._replicas = replicas

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        graph = v1.get_default_graph()
        (*_, full) = [op for op in graph.get_operations() if "AwaitFull" in op.type]
        with v1.device(self._device):
            logged = [self._logged(g, v, full.outputs[0]) for g, v in grads_and_vars]
        return super().apply_gradients(logged, global_step, name)

    def _logged(self, gradient: Any, variable: Any, round_: tf.Tensor) -> Any:
        def log(mean: np.ndarray, round_: np.ndarray) -> np.ndarray:
            total = int(mean.flat[0]) * self._replicas
            self._log_of_takes.add("take", var=variable.op.name, round=int(round_), total=total)
            return mean

        passed = v1.py_func(log, [gradient, round_], gradient.dtype, stateful=True)
        passed.set_shape(gradient.shape)
        return passed, variable


def own_step(name: str, dtype: tf.DType = tf.int64, **arguments: Any) -> Any:
    """Returns a global step that is made under a name of its own."""
    return v1.get_variable(
        name,
        initializer=tf.constant(0, dtype),
        trainable=False,
        collections=[v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.GLOBAL_STEP],
        **arguments,
    )


def monitored(
    optimizer: Any,
    target: str = "",
    is_chief: bool = True,
    hooks: Iterable[Any] = (),
    first_hooks: Iterable[Any] = (),
    num_tokens: int = -1,
    **arguments: Any,
) -> Any:
    """Returns a monitored session of the default graph, which saves and logs nothing by default.

    Args:
        optimizer: The optimizer, whose hook comes between the others.
        target: Target of the session.
        is_chief: Whether it is that of a chief. The chief's must be made first.
        hooks: Hooks that come after that of the optimizer.
        first_hooks: Hooks that come before it.
        num_tokens: Argument of `make_session_run_hook`.
        **arguments: Further arguments of the session.
    """
    return v1.train.MonitoredTrainingSession(
        target,
        is_chief,
        hooks=[*first_hooks, optimizer.make_session_run_hook(is_chief, num_tokens), *hooks],
        **{**QUIET, **arguments},
    )


class Restored(v1.train.SessionRunHook):
    """Logs what a chief has restored before it opens the gate."""

    def __init__(self, log: PushLog, restored: Callable[[Any], dict[str, Any]]) -> None:
        self._log, self._restored = log, restored

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._log.add("restored", **self._restored(session))


class WorkerProgram(abc.ABC):
    """The graph of a worker and its sessions.

    Attributes:
        graph: The graph.
        is_chief: Whether the worker is the chief.
        log: Log of what happens.
        optimizer: The optimizer of the worker.
        fetches: What a step fetches: the training operation, the global step and more.
    """

    graph: tf.Graph
    is_chief: bool
    log: PushLog
    optimizer: tf_condacc.SyncReplicasOptimizer
    fetches: list[Any]

    @abc.abstractmethod
    def restored(self, session: Any) -> dict[str, Any]:
        """Returns what the log is to say about the state in which a chief begins."""

    def hook(self) -> Any:
        return self.optimizer.make_session_run_hook(self.is_chief)

    def session(self, target: str, hooks: Iterable[Any] = (), **arguments: Any) -> Any:
        """Returns a monitored session of this worker. The chief's must be made first."""
        with self.graph.as_default():
            return monitored(self.optimizer, target, self.is_chief, hooks, **arguments)

    def run(self, session: Any) -> int:
        """Makes a step; returns the global step after it."""
        return int(session.run(self.fetches)[1])


class NumberedModel(WorkerProgram):
    """The graph of one worker. Each step's gradients are a number that no other step has.

    Args:
        task: Number of the worker; worker 0 is the chief, unless `is_chief` says something else.
        replicas: Number of gradients in a round.
        total: Number of workers.
        log: Log of the pushes and, in a chief, of the takes.
        name: Name of the optimizer, and prefix of the variables.
        variables: Names of the variables.
        device: Device function or name, or None.
        sleep: Called before the gradient of the last variable is ready.
        configure: Arguments of the optimizer's `configure`.
    """

    def __init__(
        self,
        task: int,
        replicas: int,
        total: int,
        log: PushLog,
        name: str = "sync_replicas",
        variables: Iterable[str] = ("w", "b"),
        device: Any = None,
        sleep: Callable[[], Any] | None = None,
        configure: Mapping[str, Any] | None = None,
        use_resource: bool = True,
        step_dtype: tf.DType = tf.int64,
        first: int = 0,
        is_chief: bool | None = None,
    ) -> None:
        self.task, self.log, self.replicas = task, log, replicas
        self.is_chief = task == 0 if is_chief is None else is_chief
        self._numbers = itertools.count(first + 1)
        self.graph = tf.Graph()
        worker = f"/job:worker/task:{task}" if device is not None else ""
        with self.graph.as_default(), v1.device(device):
            self.step = own_step(
                f"{name}_step" if name != "sync_replicas" else "global_step",
                step_dtype,
                use_resource=use_resource,
            )
            self.variables = [
                v1.get_variable(
                    f"{name}_{each}",
                    initializer=tf.zeros([2], tf.float64),
                    use_resource=use_resource,
                )
                for each in variables
            ]
            with v1.device(worker):
                value = v1.py_func(self._next_value, [], tf.float64, stateful=True)
                value.set_shape([])
                gradients = [tf.fill([2], tf.identity(value)) for _ in variables]
                if sleep is not None:
                    gradients[-1] = self._after(sleep, gradients[-1])
            descent: Any = v1.train.GradientDescentOptimizer(-1.0)
            if self.is_chief:
                descent = LoggingDescent(log, worker, replicas)
            self.optimizer = tf_condacc.SyncReplicasOptimizer(descent, replicas, total, name=name)
            self.optimizer.configure(**(configure or {}))
            self.train = self.optimizer.apply_gradients(
                zip(gradients, self.variables, strict=True), global_step=self.step
            )
            gate = self.optimizer._graph.gate
            with gate.on_device():
                self.gate_state = ops.condacc_sync_gate_state(gate.handle)
            with v1.device(worker):
                made = self.optimizer._graph.step
                self.fetches = [self.train, self.step, *self._logs(value, made)]

    def weights(self, session: Any) -> dict[str, float]:
        values = session.run(self.variables)
        names = [variable.op.name for variable in self.variables]
        return {name: float(value[0]) for name, value in zip(names, values, strict=True)}

    def restored(self, session: Any) -> dict[str, Any]:
        """Returns the weights and the last round of earlier sessions."""
        round_ = int(session.run(self.gate_state).round)
        return {"weights": self.weights(session), "round": round_}

    def _next_value(self) -> np.float64:
        number = (self.task + 1) * 10**7 + next(self._numbers)
        self.log.add("value", task=self.task, value=self.replicas * number)
        return np.float64(self.replicas * number)

    def _after(self, sleep: Callable[[], Any], gradient: tf.Tensor) -> tf.Tensor:
        def passed(value: np.ndarray) -> np.ndarray:
            sleep()
            return value

        result = v1.py_func(passed, [gradient], gradient.dtype, stateful=True)
        result.set_shape(gradient.shape)
        return result

    def _logs(self, value: tf.Tensor, step: Any) -> list[tf.Operation]:
        def log(kind: str, claim: np.ndarray, value: np.ndarray, **more: Any) -> None:
            place = {"round": int(claim[0]), "slot": int(claim[1])}
            self.log.add(kind, task=self.task, **place, value=int(value), **more)

        def log_claim(claim: np.ndarray, value: np.ndarray) -> None:
            if claim[0] >= 0:
                log("claim", claim, value)

        def log_push(name: str) -> Callable[..., None]:
            return lambda outcome, claim, value: log(
                "push", claim, value, var=name, outcome=int(outcome)
            )

        pushed = [
            v1.py_func(log_push(variable.op.name), [outcome, step.claim, value], [])
            for variable, outcome in zip(self.variables, step.outcomes, strict=True)
        ]
        return [v1.py_func(log_claim, [step.claim, value], []), *pushed]
