"""Control dependencies that make an operation run before operations that were built earlier."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc import _tensorflow
from tf_condacc._ops.host import is_reference
from tf_condacc._typing import GradientAndVariable, Loss


@contextlib.contextmanager
def at_operation(op: tf.Operation | None) -> Iterator[None]:
    """Builds operations in the graph, control flow context and device scope of `op`.

    The operations that are built have no control dependencies of enclosing scopes.

    Args:
        op: The operation; None for the current graph, context and device.
    """
    graph = op.graph if op is not None else v1.get_default_graph()
    owner = op if op is not None else graph
    context = _tensorflow.control_flow_context(owner)
    with contextlib.ExitStack() as stack:
        stack.enter_context(graph.as_default())
        stack.enter_context(tf.control_dependencies(None))
        if op is not None:
            stack.enter_context(v1.device(None))
            stack.enter_context(v1.device(op.device))
        if context is not None:
            context.Enter()
            stack.callback(context.Exit)
        yield


def run_before_reads(
    first: tf.Operation, target: tf.Operation, besides: Iterable[str] = ()
) -> None:
    """Adds control dependencies so that `first` runs before any variable is read for `target`.

    A function's body is delayed together with the operation that calls the function. Operations
    that `first` depends on are not delayed. Neither are operations that can run when `first` does
    not, outside the branch or loop of `first`. Sessions that have run the operations before do not
    see the new dependencies; TensorFlow logs a warning in that case.

    Args:
        first: The operation that must run before the reads.
        target: The operation that is computed from variables. It may have been built before or
            after `first`. Nothing is done if it belongs to another graph.
        besides: Names of further operations that must not be delayed.
    """
    if first.graph is not target.graph:
        return
    excluded = ancestors(first) | set(besides)
    held = [
        op
        for op in _walk(target)
        if op.name not in excluded and _reads_state(op, first) and _runs_only_with(first, op)
    ]
    for op in held:
        _hold_back(op, first)


def read_after(first: tf.Operation, loss: Loss, step: tf.Variable) -> Loss:
    """Returns the loss, with all variables it depends on read after the operation `first`.

    Args:
        first: The operation that reads the step variable.
        loss: The loss, a scalar tensor or a function that returns one.
        step: The step variable.
    """
    if callable(loss):
        return lambda: read_after(first, tf.convert_to_tensor(loss()), step)
    run_before_reads(first, loss.op, besides=users_of(step, loss.graph))
    with tf.control_dependencies([first]):
        return tf.identity(loss)


def users_of(step: tf.Variable, graph: tf.Graph) -> set[str]:
    """Returns the names of the operations in a graph that use the step variable.

    In a function's body, TensorFlow makes operations on one variable run in the order in which they
    were built. Those that were built before the read of the local step also run before it, so the
    operations that they depend on cannot be delayed either and are returned too.
    """
    with graph.as_default():
        variable = step.op.outputs[0] if is_reference(step.dtype) else step.handle
        if graph.building_function:
            variable = graph.capture(variable)
    users = variable.consumers()
    if graph.building_function:
        return set().union(*[ancestors(op) for op in users])
    return {op.name for op in users}


def settled_gradients(grads_and_vars: Iterable[GradientAndVariable]) -> list[tf.Tensor]:
    """Returns tensors that are computed after all gradients. In eager mode, an empty list."""
    if tf.executing_eagerly():
        return []
    gradients = [gradient for gradient, _ in grads_and_vars if gradient is not None]
    return [settled(part) for part in tf.nest.flatten(gradients, expand_composites=True)]


def settled(tensor: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns the same value from an operation that runs after the value is computed.

    Must not be called in eager mode. A control dependency on `tensor` itself is not enough if a
    function or a branch computes it: TensorFlow then waits for the side effects of the function and
    not for its results. An identity is not enough either, because TensorFlow removes it when it
    optimizes the graph. TensorFlow does not remove merges.
    """
    with _tensorflow.colocated_with(tensor.op, ignore_existing=True):
        return tf.raw_ops.Merge(inputs=[tensor], name=name).output


def ancestors(op: tf.Operation) -> set[str]:
    """Returns the names of an operation and of all operations that it depends on."""
    return {found.name for found in _walk(op)}


def _hold_back(op: tf.Operation, first: tf.Operation) -> None:
    if op.type not in ("While", "StatelessWhile"):
        _tensorflow.run_after(op, first)
        return
    # The gradient of a loop appends inputs to the loop, and TensorFlow requires inputs to precede
    # control inputs. The dependency is therefore added to an identity of the first input.
    with at_operation(op), tf.control_dependencies([first]):
        _tensorflow.replace_input(op, 0, tf.identity(op.inputs[0]))


def _walk(op: tf.Operation) -> Iterator[tf.Operation]:
    """Yields the operation and all operations that it depends on, in no particular order."""
    seen = {op.name}
    waiting = [op]
    while waiting:
        current = waiting.pop()
        yield current
        for needed in [tensor.op for tensor in current.inputs] + list(current.control_inputs):
            if needed.name not in seen:
                seen.add(needed.name)
                waiting.append(needed)


def _reads_state(op: tf.Operation, first: tf.Operation) -> bool:
    """Returns whether an operation may read a variable, or enters a loop that may."""
    if op.type in ("Enter", "RefEnter"):
        return True
    return any(is_reference(tensor.dtype) or tensor.dtype == tf.resource for tensor in op.inputs)


def _contexts(op: tf.Operation) -> list[Any]:
    """Returns the version 1 branches and loops around an operation, innermost first."""
    found = []
    context = _tensorflow.control_flow_context(op)
    while context is not None:
        found.append(context)
        context = context.outer_context
    return found


def _runs_only_with(first: tf.Operation, op: tf.Operation) -> bool:
    """Returns whether `op` runs only if `first` runs, and the same number of times."""
    # An operation that enters a loop runs once, outside the loop.
    contexts = _contexts(op.inputs[0].op if op.type in ("Enter", "RefEnter") else op)
    of_first = _contexts(first)
    if any(context not in contexts for context in of_first):
        return False
    return not any(context.IsWhileContext() for context in contexts if context not in of_first)
