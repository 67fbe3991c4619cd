"""Sessions of the tasks that train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.compat import v1

from tf_condacc import _times


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
