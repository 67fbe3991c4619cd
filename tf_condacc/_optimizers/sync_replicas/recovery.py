"""Makes monitored sessions begin again when a step was cancelled because a server was lost.

If a parameter server is lost, the parts of a step on other servers are cancelled. TensorFlow joins
the errors of all parts, and the joined error has the code whose name is the last by alphabet: if
the server has been started again meanwhile, its own error is ABORTED, and the joined one CANCELLED.
But monitored sessions begin again after AbortedError and UnavailableError only.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator

import tensorflow as tf

_LOST_SERVER = re.compile(r"^(ABORTED|UNAVAILABLE): ", re.MULTILINE)


def aborted(error: tf.errors.OpError) -> tf.errors.AbortedError:
    """Returns an error after which sessions begin again, in place of a cancelled step's."""
    return tf.errors.AbortedError(
        error.node_def, error.op, f"The step was cancelled: {error.message}"
    )


def _check_lost_server(error: BaseException | None) -> None:
    """Raises AbortedError if a step was cancelled because a server was lost."""
    if isinstance(error, tf.errors.CancelledError) and _LOST_SERVER.search(error.message):
        raise aborted(error) from error


@contextlib.contextmanager
def aborting_if_server_is_lost() -> Iterator[None]:
    """Raises AbortedError in place of the error of a step that a lost server has cancelled."""
    try:
        yield
    except tf.errors.CancelledError as error:
        _check_lost_server(error)
        raise


def recover_cancelled_steps(coordinator: tf.train.Coordinator) -> None:
    """Makes a monitored session begin again after a step that a lost server has cancelled.

    When a step of the session has failed, the session asks its coordinator whether another thread
    has failed before. There is no other place to change the error of the step.

    Args:
        coordinator: The coordinator of the session.
    """
    raise_requested_exception = coordinator.raise_requested_exception

    def raise_error_of_other_thread_or_of_server() -> None:
        raise_requested_exception()
        _check_lost_server(sys.exc_info()[1])

    coordinator.raise_requested_exception = raise_error_of_other_thread_or_of_server
