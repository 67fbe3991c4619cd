"""Notices other tasks of the cluster that do not answer, or whose processes have ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from condacc.liveness import Answer, Watch, probe
from tf_condacc import _times

_LOG = logging.getLogger("tf_condacc")
_REASONS = {
    Answer.SILENT: "its process is frozen, its machine cannot be reached, or another program has "
    "its port",
    Answer.REFUSED: "its process has ended, or has not started its server yet",
    Answer.UNRESOLVED: "its host name cannot be resolved",
}
_REFUSALS = 2  # A server that is being restarted may listen again soon.


class LostWorkers:
    """Asks the servers of workers whether they answer, from a daemon thread.

    Each is asked five times a second until it has answered, and then every second.

    The gate of synchronous training learns of a worker whose step has failed. It does not learn of
    one that was killed between two steps, for whose gradients everybody would wait.

    A worker is lost if its server has answered and then nobody listens at its address. One that is
    frozen, or whose machine cannot be reached, is not: it may continue.

    Args:
        addresses: "host:port" of each worker, by the worker's name.
        on_lost: Function that the thread calls with the name of a lost worker, every second until
            the worker answers: it may have come back for a moment that no question fell into.
    """

    def __init__(self, addresses: Mapping[str, str], on_lost: Callable[[str], object]) -> None:
        self._addresses = addresses
        self._on_lost = on_lost
        self._refusals: dict[str, int] = {}  # Refusals in a row, of each worker that has answered.
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lost workers", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread; a call that has begun may continue."""
        self._stopped.set()

    def join(self, timeout_secs: float) -> bool:
        """Waits for the thread, which was stopped, and returns whether it has ended."""
        self._thread.join(timeout_secs)
        return not self._thread.is_alive()

    def _watch(self) -> None:
        next_of_all = 0.0
        while not self._stopped.wait(_times.current.first_interval_secs):
            asks_all = time.monotonic() >= next_of_all
            if asks_all:
                next_of_all = time.monotonic() + _times.current.worker_interval_secs
            for name, address in self._addresses.items():
                if asks_all or name not in self._refusals:
                    self._ask(name, address)

    def _ask(self, name: str, address: str) -> None:
        answer = probe(address, _times.current.worker_answer_secs)
        if answer is Answer.ANSWERED:
            self._refusals[name] = 0
        elif answer is Answer.REFUSED and name in self._refusals:
            self._refusals[name] += 1
            if self._refusals[name] >= _REFUSALS:
                self._on_lost(name)


def watch_with_warnings(addresses: Mapping[str, str], report_secs: float) -> Watch:
    """Returns a watch that warns once about a task that does not answer, and when it does again.

    Args:
        addresses: Addresses of the tasks, by their names.
        report_secs: Number of seconds without an answer after which a task is reported.
    """

    def warn(name: str, seconds: float, answer: Answer) -> None:
        _LOG.warning(
            "%s (%s) has not answered for %g s: %s. Steps that need it wait.",
            name,
            addresses[name],
            seconds,
            _REASONS[answer],
        )

    def warn_answers_again(name: str) -> None:
        _LOG.warning("%s (%s) answers again.", name, addresses[name])

    return Watch(addresses, [report_secs], warn, warn_answers_again, reports_refused=True)
