"""Sessions of the tasks that train."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc import _times

_LOG = logging.getLogger("tf_condacc")


class WorkerSessionCreator(v1.train.SessionCreator):
    """Makes the session of a worker as soon as the chief has initialized the variables.

    Mirrors ``tf.compat.v1.train.WorkerSessionCreator``, which polls the chief every 30 seconds.
    This class polls once a second.

    Args:
        scaffold: A ``tf.compat.v1.train.Scaffold``; None for a default one.
        master: Target of the session.
        config: The ``tf.compat.v1.ConfigProto`` of the session.
        max_wait_secs: How long to wait for the chief.
        before: Function that is called before a session is made.
    """

    def __init__(
        self,
        scaffold: v1.train.Scaffold | None,
        master: str,
        config: v1.ConfigProto,
        max_wait_secs: float,
        before: Callable[[], None],
    ) -> None:
        self._scaffold = scaffold or v1.train.Scaffold()
        self._master = master
        self._config = config
        self._max_wait_secs = max_wait_secs
        self._before = before

    def create_session(self) -> v1.Session:
        """Returns a session.

        Raises:
            tf.errors.DeadlineExceededError: The chief has not initialized the variables in time.
        """
        self._before()
        self._scaffold.finalize()
        manager = v1.train.SessionManager(
            local_init_op=self._scaffold.local_init_op,
            ready_op=self._scaffold.ready_op,
            ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
            graph=v1.get_default_graph(),
            recovery_wait_secs=_times.current.poll_secs,
            local_init_feed_dict=self._scaffold.local_init_feed_dict,
        )
        return manager.wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )


class ResumptionHook(v1.train.SessionRunHook):
    """Logs from which step training goes on when a session takes the place of a lost one."""

    def __init__(self) -> None:
        self._incarnations: dict[str, int] = {}  # Those of the last session's tasks.

    def after_create_session(self, session: v1.Session, coord: tf.train.Coordinator) -> None:
        """Compares the incarnations of the tasks. A process that is started again has another."""
        now = {}
        for device in session.list_devices():
            spec = tf.DeviceSpec.from_string(device.name)
            if spec.device_type == "CPU":
                now[f"{spec.job} {spec.task}"] = device.incarnation
        before = self._incarnations
        if before:
            lost = sorted(name for name in now if now[name] != before.get(name))
            step = v1.train.get_global_step(session.graph)
            _LOG.warning(
                "Training goes on%s after the loss of %s.",
                "" if step is None else f" from step {session.run(step)}",
                ", ".join(lost) or "a connection",
            )
        self._incarnations = now


def worker_session(
    master: str,
    config: v1.ConfigProto,
    before: Callable[[float], None],
    scaffold: v1.train.Scaffold | None = None,
    hooks: Sequence[v1.train.SessionRunHook] | None = None,
    stop_grace_period_secs: float = 120,
    max_wait_secs: float = 7200,
    **chief_arguments: Any,
) -> v1.train.MonitoredSession:
    """Returns a monitored session of a worker that is not the chief.

    Args:
        master: Target of the session.
        config: The ``tf.compat.v1.ConfigProto`` of the session.
        before: Function that is called with `max_wait_secs` before a session is made, also when a
            lost session is replaced.
        scaffold: A ``tf.compat.v1.train.Scaffold``; None for a default one.
        hooks: The hooks; None for no hooks.
        stop_grace_period_secs: How long threads may take to end when the session is closed.
        max_wait_secs: How long to wait for the chief.
        **chief_arguments: Arguments of ``tf.compat.v1.train.MonitoredTrainingSession`` that have no
            effect on workers.
    """
    del chief_arguments
    return v1.train.MonitoredSession(
        session_creator=WorkerSessionCreator(
            scaffold, master, config, max_wait_secs, lambda: before(max_wait_secs)
        ),
        hooks=hooks,
        stop_grace_period_secs=stop_grace_period_secs,
    )
