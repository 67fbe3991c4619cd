"""Strategies whose replicas are in several processes, the workers."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_LOG = logging.getLogger("tf_condacc")
_PATIENCE_SECS = 60.0
_WORD = 8  # Bytes of an int64, which strategies can gather.


def has_other_workers(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Returns whether a strategy has replicas in other processes.

    Args:
        strategy: The strategy; None for the current one.
    """
    strategy = strategy or tf.distribute.get_strategy()
    num_replicas = strategy.num_replicas_in_sync
    return num_replicas > 1 and num_replicas > len(strategy.extended.worker_devices)


def own_replicas(strategy: tf.distribute.Strategy) -> list[int]:
    """Returns the numbers of the replicas of this process. Must be called in eager mode."""
    return [int(number) for number in _run(strategy, lambda: tf.constant(replica_number()))]


def gathered(
    strategy: tf.distribute.Strategy, records: Mapping[int, bytes], title: str
) -> list[bytes]:
    """Returns the records of the replicas of all workers, in the order of the replicas.

    All workers must call it in eager mode, and each waits for the others. If this takes long, a
    warning is logged.

    Args:
        strategy: The strategy.
        records: The record of each replica of this process, by the number of the replica.
        title: What the warning calls the object whose records they are.
    """
    words = {replica: _as_words(record) for replica, record in records.items()}

    def gather() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        return context.all_gather(words[replica_number()], axis=0)

    with _warning_after(_PATIENCE_SECS, title):
        left = _run(strategy, gather)[0].numpy()
    found = []
    while left.size > 0:
        end = 1 - int(-left[0] // _WORD)  # The length, and as many words as hold the record.
        found.append(left[1:end].tobytes()[: left[0]])
        left = left[end:]
    return found


def _as_words(record: bytes) -> tf.Tensor:
    """Returns the length of a record and its bytes: `[n] int64`."""
    length, padding = np.int64(len(record)).tobytes(), bytes(-len(record) % _WORD)
    return tf.constant(np.frombuffer(length + record + padding, np.int64))


def _run(strategy: tf.distribute.Strategy, function: Callable[[], Any]) -> Sequence[tf.Tensor]:
    """Returns the results of a function on the replicas of this process."""
    results = tf.function(lambda: strategy.run(function))()
    return strategy.experimental_local_results(results)


def replica_number() -> int:
    """Returns the number of the replica that executes the calling function."""
    context = tf.distribute.get_replica_context()
    return int(tf.get_static_value(context.replica_id_in_sync_group))


@contextlib.contextmanager
def _warning_after(seconds: float, title: str) -> Iterator[None]:
    """Returns a context that logs a warning if it lasts long."""
    text = (
        "%s is being saved for %g s, because its state is that of all workers: each of them must "
        "save the checkpoint, the chief in its folder and the others elsewhere."
    )
    timer = threading.Timer(seconds, _LOG.warning, (text, title, seconds))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
