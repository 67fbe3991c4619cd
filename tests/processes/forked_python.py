"""Python programs that start at once, because TensorFlow is imported already."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_VARIABLE = "TF_CONDACC_TEST_FORK_SERVER"
_READ_AT_START = ("LD_", "MALLOC_", "PYTHON")
_SET_BY_FORKS = ("PYTHONPATH", "PYTHONUNBUFFERED")
_FOLDER = Path(__file__).resolve().parent


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that are read before a program begins."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_START) and name not in _SET_BY_FORKS
    }


def forked_python(variables: Mapping[str, str] | None = None) -> list[str]:
    """Returns a command that is used like `sys.executable`, with arguments added to it.

    It is for programs whose start is not what a test is about: `-c CODE`, `-m MODULE` or a file.

    Args:
        variables: Variables of the environment that the program has and this process has not. A
            program with variables like LD_PRELOAD gets a Python that starts anew.
    """
    address = os.environ.get(_VARIABLE)
    if address is None or read_at_start(variables or {}):
        return [sys.executable]
    return [sys.executable, "-S", "-s", "-E", str(_FOLDER / "fork_client.py"), address]


@contextlib.contextmanager
def fork_server() -> Iterator[None]:
    """Runs the server of `forked_python`, for this process and those that it starts.

    A process that was started by one with a server uses that.
    """
    if _VARIABLE in os.environ:
        yield
        return
    with (
        tempfile.TemporaryDirectory(prefix="fork_server") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        open(Path(folder) / "log", "w+") as log,
    ):
        address = str(Path(folder) / "socket")
        listener.bind(address)
        listener.listen(64)
        server = subprocess.Popen(
            [sys.executable, str(_FOLDER / "fork_server.py"), str(listener.fileno())],
            stdin=subprocess.PIPE,
            stderr=log,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
        os.environ[_VARIABLE] = address
        try:
            yield
        finally:
            del os.environ[_VARIABLE]
            assert server.stdin is not None
            server.stdin.close()
            if server.wait() != 0:
                log.seek(0)
                raise RuntimeError(f"the fork server has failed:\n{log.read()}")
