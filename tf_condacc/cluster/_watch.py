"""Warnings about tasks that do not answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from tf_condacc.launch._probe import Answer, probe

_LOG = logging.getLogger("tf_condacc")
_POLL_SECS = 1.0
_REASONS = {
    Answer.SILENT: "its process is frozen, or its machine cannot be reached",
    Answer.REFUSED: "its process has ended, or has not started its server yet",
}


class Watch:
    """A thread that asks other tasks whether they answer, and warns when one does not.

    Args:
        addresses: Addresses of the tasks, by their names.
        report_secs: After so many seconds without an answer a task is reported.
    """

    def __init__(self, addresses: Mapping[str, str], report_secs: float) -> None:
        self._addresses = dict(addresses)
        self._report_secs = report_secs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tf_condacc_watch", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. Returns at once."""
        self._stop.set()

    def _run(self) -> None:
        answered = dict.fromkeys(self._addresses, time.monotonic())
        reported: dict[str, Answer] = {}
        while not self._stop.wait(_POLL_SECS):
            for name, address in self._addresses.items():
                answer = probe(address, _POLL_SECS)
                now = time.monotonic()
                if answer is not Answer.ANSWERED:
                    silent_secs = now - answered[name]
                    if silent_secs >= self._report_secs and reported.get(name) is not answer:
                        reported[name] = answer
                        self._warn(
                            "%s (%s) has not answered for %.0f s: %s. Steps that need it wait.",
                            name,
                            address,
                            silent_secs,
                            _REASONS[answer],
                        )
                    continue
                if name in reported:
                    del reported[name]
                    self._warn("%s (%s) answers again.", name, address)
                answered[name] = now

    def _warn(self, message: str, *arguments: object) -> None:
        if not self._stop.is_set():
            _LOG.warning(message, *arguments)
