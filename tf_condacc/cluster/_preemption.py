"""Leaves a training at SIGTERM, which schedulers send before they take a machine away."""

from __future__ import annotations

import enum
import logging
import os
import threading
from typing import Any

from tensorflow.compat import v1

from tf_condacc._optimizers.sync_replicas.hook import SyncReplicasOptimizerHook

_LOG = logging.getLogger("tf_condacc")
_HOOKS_SECS = 10  # Hooks may be saving a checkpoint, or one of them has failed.
_STEP_SECS = 1  # A step that has not ended by then may wait for other tasks.
_BASENAME = "model.ckpt"  # That of the checkpoints of a MonitoredTrainingSession.


class _Phase(enum.Enum):
    BETWEEN_STEPS = enum.auto()
    IN_STEP = enum.auto()
    IN_HOOKS = enum.auto()  # Between a step and the next one. Hooks may be saving a checkpoint.
    HELD = enum.auto()  # The thread that trains does nothing until the process ends.


class LeavingSession:
    """Lets another thread leave a monitored session in which the main thread trains.

    Args:
        is_chief: Whether this task is the chief.
        arguments: Arguments of ``tf.compat.v1.train.MonitoredTrainingSession``.

    Attributes:
        arguments: The arguments with which the session has to be made.
    """

    def __init__(self, is_chief: bool, arguments: dict[str, Any]) -> None:
        self._is_chief = is_chief
        self._changed = threading.Condition()
        self._phase = _Phase.BETWEEN_STEPS
        self._has_left = False
        self._session: v1.Session | None = None
        hooks = list(arguments.get("hooks") or ())
        self._sync_hooks = [each for each in hooks if isinstance(each, SyncReplicasOptimizerHook)]
        self._checkpoint_dir = arguments.get("checkpoint_dir")
        self._scaffold = arguments.get("scaffold") or v1.train.Scaffold()
        self.arguments = {**arguments, "scaffold": self._scaffold}
        # The chief's own hooks come before the others.
        for name in ("chief_only_hooks", "hooks") if is_chief else ("hooks",):
            self.arguments[name] = list(arguments.get(name) or ())
        first = self.arguments["chief_only_hooks" if is_chief else "hooks"]
        first.insert(0, _FirstHook(self))
        self.arguments["hooks"].append(_LastHook(self))

    def leave(self) -> None:
        """Saves a checkpoint if this is the chief; tells that the worker leaves if not.

        The main thread is held between two steps, except if its step or its hooks do not end soon.

        Raises:
            tf.errors.OpError: The parameter servers cannot be reached, or there is no space.
        """
        with self._changed:
            self._has_left = True
            self._changed.wait_for(lambda: self._phase is not _Phase.IN_STEP, _STEP_SECS)
            self._changed.wait_for(lambda: self._phase is not _Phase.IN_HOOKS, _HOOKS_SECS)
            session = self._session
        if session is None:
            _LOG.warning("SIGTERM: there is no session, so nothing is saved.")
            return
        with session.graph.as_default():
            if self._is_chief:
                self._save(session)
                return
            for hook in self._sync_hooks:
                hook.leave(session)
        _LOG.warning("SIGTERM: this worker leaves the training.")

    def enter(self, phase: _Phase) -> None:
        """Notes where the main thread is. Does not return if the task has left the training."""
        with self._changed:
            self._phase = _Phase.HELD if self._has_left else phase
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._phase is not _Phase.HELD)

    def use(self, session: v1.Session | None) -> None:
        """Sets the session, or that there is none."""
        self.enter(_Phase.BETWEEN_STEPS)
        with self._changed:
            self._session = session

    def _save(self, session: v1.Session) -> None:
        if not self._checkpoint_dir:
            _LOG.warning("SIGTERM: no checkpoint is saved, because there is no checkpoint_dir.")
            return
        step = int(session.run(v1.train.get_global_step(session.graph)))
        path = os.path.join(self._checkpoint_dir, _BASENAME)
        if v1.train.latest_checkpoint(self._checkpoint_dir) != f"{path}-{step}":
            self._scaffold.saver.save(session, path, global_step=step)
        _LOG.warning("SIGTERM: the checkpoint of step %d is in %s.", step, self._checkpoint_dir)


class _FirstHook(v1.train.SessionRunHook):
    """The hook that is called before all others."""

    def __init__(self, leaving: LeavingSession) -> None:
        self._leaving = leaving

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._leaving.enter(_Phase.IN_HOOKS)

    def end(self, session: v1.Session) -> None:
        self._leaving.enter(_Phase.IN_HOOKS)


class _LastHook(v1.train.SessionRunHook):
    """The hook that is called after all others."""

    def __init__(self, leaving: LeavingSession) -> None:
        self._leaving = leaving

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        self._leaving.use(session)

    def before_run(self, run_context: Any) -> None:
        self._leaving.enter(_Phase.IN_STEP)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._leaving.enter(_Phase.BETWEEN_STEPS)

    def end(self, session: v1.Session) -> None:
        self._leaving.use(None)
