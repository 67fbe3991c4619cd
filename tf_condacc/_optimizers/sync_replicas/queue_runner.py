"""The thread of a chief that applies the gradients of each round."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._optimizers.sync_replicas.ending import SessionEnd
from tf_condacc._optimizers.sync_replicas.graph import SyncGraph
from tf_condacc._optimizers.sync_replicas.recovery import aborted

_LOG = logging.getLogger("tf_condacc")


class _Recovering:
    """A coordinator that treats a cancelled step of the chief as the loss of a server.

    If a parameter server is lost, its steps are cancelled on the others, and chance decides which
    of the errors the chief's thread gets. Monitored sessions recover from AbortedError, but not
    from CancelledError.

    If the program has closed the session before it stops the coordinator, the step has only ended,
    as with TensorFlow 1.15.
    """

    def __init__(self, coordinator: tf.train.Coordinator, session: v1.Session) -> None:
        self._coordinator = coordinator
        self._session = session

    def should_stop(self) -> bool:
        return self._coordinator.should_stop()

    def request_stop(self, error: Exception) -> None:
        if self._coordinator.should_stop() or getattr(self._session, "_closed", False):
            return
        if isinstance(error, tf.errors.CancelledError):
            # A tuple, because the coordinator would replace an exception with the current one.
            recoverable = aborted(error)
            self._coordinator.request_stop((type(recoverable), recoverable, error.__traceback__))
        else:
            self._coordinator.request_stop(error)


class ChiefQueueRunner(v1.train.QueueRunner):
    """Applies the gradients of round after round, until training ends.

    When the coordinator stops, two waits of this process end: that of the queue runner for a full
    round, and that of the chief's step as a worker. So each of the two learns of an error of the
    other. If the coordinator has stopped without an error, as that of a Supervisor does when
    training has ended, the gate is closed as well. After an error it is not, because training
    continues in the next session. A chief that another one has replaced ends nothing: its
    operations at the gate fail or do nothing.

    Some programs start the queue runner in processes that are not the chief, or beside the hook.
    Programs for the first versions of TensorFlow start it without `chief_init_op`, which these did
    not have. So the queue runner volunteers before its threads start: it opens the gate if no chief
    has. If there is a chief, or as soon as one comes, the threads are idle until the coordinator
    stops, unless that chief never starts its own queue runner.

    Args:
        optimizer: Name of the optimizer, which messages give.
        first: The operations of the optimizer at its first gate.
        is_chief: Returns whether this process is the chief, or None if that is not known. A hook
            tells it, and prepares the gate.
    """

    def __init__(
        self, optimizer: str, first: SyncGraph, is_chief: Callable[[], bool | None]
    ) -> None:
        with first.gate.on_device():
            nothing = tf.no_op(name="runner_closed")
        # The constructor is decorated to log that queues of input pipelines are deprecated.
        inspect.unwrap(v1.train.QueueRunner.__init__)(
            self,
            first.gate.handle.op,
            [first.sync_op],
            close_op=nothing,
            cancel_op=first.dismiss_op,
            queue_closed_exception_types=(tf.errors.OutOfRangeError,),
        )
        self._optimizer = optimizer
        self._is_chief = is_chief
        self._graphs = [first]
        self._has_said_idle = False

    def add(self, graph: SyncGraph) -> None:
        """Adds the operations at another gate of the same optimizer."""
        self._graphs.append(graph)
        self.enqueue_ops.append(graph.sync_op)
        self._cancel_op = tf.group(*(each.dismiss_op for each in self._graphs))

    def create_threads(
        self,
        sess: v1.Session,
        coord: tf.train.Coordinator | None = None,
        daemon: bool = False,
        start: bool = False,
    ) -> list[threading.Thread]:
        """Creates the threads of a session, and one that closes the gate after a clean end.

        Args:
            sess: The session.
            coord: Coordinator that stops the threads.
            daemon: Whether the threads are daemons.
            start: Whether the threads are started here.

        Returns:
            The threads; none if those of this session exist already.
        """
        self._volunteer(sess)
        threads = self.create_threads_without_closing(sess, coord, daemon, start)
        if threads and coord is not None:
            end = SessionEnd.of(coord)
            closer = threading.Thread(target=self._close_when_ended, args=(sess, coord, end))
            closer.daemon = daemon
            coord.register_thread(closer)
            if start:
                closer.start()
            threads.append(closer)
        return threads

    def create_threads_without_closing(
        self,
        sess: v1.Session,
        coord: tf.train.Coordinator | None = None,
        daemon: bool = False,
        start: bool = False,
    ) -> list[threading.Thread]:
        """Creates the same threads except the one that closes the gate."""
        threads = super().create_threads(sess, coord, daemon, start)
        if not threads:
            return threads
        for reports in [each.reports for each in self._graphs if each.reports is not None]:
            reporter = reports.thread(sess)
            if coord is not None:
                coord.register_thread(reporter)
            if start:
                reporter.start()
            threads.append(reporter)
        return threads

    def _volunteer(self, session: v1.Session) -> None:
        """Opens the gates if nobody else has, or will."""
        is_chief = self._is_chief()
        if is_chief is None:
            feed = {each.gate.volunteers: True for each in self._graphs}
            fetches = [(each.is_chief, each.chief_init_op) for each in self._graphs]
            is_chief = all(found for found, _ in session.run(fetches, feed))
        if not is_chief and not self._has_said_idle:
            self._has_said_idle = True
            _LOG.warning(
                "SyncReplicasOptimizer '%s': the chief's queue runner was started in a process "
                "that is not the chief. It stays idle as long as the chief's own one runs.",
                self._optimizer,
            )

    def _run(
        self,
        sess: v1.Session,
        enqueue_op: tf.Operation,
        coord: tf.train.Coordinator | None = None,
    ) -> None:
        super()._run(sess, enqueue_op, None if coord is None else _Recovering(coord, sess))

    def _close_when_ended(
        self, session: v1.Session, coord: tf.train.Coordinator, end: SessionEnd
    ) -> None:
        coord.wait_for_stop()
        if end.has_error():
            return  # Training continues. Whoever joins the coordinator gets the error.
        try:
            session.run([each.close_op for each in self._graphs])
        except (tf.errors.OpError, RuntimeError):
            pass  # The session has been closed, or is lost, or this is not the chief.
