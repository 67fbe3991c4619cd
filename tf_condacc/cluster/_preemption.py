"""Leaves a training at SIGTERM, which schedulers send before they take a machine away."""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from tensorflow.compat import v1

from tf_condacc import _times
from tf_condacc._optimizers.sync_replicas.hook import SyncReplicasOptimizerHook

_LOG = logging.getLogger("tf_condacc")
_started: set[SigtermHandler] = set()
_STOP = b"\0"  # Ends the thread; no signal has this number.
_STATUS = 128 + signal.SIGTERM  # The status that a shell reports for the default action.
_BASENAME = "model.ckpt"  # The name of the checkpoints of a MonitoredTrainingSession.


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
            times = _times.current
            self._changed.wait_for(
                lambda: self._phase is not _Phase.IN_STEP, times.preempted_step_secs
            )
            self._changed.wait_for(
                lambda: self._phase is not _Phase.IN_HOOKS, times.preempted_hooks_secs
            )
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


class SigtermHandler:
    """Calls a function at SIGTERM, and then ends the process with status 143.

    The main thread may be inside a step, where Python runs no handlers of signals. So the handler
    in C writes to a pipe, and a thread reads it. The main thread continues meanwhile.

    A handler that the program sets takes precedence, even if it is set later. So does a SIGTERM
    that is ignored.

    Args:
        leave: The function. Errors that it raises are logged.
        limit_secs: Time after which the process ends in any case.

    Attributes:
        is_interrupted: Whether SIGINT came before, which Ctrl-C sends to all tasks.
    """

    def __init__(self, leave: Callable[[], None], limit_secs: float) -> None:
        self._leave = leave
        self._limit_secs = limit_secs
        self.is_interrupted = False
        self._thread: threading.Thread | None = None
        self._other_target = -1

    def start(self) -> None:
        """Begins to handle the signal. Does nothing outside the main thread."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        self._source, self._target = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._target, False)
        self._thread = threading.Thread(target=self._read, name="SIGTERM", daemon=True)
        self._thread.start()
        self._other_target = signal.set_wakeup_fd(self._target, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._write)
        _started.add(self)

    def stop(self) -> None:
        """Restores what was before. Does not return if the signal has come: the process ends."""
        if self._thread is None:
            return
        self._restore()
        os.write(self._target, _STOP)  # A fork may hold the pipe open, so closing it is not enough.
        self._thread.join()
        os.close(self._target)
        self._thread = None

    def _restore(self) -> None:
        _started.discard(self)
        if signal.getsignal(signal.SIGTERM) == self._write:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        current = signal.set_wakeup_fd(self._other_target)
        if current != self._target:  # The program has set its own.
            signal.set_wakeup_fd(current)

    def _write(self, number: int, frame: FrameType | None) -> None:
        """Writes the number again: the handler in C writes to the last pipe that was set."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._target, bytes([number]))

    def _read(self) -> None:
        is_stopped = False
        while not is_stopped:
            numbers = os.read(self._source, 4096)
            is_stopped = _STOP in numbers
            numbers = numbers.replace(_STOP, b"")
            self.is_interrupted = self.is_interrupted or signal.SIGINT in numbers
            if self._other_target >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._other_target, numbers)
            # The default action is back if this object was stopped in the meantime.
            is_own = signal.getsignal(signal.SIGTERM) in (self._write, signal.SIG_DFL)
            if signal.SIGTERM in numbers and is_own:
                self._end()
        os.close(self._source)

    def _end(self) -> None:
        late = threading.Timer(self._limit_secs, self._end_late)
        late.daemon = True
        late.start()
        try:
            self._leave()
        except BaseException as error:
            _LOG.warning("SIGTERM: %s", error)
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # It may be closed.
                stream.flush()
        os._exit(_STATUS)

    def _end_late(self) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"SIGTERM: the process ends after %g s.\n" % self._limit_secs)
        os._exit(_STATUS)


class _Fork(threading.local):
    """Restores the default action in a forked process.

    The handler in C of a forked process writes to the pipe of its parent.
    """

    def before(self) -> None:
        """Blocks the signal until the forked process has the default action."""
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM} if _started else ())

    def after_in_parent(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def after_in_child(self) -> None:
        for handler in list(_started):
            handler._restore()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


_fork = _Fork()
os.register_at_fork(
    before=_fork.before,
    after_in_parent=_fork.after_in_parent,
    after_in_child=_fork.after_in_child,
)
