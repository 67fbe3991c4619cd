"""Names of ``tensorflow.python`` that programs use and that TensorFlow has moved."""

from __future__ import annotations

import importlib
from typing import Any

_INDEXED_SLICES = "tensorflow.python.framework.indexed_slices"
_TENSOR = "tensorflow.python.framework.tensor"
_CONSTANTS = {
    "convert_variables_to_constants": (
        "tensorflow.compat.v1:graph_util.convert_variables_to_constants"
    ),
}

# The place of each name today, by the module in which programs look for it.
MOVED_NAMES: dict[str, dict[str, str]] = {
    "tensorflow.python.framework.graph_util": _CONSTANTS,
    "tensorflow.python.framework.graph_util_impl": _CONSTANTS,
    "tensorflow.python.framework.ops": {
        "Tensor": f"{_TENSOR}:Tensor",
        "IndexedSlices": f"{_INDEXED_SLICES}:IndexedSlices",
        "IndexedSlicesSpec": f"{_INDEXED_SLICES}:IndexedSlicesSpec",
        "IndexedSlicesValue": f"{_INDEXED_SLICES}:IndexedSlicesValue",
        "convert_n_to_tensor_or_indexed_slices": (
            f"{_INDEXED_SLICES}:convert_n_to_tensor_or_indexed_slices"
        ),
        "convert_to_tensor_or_indexed_slices": (
            f"{_INDEXED_SLICES}:convert_to_tensor_or_indexed_slices"
        ),
        "internal_convert_n_to_tensor_or_indexed_slices": (
            f"{_INDEXED_SLICES}:internal_convert_n_to_tensor_or_indexed_slices"
        ),
        "internal_convert_to_tensor_or_indexed_slices": (
            f"{_INDEXED_SLICES}:internal_convert_to_tensor_or_indexed_slices"
        ),
        "convert_to_tensor_v2": "tensorflow:convert_to_tensor",
        "executing_eagerly": "tensorflow.python.eager.context:executing_eagerly",
        "register_tensor_conversion_function": (
            "tensorflow.python.framework.tensor_conversion_registry"
            ":register_tensor_conversion_function"
        ),
    },
    "tensorflow.python.ops.array_ops": {
        "stack": "tensorflow.python.ops.array_ops_stack:stack",
        "unstack": "tensorflow.python.ops.array_ops_stack:unstack",
    },
    "tensorflow.python.ops.control_flow_ops": {
        "Assert": "tensorflow.python.ops.control_flow_assert:Assert",
        "case": "tensorflow.python.ops.control_flow_case:case",
        "cond": "tensorflow.python.ops.cond:cond",
        "smart_cond": "tensorflow.python.framework.smart_cond:smart_cond",
        "switch_case": "tensorflow.python.ops.control_flow_switch_case:switch_case",
        "while_loop": "tensorflow.python.ops.while_loop:while_loop",
    },
    "tensorflow.python.ops.functional_ops": {
        "map_fn": "tensorflow.python.ops.map_fn:map_fn",
    },
    "tensorflow.python.ops.gradients_impl": {
        "AggregationMethod": "tensorflow.python.ops.gradients_util:AggregationMethod",
    },
    "tensorflow.python.ops.variables": {
        "RefVariable": "tensorflow.python.ops.ref_variable:RefVariable",
        "VariableV1": "tensorflow.python.ops.variable_v1:VariableV1",
        "is_variable_initialized": "tensorflow.python.ops.variable_v1:is_variable_initialized",
    },
    "tensorflow.python.pywrap_tensorflow": {
        "NewCheckpointReader": (
            "tensorflow.python.training.py_checkpoint_reader:NewCheckpointReader"
        ),
    },
    "tensorflow.python.util.nest": {
        "is_sequence": "tensorflow.python.util.nest:is_nested",
    },
}

# Modules of TensorFlow 1 that have another path today.
MOVED_MODULES: dict[str, str] = {
    "tensorflow.python.distribute.distribution_strategy_context": (
        "tensorflow.python.distribute.distribute_lib"
    ),
    "tensorflow.python.ops.spectral_ops": "tensorflow.python.ops.signal.spectral_ops",
    "tensorflow.python.training.distribute": "tensorflow.python.distribute.distribute_lib",
    "tensorflow.python.training.distribution_strategy_context": (
        "tensorflow.python.distribute.distribute_lib"
    ),
    "tensorflow.python.training.gen_training_ops": "tensorflow.python.ops.gen_training_ops",
    "tensorflow.python.training.training_ops": "tensorflow.python.ops.gen_training_ops",
    "tensorflow.python.training.tracking": "tensorflow.python.trackable",
    "tensorflow.python.training.tracking.base": "tensorflow.python.trackable.base",
    "tensorflow.python.training.tracking.data_structures": (
        "tensorflow.python.trackable.data_structures"
    ),
    # TensorFlow itself looks for the layers of slim.batch_norm at a path that tf-keras has left.
    "tf_keras.legacy_tf_layers": "tf_keras.src.legacy_tf_layers",
    "tf_keras.legacy_tf_layers.normalization": "tf_keras.src.legacy_tf_layers.normalization",
}


def resolve(place: str) -> Any:
    """Imports a module or an object.

    Args:
        place: Path of a module, or path of a module and of an attribute: "package.module:a.b".

    Raises:
        ImportError: The module cannot be imported.
        AttributeError: The module lacks the attribute.
    """
    path, _, attributes = place.partition(":")
    found = importlib.import_module(path)
    for name in filter(None, attributes.split(".")):
        found = getattr(found, name)
    return found
