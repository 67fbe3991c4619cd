"""Runs Python programs in forks of processes that have imported TensorFlow, but not used it.

    python fork_server.py DESCRIPTOR

The descriptor is that of a socket that listens. `fork_client.py` connects to it and stands for one
program. The server ends, and with it all programs, when its standard input is closed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import types
from typing import Any

from forked_python import read_at_start
from parent_process import end_with_parent

_MAX_REQUEST_BYTES = 1 << 20
_STANDARD = ("stdin", "stdout", "stderr")
_IMPORTED = ("tensorflow", "tensorflow.compat.v1")
# TensorFlow and NumPy read the variables with these prefixes while they are imported.
_READ_AT_IMPORT = ("TF", "OMP_")
_READ_LATER = ("TF_CONDACC_", "TF_CONFIG", "TF_FORCE_GPU_")

Request = dict[str, Any]


def _read_at_import(environment: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (name, value)
        for name, value in environment.items()
        if name.startswith(_READ_AT_IMPORT) and not name.startswith(_READ_LATER)
    )


def serve(listener: socket.socket) -> Request | None:
    """Hands requests on to templates, one for each environment in which TensorFlow is imported.

    Returns None at the end and, in the process of each program, the request for it.
    """
    templates: dict[frozenset[tuple[str, str]], tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in selector.select()):
            client, _ = listener.accept()
            data, descriptors, _, _ = socket.recv_fds(client, _MAX_REQUEST_BYTES, len(_STANDARD))
            if data:
                environment = json.loads(data)["environment"]
                key = _read_at_import(environment)
                if key not in templates:
                    channel, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                    parent, pid = os.getpid(), os.fork()
                    if pid == 0:
                        end_with_parent(parent)
                        for other in (client, channel, *(each for _, each in templates.values())):
                            other.close()
                        for descriptor in descriptors:
                            os.close(descriptor)
                        listener.close()
                        return Template(end, environment).serve()
                    end.close()
                    templates[key] = pid, channel
                socket.send_fds(templates[key][1], [data], [client.fileno(), *descriptors])
            for descriptor in descriptors:
                os.close(descriptor)
            client.close()
    for pid, channel in templates.values():
        channel.close()
        os.waitpid(pid, 0)
    return None


class Template:
    """A process that forks one for each program, sends it signals, and reports how it ended.

    Args:
        channel: Socket from which requests come. The process ends when its other end is closed.
        environment: Environment in which TensorFlow is imported.
    """

    def __init__(self, channel: socket.socket, environment: dict[str, str]) -> None:
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._pids: dict[socket.socket, int] = {}
        self._clients: dict[int, socket.socket] = {}  # By the descriptor of the process.
        os.environ.clear()
        os.environ.update(environment)
        for module in _IMPORTED:
            importlib.import_module(module)
        gc.freeze()

    def serve(self) -> Request:
        """Returns in the processes of programs only."""
        while True:
            ready = self._selector.select()[0][0].fileobj
            if ready is self._channel:
                data, received, _, _ = socket.recv_fds(self._channel, _MAX_REQUEST_BYTES, 4)
                if not data:
                    self._end()
                request = json.loads(data)
                if self._forks(socket.socket(fileno=received[0]), received[1:]):
                    return request
            elif isinstance(ready, socket.socket):
                self._hear(ready)
            else:
                self._report(ready)

    def _forks(self, client: socket.socket, descriptors: list[int]) -> bool:
        """Forks the process of a program, and returns whether this is the new process."""
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            end_with_parent(parent)
            for key in list(self._selector.get_map().values()):
                os.close(key.fd)
            self._selector.close()
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid == 0:
            client.close()
            return True
        process = os.pidfd_open(pid)
        self._pids[client] = pid
        self._clients[process] = client
        self._selector.register(client, selectors.EVENT_READ)
        self._selector.register(process, selectors.EVENT_READ)
        return False

    def _hear(self, client: socket.socket) -> None:
        """Passes on a signal that the client received. If the client has ended, sends SIGKILL."""
        number = client.recv(1)
        os.kill(self._pids[client], number[0] if number else signal.SIGKILL)
        if not number:
            self._selector.unregister(client)

    def _report(self, process: int) -> None:
        """Tells the client the exit status of a process that has ended."""
        client = self._clients.pop(process)
        status = os.waitstatus_to_exitcode(os.waitpid(self._pids.pop(client), 0)[1])
        if client in self._selector.get_map():
            self._selector.unregister(client)
            with contextlib.suppress(BrokenPipeError):
                client.send(str(status).encode())
        self._selector.unregister(process)
        os.close(process)
        client.close()

    def _end(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os._exit(0)


def run(request: Request) -> None:
    """Runs a program as a Python does that is started with the request's arguments."""
    arguments, environment = request["arguments"], request["environment"]
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(environment)
    for number, name in enumerate(_STANDARD):
        is_shown_at_once = name == "stderr" or "PYTHONUNBUFFERED" in environment
        by_line = is_shown_at_once or os.isatty(number)
        file = open(
            number,
            "w" if number else "r",
            buffering=1 if by_line else -1,
            errors="backslashreplace" if name == "stderr" else None,
            closefd=False,
        )
        setattr(sys, name, file)
    numpy: Any = sys.modules["numpy"]
    numpy.random.seed()  # Otherwise all programs have the same random numbers.
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.orig_argv[:] = [sys.executable, *arguments]
    option, program, *own = arguments if arguments[0] in ("-c", "-m") else ("", *arguments)
    first = {"-c": "", "-m": os.getcwd()}.get(option, os.path.dirname(os.path.realpath(program)))
    search = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [first, *filter(None, search)]
    sys.argv[:] = [option or program, *own]
    if option == "-m":
        runpy._run_module_as_main(program)  # type: ignore[attr-defined]
    elif option == "-c":
        exec(compile(program, "<string>", "exec"), main.__dict__)
    else:
        main.__dict__["__file__"] = program
        with open(program, "rb") as source:
            exec(compile(source.read(), program, "exec"), main.__dict__)


def main(listener: socket.socket) -> None:
    start = read_at_start(os.environ)
    request = serve(listener)
    if request is None:
        return
    wanted = read_at_start(request["environment"])
    if wanted != start:
        sys.exit(f"start sys.executable for a program with other variables: {wanted}, not {start}")
    run(request)


if __name__ == "__main__":
    del sys.path[0]
    main(socket.socket(fileno=int(sys.argv[1])))
