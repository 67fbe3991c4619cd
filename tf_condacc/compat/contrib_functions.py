"""Functions and a class of ``tf.contrib`` that TensorFlow has today with other arguments.

Names, arguments and results are those of TensorFlow 1.15.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
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


def _like(target: Callable[..., Any], arguments: str) -> Callable[..., Any]:
    """Returns a function that calls `target` with the arguments of TensorFlow 1.15.

    Args:
        target: The function of TensorFlow 2.
        arguments: The names of the arguments, in the order of TensorFlow 1.15. ``old=new`` is an
            argument that TensorFlow 2 calls `new`.
    """
    names = {old: new or old for old, _, new in (each.partition("=") for each in arguments.split())}
    parameters = inspect.signature(target).parameters
    signature = inspect.Signature([parameters[new].replace(name=old) for old, new in names.items()])

    def function(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        return target(**{names[old]: value for old, value in given.items()})

    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__doc__ = (
        f"Calls ``{target.__name__}`` of TensorFlow 2, whose shapes, dtypes and errors it has, "
        "with the arguments of TensorFlow 1.15."
    )
    return function


load_checkpoint = _like(v1.train.load_checkpoint, "filepattern=ckpt_dir_or_file")
load_variable = _like(v1.train.load_variable, "checkpoint_dir=ckpt_dir_or_file name")
list_variables = _like(v1.train.list_variables, "checkpoint_dir=ckpt_dir_or_file")
init_from_checkpoint = _like(
    v1.train.init_from_checkpoint, "checkpoint_dir=ckpt_dir_or_file assignment_map"
)

# The arguments of losses had another order.
deprecated_flipped_softmax_cross_entropy_with_logits = _like(
    v1.nn.softmax_cross_entropy_with_logits, "logits labels dim name"
)
deprecated_flipped_sparse_softmax_cross_entropy_with_logits = _like(
    v1.nn.sparse_softmax_cross_entropy_with_logits, "logits labels name"
)
deprecated_flipped_sigmoid_cross_entropy_with_logits = _like(
    v1.nn.sigmoid_cross_entropy_with_logits, "logits targets=labels name"
)

index_table_from_tensor = _like(
    lookup_ops.index_table_from_tensor,
    "mapping=vocabulary_list num_oov_buckets default_value hasher_spec dtype name",
)
string_to_index_table_from_tensor = _like(
    lookup_ops.index_table_from_tensor,
    "mapping=vocabulary_list num_oov_buckets default_value hasher_spec name",
)
string_to_index_table_from_file = _like(
    lookup_ops.index_table_from_file,
    "vocabulary_file num_oov_buckets vocab_size default_value hasher_spec name",
)
index_to_string_table_from_tensor = _like(
    lookup_ops.index_to_string_table_from_tensor, "mapping=vocabulary_list default_value name"
)

print_model_analysis = _like(
    v1.profiler.profile, "graph run_meta op_log tfprof_cmd=cmd tfprof_options=options"
)
advise = _like(v1.profiler.advise, "graph run_meta tfprof_options=options")


def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Any:
    """Returns `ref`, a variable with a static shape, after an assignment of zeros.

    The original refuses a variable that has been initialized before.
    """
    zeros = v1.zeros(ref.shape, ref.dtype.base_dtype)
    return v1.assign(ref, zeros, use_locking=use_locking, name=name)


def string_to_index(
    tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None
) -> tf.Tensor:
    """Looks words up in a table from `index_table_from_tensor`."""
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(
    tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None
) -> tf.Tensor:
    """Looks ids up in a table from `index_to_string_table_from_tensor`."""
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)


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
