"""Requests to servers, and watches that notice servers which are silent."""

from __future__ import annotations

import queue
import socket
import threading

import pytest

from condacc import liveness
from condacc.launch._cluster import free_ports
from condacc.liveness import Answer, Watch, probe

SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # An empty frame of HTTP/2 settings.


class Server:
    """A server that answers, or accepts connections and says nothing, as a frozen one does."""

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers
        self.has_answered = threading.Event()
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
                self.has_answered.set()
            else:
                self._silent.append(client)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for client in self._silent:
            client.close()


@pytest.fixture
def quick(monkeypatch):
    """Makes watches ask often."""
    monkeypatch.setattr(liveness, "_INTERVAL_SECS", 0.05)
    monkeypatch.setattr(liveness, "_ANSWER_SECS", 0.2)


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def test_a_server_answers(server):
    assert probe(server.address, 5.0) is Answer.ANSWERED


def test_a_server_is_silent(server):
    server.answers = False
    assert probe(server.address, 0.1) is Answer.SILENT


def test_a_listening_socket_without_a_process_that_accepts_is_silent():
    with socket.create_server(("localhost", 0)) as listening:
        assert probe(f"localhost:{listening.getsockname()[1]}", 0.1) is Answer.SILENT


def test_a_port_without_a_server_refuses():
    assert probe(f"localhost:{free_ports(1)[0]}", 5.0) is Answer.REFUSED


@pytest.mark.parametrize("host", ["no-such-host.invalid", "an..empty.label"])
def test_a_host_name_that_nobody_knows_is_unresolved(host):
    assert probe(f"{host}:1", 5.0) is Answer.UNRESOLVED


def test_a_watch_reports_each_limit_once_and_the_answer(server, quick):
    reports: queue.Queue = queue.Queue()
    watch = Watch(
        {"one": server.address},
        [1.0, 0.5],
        on_silent=lambda *report: reports.put(report),
        on_answer=reports.put,
    )
    watch.start()
    assert server.has_answered.wait(10)
    server.answers = False
    assert reports.get(timeout=10) == ("one", 0.5, Answer.SILENT)
    assert reports.get(timeout=10) == ("one", 1.0, Answer.SILENT)
    server.answers = True
    assert reports.get(timeout=10) == "one"
    watch.stop()
    assert watch.join(1.0)
    assert reports.empty()


def test_a_server_that_never_answered_or_has_ended_is_not_reported(server, quick):
    reports: queue.Queue = queue.Queue()
    silent = Server(answers=False)
    asked = threading.Event()
    addresses = {"starting": silent.address, "absent": f"localhost:{free_ports(1)[0]}"}
    addresses["frozen"] = server.address
    watch = Watch(addresses, [0.5], lambda *report: (reports.put(report), asked.set()), print)
    watch.start()
    assert server.has_answered.wait(10)
    server.answers = False
    assert asked.wait(10)
    assert reports.get() == ("frozen", 0.5, Answer.SILENT)
    watch.stop()
    assert watch.join(1.0)
    assert reports.empty()
    silent.close()


def test_a_watch_reports_a_server_that_is_absent_if_it_is_asked_to(quick):
    reports: queue.Queue = queue.Queue()
    (port,) = free_ports(1)
    watch = Watch(
        {"absent": f"localhost:{port}"},
        [0.5],
        on_silent=lambda *report: reports.put(report),
        on_answer=reports.put,
        reports_refused=True,
    )
    watch.start()
    assert reports.get(timeout=10) == ("absent", 0.5, Answer.REFUSED)
    watch.stop()
    assert watch.join(1.0)
