"""A process of a cluster."""

from __future__ import annotations

import inspect
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NoReturn

import tensorflow as tf
from tensorflow.compat import v1

from condacc import tf_config
from condacc._interrupts import shorten_interrupt
from condacc.liveness import Answer, Watch, probe
from condacc.tf_config import CHIEF_JOBS, EVALUATOR_JOB, PS_JOB, TaskConfig
from tf_condacc import _times
from tf_condacc._accumulators.placement import replica_device_setter
from tf_condacc._ops.missing_library import explanation
from tf_condacc._optimizers.sync_replicas.hook import SyncReplicasOptimizerHook
from tf_condacc.cluster import _connections, _ending
from tf_condacc.cluster._balancing import GreedyLoadBalancingStrategy, byte_size_load_fn
from tf_condacc.cluster._liveness import LostWorkers, watch_with_warnings
from tf_condacc.cluster._preemption import LeavingSession, SigtermHandler
from tf_condacc.cluster._sessions import ResumptionHook, worker_session

_LOG = logging.getLogger("tf_condacc")


def start(
    config: Mapping[str, Any] | str | None = None,
    *,
    session_config: v1.ConfigProto | None = None,
    report_secs: float | None = 10,
    grace_secs: float = 60,
    preemption_secs: float | None = 20,
) -> Task:
    """Starts the server of this process, as ``TF_CONFIG`` describes it.

    In a parameter server this function does not return: it serves until training has ended, and
    then ends the process with status 0, without exit handlers. It still answers until the processes
    of the other tasks have ended, for up to 2 seconds, so that its end does not disturb them.

    If there is no cluster in ``TF_CONFIG``, the process trains alone, without a server.

    Args:
        config: The contents of ``TF_CONFIG``, as text or as the object that it describes. By
            default, those of the environment variable.
        session_config: A ``tf.compat.v1.ConfigProto`` for the server and for sessions. If it has no
            device filters, some are added: a task that trains sees only parameter servers and
            itself, and so does not wait for other tasks.
        report_secs: If a task that this task needs does not answer for this many seconds, this task
            logs one warning that names it, and a second one when it answers again. Tasks that train
            need the parameter servers and the chief or, if the program sets device filters, all
            other tasks. None for never.
        grace_secs: How long a parameter server waits for other tasks after the chief has ended. A
            worker that restarts meanwhile finds that training has ended, and ends too.
        preemption_secs: How long a task may continue after SIGTERM, with which schedulers end
            processes whose machine they need. The chief saves a checkpoint into the
            `checkpoint_dir` of `Task.session`, a worker leaves the gate of its
            `SyncReplicasOptimizer`, so that nobody waits for it, and a parameter server answers
            until the tasks that train have ended. Then the process ends with status 143. The
            training is not over: the next chief continues it. None for the default action of the
            signal, which ends the process at once. A handler that the program sets takes
            precedence, and nothing is done outside the main thread, or in a task that trains
            outside its context.

    Returns:
        The task, to be used as a context in which the program trains. When the context is left
        without an error, the parameter servers are told that this task has ended. They end when all
        tasks have, or `grace_secs` after the chief. If the chief had ended before this task made
        its session, `Task.session` raises an error that the context suppresses: the program
        continues after the context.

    Raises:
        ValueError: ``TF_CONFIG`` does not describe a cluster and a task of it.
        tf.errors.OpError: The server cannot listen on its port. The message has the name and the
            address of the task.
    """
    task = Task(tf_config.read(config), session_config, report_secs, preemption_secs)
    if task.master:
        shorten_interrupt()
    if task.task_type == PS_JOB:
        task._serve(grace_secs, preemption_secs)
    return task


