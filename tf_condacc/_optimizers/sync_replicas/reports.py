"""Logs reports about rounds that last for too long."""

from __future__ import annotations

import threading

import tensorflow as tf

from tf_condacc._optimizers.sync_replicas.gate import SyncGate

_NO_ROUND = -1


class Reports:
    """Logs who is missing when a round lasts for too long.

    Args:
        gate: The gate of the rounds.
        optimizer: Name of the optimizer, which the messages give.
    """

    def __init__(self, gate: SyncGate, optimizer: str) -> None:
        self._optimizer = optimizer
        with gate.on_device():
            self._seen = tf.compat.v1.placeholder_with_default(
                tf.constant(_NO_ROUND, tf.int64), [], name="seen"
            )
        self._report = gate.report(self._seen)

    def thread(self, session: tf.compat.v1.Session) -> threading.Thread:
        """Returns a thread that logs until the session is closed. It has not been started."""
        return threading.Thread(
            target=self._log, args=(session,), name=f"Reports-{self._optimizer}", daemon=True
        )

    def _log(self, session: tf.compat.v1.Session) -> None:
        seen = _NO_ROUND
        try:
            while True:
                seen, report = session.run(self._report, {self._seen: seen})
                tf.compat.v1.logging.warning(
                    "SyncReplicasOptimizer '%s' waits: %s", self._optimizer, report.decode()
                )
        except (tf.errors.OpError, RuntimeError):
            pass  # The session was closed or lost; that is reported elsewhere.
