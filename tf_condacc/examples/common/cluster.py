"""An in-process server, and the threads that run sessions on it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

_REDRAW_SECONDS = 0.1


class Cluster:
    """An in-process server, and threads that run sessions on it.

    Leaving the context ends all threads. It closes their sessions, which cancels the running steps.
    So threads that wait for a gradient or a token end too.

    All sessions have the graph that is the default when the cluster is made.
    """

    def __init__(self) -> None:
        # The models are too small to benefit from a GPU, or from several threads per operation.
        config = v1.ConfigProto(device_count={"GPU": 0}, intra_op_parallelism_threads=1)
        self._server = v1.train.Server.create_local_server(config=config)
        self._graph = v1.get_default_graph()
        self._coordinator = v1.train.Coordinator()
        self._sessions: list[v1.Session] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._coordinator.request_stop()
        for session in self._sessions:
            session.close()
        for thread in self._threads:
            thread.join()

    def new_session(self) -> v1.Session:
        """Returns a new session on the server. The cluster closes it."""
        session = v1.Session(self._server.target, graph=self._graph)
        self._sessions.append(session)
        return session

    def start(self, run: Callable[..., None], *arguments: Any) -> None:
        """Calls a function in a new thread. If it raises an error, all other threads end too."""

        def guarded_run() -> None:
            with self._coordinator.stop_on_exception(), self._unless_stopping():
                run(*arguments)

        thread = threading.Thread(target=guarded_run)
        self._threads.append(thread)
        thread.start()

    @contextlib.contextmanager
    def _unless_stopping(self) -> Iterator[None]:
        """Ignores errors of steps whose sessions the cluster has closed."""
        try:
            yield
        except (tf.errors.OpError, RuntimeError):
            if not self._coordinator.should_stop():
                raise

    def wait(self, on_progress: Callable[[], None]) -> None:
        """Waits until all threads have ended, and raises the error of a thread that failed.

        Args:
            on_progress: Function that is called about ten times per second meanwhile.
        """
        for thread in self._threads:
            while thread.is_alive() and not self._coordinator.should_stop():
                thread.join(_REDRAW_SECONDS)
                on_progress()
        if self._coordinator.should_stop():
            self._coordinator.join([])