class Task:
    """The role of this process in a cluster. Made by `start`.

    The names of the attributes are those of ``tf.estimator.RunConfig``.

    Attributes:
        cluster_spec: The ``tf.train.ClusterSpec``; an empty one if the process is alone.
        task_type: Job of this task: "chief", "worker", "ps" or "evaluator".
        task_id: Number of this task in its job.
        is_chief: Whether this task initializes variables and saves checkpoints. This is the task of
            job "chief" or, without such a job, worker 0.
        num_ps_replicas: Number of parameter servers.
        num_worker_replicas: Number of tasks that train, the chief included.
        worker_index: Number of this task among those that train, the chief first.
        master: Target for sessions: "" if the process is alone.
        session_config: The ``tf.compat.v1.ConfigProto`` for sessions.
    """

    def __init__(
        self,
        config: TaskConfig,
        session_config: v1.ConfigProto | None = None,
        report_secs: float | None = None,
        preemption_secs: float | None = None,
    ) -> None:
        self._config = config
        self.cluster_spec = tf.train.ClusterSpec(config.cluster)
        self.task_type, self.task_id = config.task_type, config.task_id
        self.is_chief = (self.task_type, self.task_id) == config.chief
        self.num_ps_replicas = len(config.cluster.get(PS_JOB, []))
        self.num_worker_replicas = len(config.workers) or 1
        trains = (self.task_type, self.task_id) in config.workers
        self.worker_index = config.workers.index((self.task_type, self.task_id)) if trains else 0
        self.session_config = v1.ConfigProto()
        if session_config is not None:
            self.session_config.CopyFrom(session_config)
        has_filters = bool(self.session_config.device_filters)
        self.master = ""
        self._watch: Watch | None = None
        self._sync_hooks: list[SyncReplicasOptimizerHook] = []
        self._lost_workers: LostWorkers | None = None
        self._sigterm: SigtermHandler | None = None
        self._leaving: LeavingSession | None = None
        may_train = trains or (not config.cluster and self.task_type != EVALUATOR_JOB)
        if may_train and preemption_secs is not None:
            self._sigterm = SigtermHandler(self._leave, preemption_secs)
        if config.cluster and self.task_type != EVALUATOR_JOB:
            if not has_filters:
                self.session_config.device_filters.extend(self._filters())
            self._server = self._start_server()
            self.master = self._server.target
            _connections.close_lost_connections(tf_config.ports(config.cluster))
            if trains and report_secs is not None:
                # With device filters of its own, the program may make this task wait for any other.
                watched = self._all_others() if has_filters else self._needed()
                self._watch = watch_with_warnings(watched, report_secs)

    def __enter__(self) -> Task:
        if self._sigterm is not None:
            self._sigterm.start()
        if self._watch is not None:
            self._watch.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self._sigterm is not None:
            self._sigterm.stop()
        if self._watch is not None:
            self._watch.stop()
        if self._lost_workers is not None:
            self._lost_workers.stop()
        is_late = isinstance(exc, _ending.TrainingHasEndedError)
        if is_late:
            _LOG.warning("%s ends: training has ended.", self._name)
        has_exited = isinstance(exc, SystemExit) and exc.code in (0, None)
        if exc is None or is_late or has_exited:
            self._report_end()
        elif (better := explanation(exc)) is not None:
            raise better from exc
        return is_late

    def replica_device_setter(
        self, ps_strategy: Callable[[tf.Operation], int] | None = None
    ) -> Callable[[tf.Operation], str] | None:
        """Returns a device function that places variables and accumulators on parameter servers.

        Args:
            ps_strategy: Function that chooses the parameter server of an operation. By default
                variables are spread so that all servers have about as many bytes.

        Returns:
            A function for ``tf.compat.v1.device``; None if there are no parameter servers.
        """
        if not self.num_ps_replicas or not self.master:
            return None
        return replica_device_setter(
            cluster=self.cluster_spec,
            worker_device=f"/job:{self.task_type}/task:{self.task_id}",
            ps_strategy=ps_strategy
            or GreedyLoadBalancingStrategy(self.num_ps_replicas, byte_size_load_fn),
        )

    def session(self, **arguments: Any) -> v1.train.MonitoredSession:
        """Returns a monitored session for training.

        Mirrors ``tf.compat.v1.train.MonitoredTrainingSession``. A worker polls the chief once a
        second, instead of every 30 seconds, until the chief has initialized the variables.

        Args:
            **arguments: Arguments of ``tf.compat.v1.train.MonitoredTrainingSession``. `master`,
                `is_chief` and `config` are those of the task.

        Raises:
            TypeError: An argument is not known, or is one of those three.
            RuntimeError: The task is an evaluator.
            tf.errors.DeadlineExceededError: Parameter servers or the chief are not ready after
                `max_wait_secs`.
            tf.errors.OutOfRangeError: The chief has ended. The context of the task treats it as the
                end of training.
        """
        given = {"master", "is_chief", "config"} & arguments.keys()
        if given:
            raise TypeError(f"Task.session() got {sorted(given)}, which the task itself sets")
        if self.task_type == EVALUATOR_JOB:
            raise RuntimeError(
                "An evaluator is not a part of the cluster, and has no session for training."
            )
        inspect.signature(v1.train.MonitoredTrainingSession).bind(**arguments)
        if self.master:
            arguments["hooks"] = [*(arguments.get("hooks") or ()), ResumptionHook()]
        if self._sigterm is not None:
            self._leaving = LeavingSession(self.is_chief, arguments)
            arguments = self._leaving.arguments
        for hook in arguments.get("hooks") or ():
            if isinstance(hook, SyncReplicasOptimizerHook) and self.master:
                self._serve_hook(hook)
        if self.is_chief:
            return v1.train.MonitoredTrainingSession(
                master=self.master, is_chief=True, config=self.session_config, **arguments
            )
        return worker_session(self.master, self.session_config, self._report_begin, **arguments)

    @property
    def _name(self) -> str:
        return _name(self.task_type, self.task_id)

    def _filters(self) -> list[str]:
        own = f"/job:{self.task_type}/task:{self.task_id}"
        return [own] if self.task_type == PS_JOB else [f"/job:{PS_JOB}", own]

    def _start_server(self) -> tf.distribute.Server:
        _connections.reconnect_soon()
        try:
            return tf.distribute.Server(
                self.cluster_spec,
                job_name=self.task_type,
                task_index=self.task_id,
                config=self.session_config,
            )
        except tf.errors.UnknownError as error:
            address = self._config.cluster[self.task_type][self.task_id]
            raise tf.errors.UnknownError(
                error.node_def,
                error.op,
                f"{self._name} cannot start its server at {address}: {_why_not(address)}. "
                f"{error.message}",
            ) from error

    def _serve_hook(self, hook: SyncReplicasOptimizerHook) -> None:
        """Gives a hook what this task knows: lost workers, or the end of the chief."""
        if not self.is_chief:
            first_ps = self._config.cluster.get(PS_JOB, [""])[0]
            hook.check_while_waiting(lambda: _ending.raise_if_ended(self.master, first_ps))
            return
        self._sync_hooks.append(hook)
        if self._lost_workers is None:
            workers = {
                f"/job:{job}/task:{task}": self._config.cluster[job][task]
                for job, task in self._config.workers
                if (job, task) != (self.task_type, self.task_id)
            }
            self._lost_workers = LostWorkers(workers, self._lose)
            self._lost_workers.start()

    def _lose(self, worker: str) -> None:
        for hook in self._sync_hooks:
            hook.lose(worker)

    def _needed(self) -> dict[str, str]:
        """Returns the addresses of the parameter servers and of the chief, by their names."""
        chief = _name(*self._config.chief)
        return {
            name: address
            for name, address in self._all_others().items()
            if name == chief or name.startswith(f"{PS_JOB} ")
        }

    def _all_others(self) -> dict[str, str]:
        """Returns the addresses of all other tasks, by their names."""
        return {
            _name(job, task): address
            for job, addresses in self._config.cluster.items()
            for task, address in enumerate(addresses)
            if (job, task) != (self.task_type, self.task_id)
        }

    def _serve(self, grace_secs: float, preemption_secs: float | None) -> NoReturn:
        workers = [self._config.cluster[job][task] for job, task in self._config.workers]
        if preemption_secs is not None:
            SigtermHandler(
                lambda: _ending.await_processes(workers, preemption_secs), preemption_secs
            ).start()
        _ending.await_end(
            self.master,
            self.task_id,
            [_name(*each) for each in self._config.workers],
            _name(*self._config.chief),
            grace_secs,
        )
        _ending.await_processes(workers, _times.current.last_secs)
        # Ending the interpreter would take seconds, and there is nothing left to clean up.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)

    def _leave(self) -> None:
        """Leaves the training, which continues without this task or with its successor."""
        for address in self._config.cluster.get(PS_JOB, []):
            if probe(address, _times.current.ps_answer_secs) is not Answer.ANSWERED:
                if self._sigterm is not None and self._sigterm.is_interrupted:
                    _LOG.warning("SIGTERM after Ctrl-C: this task ends.")
                else:
                    _LOG.warning("SIGTERM: %s does not answer, so nothing is saved.", address)
                return
        if self._leaving is None:
            _LOG.warning("SIGTERM: there is no session, so nothing is saved.")
        else:
            self._leaving.leave()

    def _report_begin(self, timeout_secs: float) -> None:
        _ending.report_begin(self.master, self._name, self.num_ps_replicas, timeout_secs)

    def _report_end(self) -> None:
        if self.master and self.num_ps_replicas:
            _ending.report_end(self.master, self._name, self._config.cluster[PS_JOB])


def _why_not(address: str) -> str:
    """Returns why a server cannot listen on the port of an address."""
    port = int(address.rpartition(":")[2])
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        return f"port {port}: {os.strerror(error.errno or 0)}"
    return "the reason is not known"


def _name(job: str, task: int) -> str:
    return job if job in CHIEF_JOBS else f"{job} {task}"
