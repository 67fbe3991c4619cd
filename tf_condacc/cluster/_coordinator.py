"""The coordinator of TensorFlow 2's parameter servers, in a process that really ends."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator

import tensorflow as tf

from tf_condacc._ops.missing_library import explanation


@contextlib.contextmanager
def coordinator(
    strategy: tf.distribute.ParameterServerStrategy,
) -> Iterator[tf.distribute.coordinator.ClusterCoordinator]:
    """Makes a ``ClusterCoordinator``, and ends the process when the context is left.

    TensorFlow waits for lost servers while Python ends, so a coordinator that has finished, or that
    has failed because of a loss, may stay forever. Here the process ends at once, without exit
    handlers, after logging, the standard output and the standard error have been flushed. Its
    status is 0; that of ``sys.exit``; 1 after another exception, whose traceback is printed; or 130
    after Ctrl-C.

    Args:
        strategy: The strategy that the coordinator works with.

    Yields:
        A ``tf.distribute.coordinator.ClusterCoordinator``.

    Raises:
        TypeError: `strategy` is not a ``tf.distribute.ParameterServerStrategy``.
    """
    if not isinstance(strategy, tf.distribute.ParameterServerStrategy):
        raise TypeError(
            "coordinator() expected a tf.distribute.ParameterServerStrategy, got "
            f"{type(strategy).__name__}"
        )
    status = 0
    try:
        yield tf.distribute.coordinator.ClusterCoordinator(strategy)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        better = explanation(error) or error
        sys.excepthook(type(better), better, error.__traceback__)
        status = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # A closed pipe or file.
            stream.flush()
    os._exit(status)
