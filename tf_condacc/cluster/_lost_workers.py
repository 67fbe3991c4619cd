"""Notices workers whose processes have ended, so that nobody waits for their gradients.

A gate of synchronous training learns from the runtime of a step that has failed, but not of a
worker that was killed between two steps. Its server does not answer any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from condacc.liveness import Answer, probe

_INTERVAL_SECS = 1.0
_ANSWER_SECS = 0.5
_REFUSALS = 2  # A server that is being started again may listen soon.


class LostWorkers:
    """Asks the servers of workers every second whether they answer, from a daemon thread.

    A worker is lost if its server has answered and then nobody listens at its address. One that is
    frozen, or whose machine cannot be reached, is not: it may go on.

    Args:
        addresses: "host:port" of each worker, by the worker's name.
        on_lost: Called by the thread with the name of a worker that is lost, until it returns that
            this has been dealt with; again if the worker is lost once more.
    """

    def __init__(self, addresses: Mapping[str, str], on_lost: Callable[[str], bool]) -> None:
        self._addresses = addresses
        self._on_lost = on_lost
        # Refusals in a row, by worker; only workers that have answered since they were last lost.
        self._refusals: dict[str, int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lost workers", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread; a call that has begun may go on."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(_INTERVAL_SECS):
            for name, address in self._addresses.items():
                answer = probe(address, _ANSWER_SECS)
                if answer is not Answer.REFUSED:
                    if answer is Answer.ANSWERED:
                        self._refusals[name] = 0
                elif name in self._refusals:
                    self._refusals[name] += 1
                    if self._refusals[name] >= _REFUSALS and self._on_lost(name):
                        del self._refusals[name]
