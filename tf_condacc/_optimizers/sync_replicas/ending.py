"""How a session of synchronous training ends: normally, or because of an error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_condacc._tensorflow import belongs_to_monitored_session

_ATTRIBUTE = "_condacc_session_end"
_NORMAL_ENDS = (tf.errors.OutOfRangeError, StopIteration, GeneratorExit)


class SessionEnd:
    """Tells whether the coordinator of a session has stopped normally.

    Programs pass most errors to ``Coordinator.request_stop``. But if an error leaves the ``with``
    block of a session, or a ``finally`` clause stops the coordinator, it is called without the
    error. It then has to be found among the exceptions that Python handles at that moment.

    Args:
        coordinator: The coordinator, whose `request_stop` is replaced.
    """

    def __init__(self, coordinator: tf.train.Coordinator) -> None:
        self._coordinator = coordinator
        self._outer = sys.exc_info()[1]  # The session may begin where an error is handled.
        self._error: BaseException | None = None
        self._last: list[Callable[[], None]] = []
        self._request_stop = coordinator.request_stop
        coordinator.request_stop = self._noting_error

    @classmethod
    def of(cls, coordinator: tf.train.Coordinator) -> SessionEnd:
        """Returns that of a coordinator, which is made at the first call."""
        made = getattr(coordinator, _ATTRIBUTE, None)
        if made is None:
            made = cls(coordinator)
            setattr(coordinator, _ATTRIBUTE, made)
        return made

    def has_error(self) -> bool:
        """Returns whether the coordinator stops, or has stopped, because of an error."""
        if self._is_error(self._error):
            return True
        try:
            self._coordinator.raise_requested_exception()
        except Exception:
            return True
        return False

    def is_exit(self) -> bool:
        """Returns whether the program exits with status 0 inside of the session."""
        return isinstance(self._error, SystemExit) and not self._is_error(self._error)

    def at_normal_end(self, call: Callable[[], None]) -> None:
        """Calls a function when all hooks have ended without an error.

        A hook that ends later may still fail. A coordinator that is not that of a monitored session
        does not tell when hooks have ended, so the function is called at once.

        Args:
            call: The function. If it raises an error, the coordinator stops with the error.
        """
        if belongs_to_monitored_session(self._coordinator) and not self._coordinator.should_stop():
            self._last.append(call)
        else:
            call()

    def _noting_error(self, ex: Any = None) -> Any:
        """Stops the coordinator. The first stop decides whether the end is a normal one."""
        if self._coordinator.should_stop():
            return self._request_stop(ex)
        if ex is None:
            self._error = self._current_error()
        last, self._last = self._last, []
        if ex is not None or self.has_error():
            return self._request_stop(ex)
        try:
            for call in last:
                call()
        except Exception as error:
            # A tuple, because the coordinator would replace an exception with the current one.
            return self._request_stop((type(error), error, error.__traceback__))
        return self._request_stop(ex)

    def _current_error(self) -> BaseException | None:
        error = sys.exc_info()[1]
        return None if error is self._outer else error

    def _is_error(self, error: BaseException | None) -> bool:
        if isinstance(error, SystemExit):
            return error.code not in (None, 0)
        return error is not None and not isinstance(error, _NORMAL_ENDS)
