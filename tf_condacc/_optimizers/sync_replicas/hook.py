"""The hook that starts and ends a worker's part in synchronous training."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc import _times
from tf_condacc._ops.missing_library import explained
from tf_condacc._optimizers.sync_replicas.ending import SessionEnd
from tf_condacc._optimizers.sync_replicas.graph import SyncGraph
from tf_condacc._optimizers.sync_replicas.queue_runner import ChiefQueueRunner
from tf_condacc._optimizers.sync_replicas.recovery import (
    aborting_if_server_is_lost,
    recover_cancelled_steps,
)

_LOG = logging.getLogger("tf_condacc")


class HookOperations(NamedTuple):
    """The operations that a hook uses.

    Attributes:
        graphs: The operations of the optimizer at each of its gates.
        queue_runner: Runs the steps of the chief.
        ready_op: Returns the names of global variables that are not initialized: `[n] string`.
        init_op: Opens the gate if this worker is the chief, and waits until it is open if not.
        tokens_op: What the chief runs afterwards; None for other workers.
    """

    graphs: list[SyncGraph]
    queue_runner: ChiefQueueRunner
    ready_op: tf.Tensor
    init_op: Any
    tokens_op: tf.Operation | None


def _is_about_something_else(record: logging.LogRecord) -> bool:
    """Leaves out the warning of TensorFlow's StepCounterHook that the step has not been increased.

    The hook reads the step early in one run and late in the next one, and a run that computes a
    further gradient of a round does not increase it. The gate reports rounds that last too long.
    """
    return "(tf.train.get_global_step) has not been increased" not in str(record.msg)


class SyncReplicasOptimizerHook(v1.train.SessionRunHook):
    """Prepares each session for an optimizer, and ends training when the chief ends.

    Args:
        is_chief: Whether this worker is the chief, which applies the gradients.
        make_operations: Returns what the hook runs. Called by `begin`, because a hook may be made
            before `apply_gradients` is called.
    """

    def __init__(self, is_chief: bool, make_operations: Callable[[], HookOperations]) -> None:
        self._is_chief = is_chief
        self._make_operations = make_operations
        self._check_ended: Callable[[], None] | None = None
        self._session: v1.Session | None = None

    def begin(self) -> None:
        """Makes the operations of the hook.

        Raises:
            ValueError: `apply_gradients` has not been called.
        """
        self._operations = self._make_operations()
        self._graphs = self._operations.graphs

    def after_create_session(self, session: v1.Session, coord: tf.train.Coordinator) -> None:
        """Opens the gate if this is the chief, and waits until it is open if not.

        Raises:
            RuntimeError: A global variable has not been initialized.
            tf.errors.NotFoundError: A parameter server has not imported tf_condacc.
        """
        tf.get_logger().addFilter(_is_about_something_else)
        recover_cancelled_steps(coord)
        self._coordinator = coord
        self._session = session
        self._has_ended = False
        self._steps_begun = self._steps_made = 0
        self._session_end = SessionEnd.of(coord)
        reporters = []
        with explained(), aborting_if_server_is_lost():
            self._check_ready(session)
            if self._is_chief:
                session.run(self._operations.init_op)
                session.run(self._operations.tokens_op)
                self._operations.queue_runner.create_threads_without_closing(
                    session, coord, daemon=True, start=True
                )
            else:
                made = [each.reports for each in self._graphs]
                reporters = [each.thread(session) for each in made if each is not None]
                for reporter in reporters:
                    reporter.start()
                self._await_opening(session)
        ending = threading.Thread(
            target=self._tell_of_end,
            args=(session, coord, self._session_end, reporters),
            name="SyncReplicasHook",
            daemon=True,
        )
        coord.register_thread(ending)
        ending.start()

    def before_run(self, run_context: v1.train.SessionRunContext) -> None:
        """Ends a chief whose queue runner has failed, as after another chief has replaced it.

        A program that does not ask ``session.should_stop()`` would otherwise continue as a worker.
        """
        if self._is_chief:
            self._coordinator.raise_requested_exception()
        self._steps_begun += 1

    def after_run(
        self, run_context: v1.train.SessionRunContext, run_values: v1.train.SessionRunValues
    ) -> None:
        """Counts the step."""
        self._steps_made += 1

    def end(self, session: v1.Session) -> None:
        """Closes the gate if this is the chief; otherwise tells the gate that the worker leaves.

        The gate is told when all hooks have ended without an error. If another thread of the
        session has failed, or a hook fails, the training continues without this worker, or with
        the next chief. If another chief has replaced this one, the session ends with
        ``tf.errors.FailedPreconditionError``: the gate is that chief's, and its training continues.
        """
        if self._session_end.has_error():
            return
        if self._steps_made == 0 < self._steps_begun:
            _LOG.warning(
                "This session of synchronous training ends before its first step: training has "
                "ended, or there is no input."
            )
        self._session_end.at_normal_end(functools.partial(self._run_last, session))

    def leave(self, session: v1.Session) -> None:
        """Tells the gate that this worker leaves, although the training continues.

        The gate of a chief stays as it is, for the next chief. For processes that are told to end
        in the middle of a training.

        Args:
            session: A session of the worker's graph.
        """
        self._has_ended = True
        self._try_last(session, [each.leave_op for each in self._graphs])

    def lose(self, worker: str) -> bool:
        """Tells the gate that the process of a worker is gone, so that others compute for it.

        Args:
            worker: The name of the worker, such as "/job:worker/task:1".

        Returns:
            Whether the gate was notified. It is not while there is no session, or if its server
            does not answer.
        """
        if self._session is None:
            return False
        options = v1.RunOptions(timeout_in_ms=int(1000 * _times.current.tell_secs))
        try:
            feed = {each.lost_worker: worker for each in self._graphs}
            self._session.run([each.lose_op for each in self._graphs], feed, options=options)
        except (tf.errors.OpError, RuntimeError):
            return False
        return True

    def check_while_waiting(self, check_ended: Callable[[], None]) -> None:
        """Sets what a worker calls every few seconds while it waits for the gate to be opened.

        Args:
            check_ended: Raises an error if the gate will never be opened.
        """
        self._check_ended = check_ended

    def _await_opening(self, session: v1.Session) -> None:
        if self._check_ended is None:
            session.run(self._operations.init_op)
            return
        options = v1.RunOptions(timeout_in_ms=int(1000 * _times.current.opening_secs))
        while True:
            try:
                session.run(self._operations.init_op, options=options)
                return
            except tf.errors.DeadlineExceededError:
                self._check_ended()

    def _run_last(self, session: v1.Session) -> None:
        self._has_ended = True
        self._try_last(session, self._last_ops())

    def _last_ops(self) -> list[tf.Operation]:
        return [each.close_op if self._is_chief else each.leave_op for each in self._graphs]

    def _try_last(self, session: v1.Session, ops: list[tf.Operation]) -> None:
        try:
            session.run(ops)
        except tf.errors.FailedPreconditionError:
            raise
        except tf.errors.OpError as error:
            _LOG.warning("The gate could not be notified of the end of training: %s", error.message)

    def _tell_of_end(
        self,
        session: v1.Session,
        coord: tf.train.Coordinator,
        end: SessionEnd,
        reporters: list[threading.Thread],
    ) -> None:
        """Tells the gate of the end of the session when its coordinator stops.

        The coordinator waits for this thread before it closes the session.
        """
        coord.wait_for_stop()
        last = [each.dismiss_op for each in self._graphs]
        if not self._has_ended:
            # A program that exits with status 0 ends its training; the hooks are not told of it.
            fails = [each.fail_op for each in self._graphs]
            last = [*(self._last_ops() if end.is_exit() else fails), *last]
        # The gate's server may be lost, and a step that waits for it cannot be interrupted.
        telling = threading.Thread(target=self._try_to_tell, args=(session, last), daemon=True)
        telling.start()
        limit = time.monotonic() + _times.current.tell_secs
        for thread in (telling, *reporters):
            thread.join(max(0, limit - time.monotonic()))

    def _try_to_tell(self, session: v1.Session, ops: list[tf.Operation]) -> None:
        # If the session is lost, the gate learns of it when the connection closes.
        with contextlib.suppress(tf.errors.OpError, RuntimeError):
            session.run(ops)

    def _check_ready(self, session: v1.Session) -> None:
        missing = [name.decode() for name in session.run(self._operations.ready_op)]
        if not missing:
            return
        raise RuntimeError(
            "Init operations did not make model ready for SyncReplicasOptimizer local_init. Init "
            f"op: {self._operations.init_op.name}, error: Variables not initialized: "
            f"{', '.join(missing)}"
        )
