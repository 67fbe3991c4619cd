"""Requests to servers, and watches that notice servers which are silent."""

from __future__ import annotations

import socket
import threading
import types
from collections.abc import Iterator

import pytest

from condacc import _times, liveness
from condacc.launch._cluster import free_ports
from condacc.liveness import Answer, Watch, probe
from tests.support.waiting import PATIENCE_SECS

SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # An empty frame of HTTP/2 settings.
A, S, R, U = Answer.ANSWERED, Answer.SILENT, Answer.REFUSED, Answer.UNRESOLVED


class Server:
    """A server that answers, or accepts connections and says nothing, as a frozen one does."""

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers
        self._socket = socket.create_server(("localhost", 0))
        self.address = f"localhost:{self._socket.getsockname()[1]}"
        self._silent: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            if self.answers and client.recv(100).startswith(b"PRI * HTTP/2.0\r\n"):
                client.sendall(SETTINGS)
                client.close()
            else:
                self._silent.append(client)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for client in self._silent:
            client.close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def test_a_server_answers(server):
    assert probe(server.address, PATIENCE_SECS) is Answer.ANSWERED


def test_a_server_is_silent(server):
    server.answers = False
    assert probe(server.address, 0.1) is Answer.SILENT


def test_a_listening_socket_without_a_process_that_accepts_is_silent():
    with socket.create_server(("localhost", 0)) as listening:
        assert probe(f"localhost:{listening.getsockname()[1]}", 0.1) is Answer.SILENT


def test_a_port_without_a_server_refuses():
    assert probe(f"localhost:{free_ports(1)[0]}", PATIENCE_SECS) is Answer.REFUSED


@pytest.mark.parametrize("host", ["no-such-host.invalid", "an..empty.label"])
def test_a_host_name_that_nobody_knows_is_unresolved(host, monkeypatch):
    def ask_a_resolver(name: str, *others: object) -> None:
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", ask_a_resolver)
    assert probe(f"{host}:1", PATIENCE_SECS) is Answer.UNRESOLVED


def reports_of(monkeypatch, answers: str, reports_refused: bool) -> list[object]:
    """Returns what a watch with limits of 1.5 and 3.5 s reports about a server.

    Args:
        monkeypatch: Replaces the clock, the times and the requests.
        answers: The server's answers, by their first letters. Each takes a second, but one in
            lower case lasts an hour, because the process is stopped meanwhile.
        reports_refused: Whether the watch reports servers to which nobody can connect.
    """
    now = 0.0
    reports: list[object] = []
    remaining: Iterator[str] = iter(answers)

    def ask(address: str, timeout_secs: float) -> Answer:
        nonlocal now
        assert address == "localhost:1"
        letter = next(remaining, None)
        if letter is None:
            watch.stop()
            return A
        now += 1 if letter.isupper() else 3600
        return {"A": A, "S": S, "R": R, "U": U}[letter.upper()]

    monkeypatch.setattr(liveness, "time", types.SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(liveness, "probe", ask)
    times = _times.Times(interval_secs=0, pause_secs=0, answer_secs=1)
    monkeypatch.setattr(_times, "current", times)
    watch = Watch(
        {"one": "localhost:1"},
        [3.5, 1.5],
        on_silent=lambda *report: reports.append(report[1:]),
        on_answer=reports.append,
        reports_refused=reports_refused,
    )
    watch.start()
    assert watch.join(PATIENCE_SECS)
    return reports


@pytest.mark.parametrize(
    ("answers", "reports"),
    [
        ("ASSSSSSA", [(1.5, S), (3.5, S), "one"]),
        ("ASSASSA", [(1.5, S), "one", (1.5, S), "one"]),
        ("ASASASA", []),
        ("AsASSsS", [(1.5, S), (3.5, S)]),  # Time for which the watch is stopped does not count.
        ("SSSSS", []),  # It has never answered.
        ("RRSSSS", []),  # It is starting.
        ("ARRRR", []),  # It has ended.
        ("ARSSSS", []),  # Another one is starting.
        ("AUUUU", []),
        ("AUSSSS", [(1.5, S), (3.5, S)]),
    ],
)
def test_a_watch_reports_a_silent_server_at_each_limit_once(monkeypatch, answers, reports):
    assert reports_of(monkeypatch, answers, reports_refused=False) == reports


@pytest.mark.parametrize(
    ("answers", "reports"),
    [
        ("RRRRR", [(1.5, R), (3.5, R)]),
        ("SSSSS", [(1.5, S), (3.5, S)]),
        ("UUA", [(1.5, U), "one"]),
        ("RSRSRSA", []),  # The time begins anew if the reason is another one.
    ],
)
def test_a_watch_reports_a_server_that_is_absent_if_it_is_asked_to(monkeypatch, answers, reports):
    assert reports_of(monkeypatch, answers, reports_refused=True) == reports
