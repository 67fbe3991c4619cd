"""The strategy under which an object is used, and replicas in several processes, the workers."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc import _times

_LOG = logging.getLogger("tf_condacc")
_WORD = 8  # Bytes of an int64, which strategies can gather.
# Part of TensorFlow's error for a `merge_call` in a graph inside that of the replicas.
_FROM_ANOTHER_GRAPH = "while defining a new graph"
# Types of graphs, and the statements for which TensorFlow builds them.
_ENCLOSING = {
    "CondBranchFuncGraph": "a tf.cond or an `if` on a tensor",
    "WhileBodyFuncGraph": "a tf.while_loop or a loop over a tensor",
}


def own_strategy() -> tf.distribute.Strategy | None:
    """Returns the strategy in whose scope the caller is, or None for the default one."""
    return tf.distribute.get_strategy() if tf.distribute.has_strategy() else None


def described(strategy: tf.distribute.Strategy | None) -> str:
    """Returns what error messages call a strategy; None stands for the default one."""
    return "the default strategy" if strategy is None else type(strategy).__name__


def device_of(replica_id: int, strategy: tf.distribute.Strategy | None) -> str | None:
    """Returns the device of a replica; None if there is no strategy."""
    if strategy is None:
        return None
    devices = strategy.extended.worker_devices
    return devices[replica_id % len(devices)]


def has_other_workers(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether a strategy has replicas in other processes."""
    num_replicas = strategy.num_replicas_in_sync
    return num_replicas > 1 and num_replicas > len(strategy.extended.worker_devices)


@contextlib.contextmanager
def explaining_graphs(title: str, method: str) -> Iterator[None]:
    """Explains the error of a method that communicates in a graph inside that of the replicas."""
    try:
        yield
    except RuntimeError as error:
        if _FROM_ANOTHER_GRAPH not in str(error):
            raise
        where = _ENCLOSING.get(type(v1.get_default_graph()).__name__, "a tf.function")
        raise RuntimeError(
            f"{title}: {method}() is called inside {where} in a function that "
            f"{described(own_strategy())} runs on replicas, where they cannot make an update "
            "together or communicate. Call it directly in the function that is passed to "
            "strategy.run: apply_gradients() updates only after the last micro-batch."
        ) from error


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
