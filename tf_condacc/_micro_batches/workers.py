"""Strategies whose replicas are in several processes, the workers."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from tf_condacc import _times

_LOG = logging.getLogger("tf_condacc")
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
    return [int(number) for number in _on_replicas(strategy, lambda replica: replica)[1]]


class Gatherer:
    """Gathers records of all workers.

    Args:
        strategy: The strategy of the workers.
        title: Name of the object that is saved, for a warning.
    """

    def __init__(self, strategy: tf.distribute.Strategy, title: str) -> None:
        self._strategy = strategy
        self._title = title

        def gather(*tensors: tf.Tensor) -> list[tf.Tensor]:
            context = tf.distribute.get_replica_context()
            # An identity is on the replica's device, unlike an argument of the function.
            return [context.all_gather(tf.identity(each), axis=0) for each in tensors]

        self._gather = tf.function(
            lambda *arguments: strategy.run(gather, arguments),
            autograph=False,
            reduce_retracing=True,
        )

    def gathered(self, record_of: Callable[[int], bytes]) -> list[bytes]:
        """Returns the records of the replicas of all workers.

        All workers must call it in eager mode, and each waits for the others. If this takes long, a
        warning is logged. Each replica gets the records of all.

        Args:
            record_of: Returns the record of a replica of this process.
        """
        records = {replica: record_of(replica) for replica in own_replicas(self._strategy)}
        lengths = _on_replicas(self._strategy, lambda replica: [len(records[replica])])[0]
        words = _on_replicas(self._strategy, lambda replica: _as_words(records[replica]))[0]
        with _warning_after(_times.current.save_secs, self._title):
            results = self._strategy.experimental_local_results(self._gather(lengths, words))[0]
        sizes, all_words = (each.numpy() for each in results)
        parts = np.split(all_words, np.cumsum(-(-sizes // _WORD))[:-1])
        return [part.tobytes()[:size] for part, size in zip(parts, sizes, strict=True)]


def _on_replicas(
    strategy: tf.distribute.Strategy, value_of: Callable[[int], object]
) -> tuple[object, tuple[tf.Tensor, ...]]:
    """Returns a value for each replica of this process, `[...] int64`, and all of them."""
    values = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(value_of(context.replica_id_in_sync_group), tf.int64)
    )
    return values, strategy.experimental_local_results(values)


def _as_words(record: bytes) -> np.ndarray:
    """Returns the bytes of a record, padded with zeros: `[n] int64`."""
    return np.frombuffer(record + bytes(-len(record) % _WORD), np.int64)


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
