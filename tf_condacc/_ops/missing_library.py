"""Explains the error of a task that has not imported this package."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

_NOT_REGISTERED = re.compile(r"'(Condacc>\w+)'")
_REMEDY = "`import tf_condacc`"
_TASK = re.compile(r"/job:\w+/replica:\d+/task:\d+")


def explanation(error: BaseException) -> tf.errors.NotFoundError | None:
    """Returns an error that says what to do if a task does not know an operation of this package.

    Returns None for other errors.
    """
    message = getattr(error, "message", None) or ""
    unknown = _NOT_REGISTERED.search(message)
    if not isinstance(error, tf.errors.NotFoundError) or unknown is None or _REMEDY in message:
        return None
    task = _TASK.search(message)
    where = f"Task {task.group()}" if task else "A task of the cluster"
    return tf.errors.NotFoundError(
        error.node_def,
        error.op,
        f"{where} does not know the operation {unknown.group(1)}. Every process of the cluster, "
        f"parameter servers included, must {_REMEDY} before it starts its server. "
        f"The error was: {message.splitlines()[0]}",
    )


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Makes errors of operations that a task does not know say what to do.

    Raises:
        tf.errors.NotFoundError: A task does not know an operation of this package.
    """
    try:
        yield
    except tf.errors.NotFoundError as error:
        better = explanation(error)
        if better is None:
            raise
        raise better from error
