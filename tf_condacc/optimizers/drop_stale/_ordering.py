"""Lets one operation of a graph run before others that were built earlier."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from tf_condacc._typing import GradientAndVariable

# A loss: a scalar tensor, or a function that computes one.
Loss: TypeAlias = tf.Tensor | Callable[[], tf.Tensor]


@contextlib.contextmanager
def at_operation(op: tf.Operation | None) -> Iterator[None]:
    """Builds operations where `op` is, without control dependencies.

    They are in its graph and control flow, and on its device.

    Args:
        op: None stands for where operations are built now.
    """
    graph = op.graph if op is not None else tf.compat.v1.get_default_graph()
    owner = op if op is not None else graph
    context = owner._get_control_flow_context()
    with contextlib.ExitStack() as stack:
        stack.enter_context(graph.as_default())
        stack.enter_context(tf.control_dependencies(None))
        if op is not None:
            stack.enter_context(tf.compat.v1.device(None))
            stack.enter_context(tf.compat.v1.device(op.device))
        if context is not None:
            context.Enter()
            stack.callback(context.Exit)
        yield


def run_before_reads(first: tf.Operation, target: tf.Operation, besides: Iterable[str] = ()) -> int:
    """Makes `first` run before any variable is read for `target`.

    Operations of other graphs, such as bodies of functions, are held back with the operation that
    calls them. What `first` needs itself is not held back, and neither is what runs even where
    `first` does not: outside of the branch or loop that `first` is in. Sessions that have run the
    operations already do not notice; TensorFlow logs a warning then.

    Args:
        first: The operation that is to run before.
        target: What is computed from variables. In the same graph, built before or after `first`.
        besides: Names of operations that are not to be held back.

    Returns:
        How many operations are held back now.
    """
    if first.graph is not target.graph:
        return 0
    excluded = ancestors(first) | set(besides)
    held = [
        op
        for op in _walk(target)
        if op.name not in excluded and _reads_state(op, first) and _runs_only_with(first, op)
    ]
    for op in held:
        _hold_back(op, first)
    return len(held)


def read_after(first: tf.Operation, loss: Loss, step: tf.Variable) -> Loss:
    """The loss, a tensor or a function, with variables read for it after operation `first`."""
    if callable(loss):
        return lambda: read_after(first, tf.convert_to_tensor(loss()), step)
    run_before_reads(first, loss.op, besides=users_of(step, loss.graph))
    with tf.control_dependencies([first]):
        return tf.identity(loss)


def users_of(step: tf.Variable, graph: tf.Graph) -> set[str]:
    """Returns the names of a graph's operations that work on the step variable itself.

    In a function's body such operations are put into the order in which they were built, which is
    before the local step is read; so what they need cannot be held back for that either.
    """
    with graph.as_default():
        variable = step._ref() if step.dtype._is_ref_dtype else step.handle
        if graph.building_function:
            variable = graph.capture(variable)
    users = variable.consumers()
    if graph.building_function:
        return set().union(*[ancestors(op) for op in users])
    return {op.name for op in users}


def settled_gradients(grads_and_vars: Iterable[GradientAndVariable]) -> list[tf.Tensor]:
    """What to wait for so that all gradients are there."""
    if tf.executing_eagerly():
        return []
    gradients = [gradient for gradient, _ in grads_and_vars if gradient is not None]
    return [settled(part) for part in tf.nest.flatten(gradients, expand_composites=True)]


def settled(tensor: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """The same value, from an operation that runs when it has been computed. Not in eager mode.

    A control dependency on the tensor itself is not enough where a function or a branch computes
    it: TensorFlow waits for the function's side effects then, not for its results. Identities do
    not help, as TensorFlow removes them; merges it leaves alone.
    """
    with tf_ops.colocate_with(tensor.op, ignore_existing=True):
        return tf.raw_ops.Merge(inputs=[tensor], name=name).output


def ancestors(op: tf.Operation) -> set[str]:
    """The names of an operation and of all that it needs."""
    return {found.name for found in _walk(op)}


def _hold_back(op: tf.Operation, first: tf.Operation) -> None:
    if op.type not in ("While", "StatelessWhile"):
        op._add_control_input(first)
        return
    # Differentiating a loop appends inputs to it, which must not come after control inputs.
    with at_operation(op), tf.control_dependencies([first]):
        op._update_input(0, tf.identity(op.inputs[0]))


def _walk(op: tf.Operation) -> Iterator[tf.Operation]:
    """The operation and all that it needs, in no certain order."""
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
    """Whether an operation may read a variable, or is the way into a loop that may."""
    if op.type in ("Enter", "RefEnter"):
        return True
    return any(tensor.dtype._is_ref_dtype or tensor.dtype == tf.resource for tensor in op.inputs)


def _contexts(op: tf.Operation) -> list[Any]:
    """The branches and loops of version 1 that an operation is in, innermost first."""
    found = []
    context = op._get_control_flow_context()
    while context is not None:
        found.append(context)
        context = context.outer_context
    return found


def _runs_only_with(first: tf.Operation, op: tf.Operation) -> bool:
    """Whether `op` runs at most where `first` does, and as often."""
    # The way into a loop runs outside of it, once.
    contexts = _contexts(op.inputs[0].op if op.type in ("Enter", "RefEnter") else op)
    of_first = _contexts(first)
    if any(context not in contexts for context in of_first):
        return False
    return not any(context.IsWhileContext() for context in contexts if context not in of_first)
