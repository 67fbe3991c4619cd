"""Nodes of this package's operations in the graphs of functions."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc import _tensorflow

_IMPORT_FIRST = "Condacc>Import_tf_condacc_first"


class CheckedNodes:
    """Builds the nodes of operations, and checks those in the graphs of functions.

    It replaces TensorFlow's module that builds nodes in the module of generated functions. It is
    not called in eager mode, where checks would take time for each gradient.

    A process may get a function without having imported this package: as part of a SavedModel, or
    from the coordinator of a cluster. TensorFlow then reports the first operation of the function
    that it does not know. Therefore a node that does nothing, and whose type names the remedy,
    stands before the first node of each function. Graphs of TensorFlow 1 have no such node, because
    their nodes mirror those of the original.

    Args:
        generated: The module of generated functions.
    """

    def __init__(self, generated: ModuleType) -> None:
        self._builder: Any = getattr(generated, "_op_def_library", None)
        self._import_first = generated.condacc_import_tf_condacc_first
        self._begun: weakref.WeakSet[tf.Graph] = weakref.WeakSet()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    def begin(self, graph: tf.Graph) -> None:
        """Builds the node whose type names the remedy, unless the default graph has it already."""
        if graph not in self._begun:
            with tf.device(None), tf.control_dependencies(None):
                self._import_first(name="import_first")
            self._begun.add(graph)

    def _apply_op_helper(self, op_type_name: str, name: str | None = None, **keywords: Any) -> Any:
        graph = v1.get_default_graph()
        if op_type_name == _IMPORT_FIRST or not _tensorflow.is_function(graph):
            return self._builder._apply_op_helper(op_type_name, name=name, **keywords)
        if _tensorflow.is_compiled(graph):
            raise RuntimeError(
                f"{_described(op_type_name, name, keywords)} is used in a function that XLA "
                "compiles, but XLA cannot compile its operations. Use it outside of the function "
                "with jit_compile=True, which may compute the gradients."
            )
        self.begin(graph)
        built = self._builder._apply_op_helper(op_type_name, name=name, **keywords)
        if _is_out_of_reach(built[2].device):
            who = _described(op_type_name, name, keywords)
            raise tf.errors.InternalError(None, None, out_of_reach(who))
        return built


def _described(op_type: str, name: str | None, inputs: Mapping[str, Any]) -> str:
    """Describes the accumulator that an operation makes or uses, or else the operation itself."""
    if op_type.endswith("Accumulator"):
        return f"Accumulator '{name}'"
    handle, *_ = inputs.get("handles") or [inputs.get("handle")]
    accumulator = getattr(handle, "_condacc_name", None)
    return f"Accumulator '{accumulator}'" if accumulator else f"Operation '{name}' ({op_type})"


def _is_out_of_reach(device: str) -> bool:
    """Returns whether a device belongs to another worker of a `MultiWorkerMirroredStrategy`.

    Any part of the name of the device may be missing.
    """
    server = _tensorflow.collective_server()
    if server is None or not device:
        return False
    spec = tf.DeviceSpec.from_string(device)
    return spec.job not in (None, server.job_name) or spec.task not in (None, server.task_index)


def out_of_reach(user: str) -> str:
    """Returns the error message for an accumulator or an operation on a device out of reach."""
    return (
        f"{user} is on the device of another process, which this process cannot reach. Workers of "
        "MultiWorkerMirroredStrategy do not share accumulators: each needs its own, and "
        "all_reduce adds up what they take."
    )
