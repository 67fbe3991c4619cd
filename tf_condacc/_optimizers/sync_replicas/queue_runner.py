"""The thread of a chief that applies the gradients of each round."""

from __future__ import annotations

import inspect
import threading

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._optimizers.sync_replicas.gate import Reports, SyncGate
from tf_condacc._optimizers.sync_replicas.recovery import aborted


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

    When the coordinator stops, the waits of the chief's queue runner and of its step as a worker
    end, so each of the two learns of an error of the other. The gate itself is closed only if the
    coordinator stops without an error, as that of a Supervisor does when training has ended: after
    an error, training continues in the next session. A chief that another one has replaced ends
    nothing: its operations at the gate fail or do nothing.

    Programs for the first versions of TensorFlow start the threads without `chief_init_op`, which
    did not exist. If no chief has ever prepared the gate, the threads are preceded by it.

    Args:
        gate: The gate of the rounds.
        sync_op: Operation that waits for a round and applies its gradients.
        init_op: Operation that opens the gate.
        reports: Reports about rounds that last for too long; None if there are none.
    """

    def __init__(
        self,
        gate: SyncGate,
        sync_op: tf.Operation,
        init_op: tf.Operation,
        reports: Reports | None,
    ) -> None:
        with gate.on_device():
            nothing = tf.no_op(name="runner_closed")
        # The constructor is decorated to log that queues of input pipelines are deprecated.
        inspect.unwrap(v1.train.QueueRunner.__init__)(
            self,
            gate.handle.op,
            [sync_op],
            close_op=nothing,
            cancel_op=gate.dismiss(),
            queue_closed_exception_types=(tf.errors.OutOfRangeError,),
        )
        self._close_gate = gate.close()
        self._has_been_prepared = gate.has_been_prepared()
        self._init_op = init_op
        self._reports = reports

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
        if not sess.run(self._has_been_prepared):
            sess.run(self._init_op)
        threads = self.create_threads_without_closing(sess, coord, daemon, start)
        if threads and coord is not None:
            closer = threading.Thread(target=self._close_when_ended, args=(sess, coord))
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
        if threads and self._reports is not None:
            reporter = self._reports.thread(sess)
            if start:
                reporter.start()
            threads.append(reporter)
        return threads

    def _run(
        self,
        sess: v1.Session,
        enqueue_op: tf.Operation,
        coord: tf.train.Coordinator | None = None,
    ) -> None:
        super()._run(sess, enqueue_op, None if coord is None else _Recovering(coord, sess))

    def _close_when_ended(self, session: v1.Session, coord: tf.train.Coordinator) -> None:
        coord.wait_for_stop()
        try:
            coord.raise_requested_exception()
        except Exception:
            return  # Training continues. Whoever joins the coordinator gets the error.
        try:
            session.run(self._close_gate)
        except (tf.errors.OpError, RuntimeError):
            pass  # The session has been closed, or is lost.
