"""Asks TensorFlow servers whether they answer, and watches them.

A process that is frozen keeps its connections open, and the operating system accepts new ones for
it. So neither a connection nor gRPC's keepalive tells that it is frozen. A request without an
answer does.
"""

from __future__ import annotations

import enum
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from condacc import _times

# The first bytes that an HTTP/2 client sends, and its settings, of which there are none. A gRPC
# server answers with its own settings before it knows what the client wants.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_NO_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


class Answer(enum.Enum):
    """The result of a request to a server.

    Attributes:
        ANSWERED: The server works.
        SILENT: There was no answer within the time limit, or the network reported an error. The
            process is frozen, or its machine cannot be reached.
        REFUSED: Nobody listens. The process has not started its server yet, or has ended.
        UNRESOLVED: The host name is not known here.
    """

    ANSWERED = "answered"
    SILENT = "silent"
    REFUSED = "refused"
    UNRESOLVED = "unresolved"


def probe(address: str, timeout_secs: float) -> Answer:
    """Sends a request to a gRPC server, and waits for its answer.

    Args:
        address: Host and port: "host:port".
        timeout_secs: Time limit for the connection, and for the answer. The system's own limits
            apply while the host name is looked up.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout_secs) as connection:
            connection.sendall(_PREFACE + _NO_SETTINGS)
            return Answer.ANSWERED if connection.recv(1) else Answer.REFUSED
    except (ConnectionError, EOFError):
        return Answer.REFUSED
    except (socket.gaierror, UnicodeError):  # A name with an empty label, such as "a..b".
        return Answer.UNRESOLVED
    except OSError:  # A timeout, for example.
        return Answer.SILENT


class Watch:
    """Asks servers about every second whether they answer, each from its own daemon thread.

    A server is silent if it has answered once since it was started, and then accepts connections
    without an answer for as long as a limit. A server to which nobody can connect has ended, or has
    not been started yet; that is reported only if the caller asks for it.

    The time for which a server has been silent is the time spent asking it. Time for which this
    process did not run, because it was stopped or because the machine slept, does not count.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        limits_secs: Sequence[float],
        on_silent: Callable[[str, float, Answer], None],
        on_answer: Callable[[str], None],
        reports_refused: bool = False,
    ) -> None:
        """Makes a watch that has not been started.

        Args:
            addresses: "host:port" of each server, by the server's name.
            limits_secs: The times of silence, in seconds, after which `on_silent` is called.
            on_silent: Called with the name of a server, the limit in seconds, and SILENT, REFUSED
                or UNRESOLVED, once for each limit that the silence has reached.
            on_answer: Called with the name of a server that answers again after a report. Threads
                of the watch make the calls, one at a time for each server.
            reports_refused: Whether servers to which nobody can connect, whose host names are not
                known, or which have never answered are reported, too.
        """
        self._limits = sorted(limits_secs)
        self._on_silent = on_silent
        self._on_answer = on_answer
        self._reports_refused = reports_refused
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._watch, args=(name, address), name=f"watch of {name}", daemon=True
            )
            for name, address in addresses.items()
        ]

    def start(self) -> None:
        """Starts the watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stops the watch. Its threads end within a second; a call that has begun may continue."""
        self._stopped.set()

    def join(self, timeout_secs: float) -> bool:
        """Waits for the threads of a stopped watch, and returns whether they have ended."""
        end = time.monotonic() + timeout_secs
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _watch(self, name: str, address: str) -> None:
        previous = Answer.ANSWERED if self._reports_refused else Answer.REFUSED
        silent_secs = 0.0
        num_reported = 0
        is_reported = False
        asked = time.monotonic()
        wait_secs = _times.current.interval_secs
        while not self._stopped.wait(wait_secs):
            began = time.monotonic()
            times = _times.current
            answer = probe(address, times.answer_secs)
            before, asked = asked, time.monotonic()
            wait_secs = max(times.interval_secs - (asked - began), times.pause_secs)
            if self._stopped.is_set():
                return
            if answer is Answer.ANSWERED:
                if is_reported:
                    self._on_answer(name)
                is_reported = False
            if answer is Answer.ANSWERED or not self._is_silence(answer, previous):
                if answer in (Answer.ANSWERED, Answer.REFUSED):
                    previous = answer
                silent_secs, num_reported = 0.0, 0
                continue
            if answer is not previous:
                silent_secs, num_reported = 0.0, 0
            previous = answer
            silent_secs += min(asked - before, times.interval_secs + times.answer_secs)
            while num_reported < len(self._limits) and silent_secs >= self._limits[num_reported]:
                self._on_silent(name, self._limits[num_reported], answer)
                num_reported += 1
                is_reported = True

    def _is_silence(self, answer: Answer, previous: Answer) -> bool:
        """Returns whether a server that gives no answer is silent.

        Unless refusals are reported, a server is silent only if it accepts connections, and has
        answered before.
        """
        return self._reports_refused or (answer is Answer.SILENT and previous is not Answer.REFUSED)
