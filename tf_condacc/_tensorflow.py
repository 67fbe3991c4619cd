"""The private parts of TensorFlow that this package uses, each behind one name.

TensorFlow has no public API for them. Classes that override private methods of TensorFlow's classes
are not here: `OptimizerWrapper`, `ChiefQueueRunner` and the hook that logs the speed of an
Estimator. The design document lists all of them, with what fails if one changes.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python.checkpoint.restore import CheckpointPosition
from tensorflow.python.eager import cancellation, context
from tensorflow.python.eager import execute as eager_execute
from tensorflow.python.framework import config
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.training import device_setter
from tensorflow.python.training.saving import saveable_object

try:
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
except ImportError:  # TensorFlow then reports the operations that XLA cannot compile.
    GraphOrParentsInXlaContext = None

# The base class of objects that checkpoints and SavedModels contain. The public tf.Module would add
# attributes to accumulators and track every attribute.
Trackable: Any = tf.__internal__.tracking.Trackable

# What a tf.compat.v1.train.Saver saves besides variables, and the tensors of which it consists.
SaveableObject: Any = saveable_object.SaveableObject
SaveSpec: Any = saveable_object.SaveSpec

# Has functions that the public tf.nest lacks: they flatten only the upper levels of a structure.
nest: Any = tf.__internal__.nest

# The types of the operations that tf.compat.v1.train.replica_device_setter puts on parameter
# servers by default.
STANDARD_PS_OPS: Sequence[str] = device_setter.STANDARD_PS_OPS

# The class of the graphs of functions, and of version 2 branches and loops.
_FuncGraph: Any = getattr(tf.__internal__, "FuncGraph", ())


_autograph = tf.__internal__.autograph
_Function = TypeVar("_Function", bound=Callable[..., Any])


def not_converted(function: _Function) -> _Function:
    """Keeps AutoGraph from converting a function, whose conditions are Python values.

    Functions of the program, such as methods of optimizers, have to be called by way of
    `converted_as_caller` to be converted as usual. The wrapper that
    ``tf.autograph.experimental.do_not_convert`` returns has this mark, too, but it would cost time
    in each eager call, and hide from the function how its caller is converted.
    """
    marked: Any = function
    marked.autograph_info__ = {}
    return function


def converted_as_caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of the program, converted by AutoGraph if the calling code is."""
    if tf.executing_eagerly():
        return function
    return _autograph.tf_convert(function, _autograph.control_status_ctx())


class RestoreWatch:
    """Tells which calls of an object's `_trackable_children` belong to the restore of a checkpoint.

    TensorFlow gives every restore a number of its own, and counts on.
    """

    def __init__(self) -> None:
        self._seen = tf_ops.uid()

    def is_restored(self, trackable: Any) -> bool:
        """Returns whether an object was restored since the watch was made, or last said so."""
        if last_restore(trackable) <= self._seen:
            return False
        self._seen = tf_ops.uid()
        return True


def last_restore(trackable: Any) -> int:
    """Returns the number of the restore that an object was last restored by, or -1."""
    return getattr(trackable, "_self_update_uid", -1)


