"""Functions and a class of ``tf.contrib`` that TensorFlow has today with other arguments.

Names, arguments and results are those of TensorFlow 1.15.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.compat import v1
from tensorflow.python.ops import lookup_ops

ALL_ADVICE: dict[str, Any] = {}
FLOAT_OPS_OPTIONS = v1.profiler.ProfileOptionBuilder.float_operation()
PRINT_ALL_TIMING_MEMORY = v1.profiler.ProfileOptionBuilder.time_and_memory()
TRAINABLE_VARS_PARAMS_STAT_OPTIONS = (
    v1.profiler.ProfileOptionBuilder.trainable_variables_parameter()
)


def load_checkpoint(filepattern: str) -> Any:
    """Calls ``tf.train.load_checkpoint``."""
    return v1.train.load_checkpoint(filepattern)


def load_variable(checkpoint_dir: str, name: str) -> Any:
    """Calls ``tf.train.load_variable``."""
    return v1.train.load_variable(checkpoint_dir, name)


def list_variables(checkpoint_dir: str) -> list[tuple[str, list[int]]]:
    """Calls ``tf.train.list_variables``."""
    return v1.train.list_variables(checkpoint_dir)


def init_from_checkpoint(checkpoint_dir: str, assignment_map: Any) -> None:
    """Calls ``tf.train.init_from_checkpoint`` of version 1."""
    v1.train.init_from_checkpoint(checkpoint_dir, assignment_map)


def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Any:
    """Returns `ref`, a variable with a static shape, after an assignment of zeros.

    The original refuses a variable that has been initialized before.
    """
    zeros = v1.zeros(ref.shape, ref.dtype.base_dtype)
    return v1.assign(ref, zeros, use_locking=use_locking, name=name)


def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> tf.Tensor:
    """Calls ``tf.nn.softmax_cross_entropy_with_logits`` of version 1, with logits first."""
    return v1.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: str | None = None
) -> tf.Tensor:
    """Calls ``tf.nn.sparse_softmax_cross_entropy_with_logits``, with logits first."""
    return v1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(
    logits: Any, targets: Any, name: str | None = None
) -> tf.Tensor:
    """Calls ``tf.nn.sigmoid_cross_entropy_with_logits``, with logits first."""
    return v1.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)


class HashTable(lookup_ops.HashTable):
    """A table that is filled once, with a name by which sessions and tasks can share it."""

    def __init__(
        self,
        initializer: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        """Creates the table, as ``lookup_ops.HashTable`` does, which has no `shared_name`."""
        self._given_name = shared_name
        super().__init__(initializer, default_value, name)

    def _create_resource(self) -> Any:
        if self._given_name:
            self._shared_name = self._given_name
        return super()._create_resource()


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    dtype: Any = tf.string,
    name: str | None = None,
) -> Any:
    """Returns the table from words to ids that ``lookup_ops.index_table_from_tensor`` makes.

    Args:
        mapping: The words, [size]. Today it is called ``vocabulary_list``.
        num_oov_buckets: How many ids there are for other words.
        default_value: The id of other words, if there are no ids for them.
        hasher_spec: The hash function that chooses the id of another word.
        dtype: Data type of the words.
        name: Name of the operation.
    """
    return lookup_ops.index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, dtype, name
    )


def string_to_index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    name: str | None = None,
) -> Any:
    """Returns what `index_table_from_tensor` does, for strings."""
    return index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, tf.string, name
    )


def string_to_index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    name: str | None = None,
) -> Any:
    """Returns what ``lookup_ops.index_table_from_file`` does, for strings."""
    return lookup_ops.index_table_from_file(
        vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, name=name
    )


def string_to_index(
    tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None
) -> tf.Tensor:
    """Looks words up in a table from `index_table_from_tensor`."""
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
    """Returns the table from ids to words; ``vocabulary_list`` of today is `mapping`."""
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


def index_to_string(
    tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None
) -> tf.Tensor:
    """Looks ids up in a table from `index_to_string_table_from_tensor`."""
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)


def print_model_analysis(
    graph: tf.Graph,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: Any = 0,
) -> Any:
    """Calls ``tf.profiler.profile``, whose last arguments are called ``cmd`` and ``options``."""
    return v1.profiler.profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options)


def advise(graph: tf.Graph, run_meta: Any = None, tfprof_options: Any = 0) -> Any:
    """Calls ``tf.profiler.advise``, whose last argument is called ``options``."""
    return v1.profiler.advise(graph, run_meta, tfprof_options)