def is_being_restored(trackable: Any) -> bool:
    """Returns whether a caller of this function restores an object from a checkpoint.

    TensorFlow calls `_serialize_to_tensors` then as well, for the names and the data types, and
    passes nothing that tells so: only the local variables of its functions do.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        for position in frame.f_locals.values():
            if isinstance(position, CheckpointPosition) and position.trackable is trackable:
                return True
        frame = frame.f_back
    return False


def is_function(graph: tf.Graph) -> bool:
    """Returns whether a graph is that of a function, or of a branch or loop of version 2."""
    return isinstance(graph, _FuncGraph)


def is_control_flow(graph: tf.Graph) -> bool:
    """Returns whether a graph is that of a branch or loop of control flow version 2.

    Such a graph within a function counts as a function.
    """
    kinds = ("CondBranchFuncGraph", "WhileCondFuncGraph", "WhileBodyFuncGraph")
    while is_function(graph) and type(graph).__name__ in kinds:
        graph = graph.outer_graph
        if not is_function(graph):
            return True
    return False


def is_loop_body(graph: tf.Graph) -> bool:
    """Returns whether a graph is the body of a loop of control flow version 2."""
    return type(graph).__name__ == "WhileBodyFuncGraph"


def is_compiled(graph: tf.Graph) -> bool:
    """Returns whether XLA compiles the function of a graph, or one that calls it."""
    return GraphOrParentsInXlaContext is not None and GraphOrParentsInXlaContext(graph)


def belongs_to_monitored_session(coordinator: tf.train.Coordinator) -> bool:
    """Returns whether a monitored session has made a coordinator: no error stops it cleanly."""
    return getattr(coordinator, "_clean_stop_exception_types", None) == ()


def is_determinism_enabled() -> bool:
    """Returns whether ``tf.config.experimental.enable_op_determinism`` was called."""
    return config.is_op_determinism_enabled()


def collective_server() -> Any:
    """Returns the ServerDef of this worker of a MultiWorkerMirroredStrategy; None without one."""
    return getattr(context.context(), "_collective_ops_server_def", None)


def cancellable(
    op_name: str, num_outputs: int, inputs: Sequence[tf.Tensor], attrs: Sequence[Any]
) -> tuple[Callable[[], list[tf.Tensor]], Callable[[], None]]:
    """Returns a function that executes an operation eagerly, and one that cancels it.

    Args:
        op_name: Registered name of the operation.
        num_outputs: Number of the operation's outputs.
        inputs: The operation's inputs, eager tensors.
        attrs: The operation's attributes as one flat sequence: name, value, name, value, ….
    """
    manager = cancellation.CancellationManager()

    def run() -> list[tf.Tensor]:
        return eager_execute.execute_with_cancellation(
            op_name, num_outputs, inputs, attrs, context.context(), manager
        )

    return run, manager.start_cancel


def execute(
    op_name: str, num_outputs: int, inputs: Sequence[tf.Tensor], attrs: Sequence[Any]
) -> list[tf.Tensor]:
    """Executes an operation eagerly. The arguments are those of `cancellable`."""
    return eager_execute.execute(op_name, num_outputs, inputs, attrs, context.context())


def number(value: float, dtype: tf.DType) -> tf.Tensor:
    """Returns a number as an eager tensor in host memory: `[] dtype`.

    The tensor is kept in a cache of TensorFlow's, which is emptied whenever the devices change: a
    thread that makes tensors of Python numbers while the process exits may abort the process, so
    few should be made. Eager execution must be enabled.
    """
    cache = context.context().ones_rank_cache()
    key = ("tf_condacc", dtype, value)
    tensor = cache.get(key)
    if tensor is None:
        # If a signal handler raises an exception while a tensor is made of a Python number,
        # TensorFlow may crash. A number of numpy is safe, but TensorFlow may still raise an error
        # of its own instead of the exception.
        converted = dtype.as_numpy_dtype(value)
        tensor = tf_ops.EagerTensor(converted, "/device:CPU:0", dtype.as_datatype_enum)
        cache.put(key, tensor)
    return tensor


def colocated_with(
    op: tf.Operation | tf.Variable, ignore_existing: bool = False
) -> contextlib.AbstractContextManager:
    """Returns a context that places operations where another operation or a variable is.

    The public ``tf.compat.v1.colocate_with`` logs that it is deprecated.

    Args:
        op: The operation, or the variable.
        ignore_existing: Whether to leave enclosing contexts of this kind out of account.
    """
    return tf_ops.colocate_with(op, ignore_existing=ignore_existing)


def control_flow_context(owner: tf.Operation | tf.Graph) -> Any:
    """Returns the innermost branch or loop of version 1 of an operation, or the current one."""
    return owner._get_control_flow_context()


def run_after(op: tf.Operation, first: tf.Operation) -> None:
    """Adds a control dependency to an operation that exists already."""
    op._add_control_input(first)


def replace_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """Replaces an input of an operation that exists already."""
    op._update_input(index, tensor)


def move(op: tf.Operation, device: str) -> None:
    """Places an operation that exists already on a device, without colocation."""
    op._set_device(device)
    if "_class" in op.node_def.attr:
        op._clear_attr("_class")
