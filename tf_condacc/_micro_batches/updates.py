"""The parts of an update that all replicas of a strategy make together."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._micro_batches.absences import Positions, positions_of
from tf_condacc._micro_batches.checks import Checks, name_of, of_tensorflow
from tf_condacc._micro_batches.gradients import Clipping, clips_itself
from tf_condacc._micro_batches.replicas import ReplicaAccumulators, Taken, described, own_strategy
from tf_condacc._tensorflow import not_converted
from tf_condacc._typing import Gradient, VariableLike

# Part of TensorFlow's error for a `merge_call` in a graph inside that of the replicas.
_FROM_ANOTHER_GRAPH = "while defining a new graph"
# Types of graphs, and the statements for which TensorFlow builds them.
_ENCLOSING = {
    "CondBranchFuncGraph": "a tf.cond or an `if` on a tensor",
    "WhileBodyFuncGraph": "a tf.while_loop or a loop over a tensor",
}


_thread = threading.local()


class Update:
    """An update of the variables of a `GradientAccumulator`.

    Args:
        replicas: The accumulators.
        checks: The checks of the `GradientAccumulator`, which know its title and its variables.
        take: Takes the gradients of the replica that calls.
        clipping: How to clip the gradients; None if not at all.
        optimizer: The optimizer.
        apply_gradients: Its method, with the further arguments.
        absent: The positions of the variables that may have no gradient.
        branches: In a graph, the sets of variables that the update may leave out. The last one is
            empty.
    """

    def __init__(
        self,
        replicas: ReplicaAccumulators,
        checks: Checks,
        take: Callable[[], Taken],
        clipping: Clipping | None,
        optimizer: Any,
        apply_gradients: Callable[..., Any],
        absent: Positions,
        branches: Sequence[Positions],
    ) -> None:
        self._replicas, self._checks = replicas, checks
        self._take, self._clipping = take, clipping
        self._optimizer, self._apply_gradients = optimizer, apply_gradients
        self._absent, self._branches = absent, branches

    def make(self, strategy: tf.distribute.Strategy | None = None) -> Any:
        """Makes the update on all replicas, and returns its operation in a graph with sessions."""
        run = _run if strategy is None else strategy.run
        if not self._absent:
            return run(self._take_and_apply)
        gradients, is_absent = run(self._clipped)
        if strategy is not None:
            is_absent = strategy.experimental_local_results(is_absent)[0]
        branches = self._branches
        if tf.executing_eagerly():
            branches = [self._absent & positions_of(is_absent.numpy())]
        ways = [
            functools.partial(run, functools.partial(self._apply, left_out=each), (gradients,))
            for each in branches
        ]
        return ways[0]() if len(ways) == 1 else fitting(branches, is_absent, ways)

    @not_converted
    def make_if(self, strategy: tf.distribute.Strategy, conditions: Any) -> None:
        """Makes the update if a condition holds, outside of the replicas.

        Raises:
            ValueError: A variable was made outside of the scope of the strategy.
        """
        first = strategy.experimental_local_results(conditions)[0]
        try:
            cond(first, functools.partial(self.make, strategy))
        except AssertionError as error:  # TensorFlow does not say what is wrong.
            check_scope(self._checks.title, strategy, self._checks.variables, error)
            raise

    @not_converted
    def _take_and_apply(self) -> Any:
        return self._apply(self._clipped()[0], Positions())

    @not_converted
    def _clipped(self) -> tuple[list[Gradient], tf.Tensor | None]:
        gradients, is_absent = self._take()
        if tf.distribute.has_strategy():
            gradients = self._replicas.as_given(gradients)
        everywhere = absent_everywhere(is_absent()) if self._absent else None
        return gradients_for(self._optimizer, gradients, self._clipping), everywhere

    @not_converted
    def _apply(self, gradients: list[Gradient], left_out: Positions) -> Any:
        if len(self._branches) > 1:  # An optimizer may all-reduce only tensors of its own graph.
            gradients = tf.nest.map_structure(tf.identity, gradients, expand_composites=True)
        given = self._replicas.as_given(gradients)
        pairs = [
            (None if position in left_out else gradient, variable)
            for position, (gradient, variable) in enumerate(
                zip(given, self._checks.variables, strict=True)
            )
        ]
        with _updating(self._replicas), self._without_new_variables():
            updated = self._apply_gradients(pairs)
        return share_reads(pairs, updated)

    @contextlib.contextmanager
    def _without_new_variables(self) -> Iterator[None]:
        """Refuses variables that are made in a branch, which TensorFlow leaves without a value.

        Slots of optimizers of ``tf.compat.v1.train`` are made outside of the branch.
        """

        def refuse(_: Any, **arguments: Any) -> Any:
            raise ValueError(
                f"{self._checks.title}: {type(self._optimizer).__name__}.apply_gradients makes a "
                f"variable, {arguments.get('name') or 'without a name'}, which is impossible in an "
                "update under a strategy. Make it in __init__, or in a method build(variables) "
                "that sets the attribute `built`, which is called before the first update."
            )

        if tf.executing_eagerly() or not tf.distribute.has_strategy():
            yield
            return
        with tf.variable_creator_scope(refuse):
            yield


def _run(function: Callable[..., Any], args: tuple[Any, ...] = ()) -> Any:
    """Calls a function. It takes the place of ``Strategy.run`` where there is no strategy."""
    return function(*args)


@contextlib.contextmanager
def _updating(replicas: ReplicaAccumulators) -> Iterator[None]:
    """Notes that this thread calls the optimizer for an update from some accumulators."""
    before = getattr(_thread, "updating", ())
    _thread.updating = (*before, replicas)
    try:
        yield
    finally:
        _thread.updating = before


def is_updating(replicas: ReplicaAccumulators) -> bool:
    """Returns whether an optimizer that this thread calls makes an update from accumulators."""
    return replicas in getattr(_thread, "updating", ())


@contextlib.contextmanager
def explaining_graphs(title: str, method: str) -> Iterator[None]:
    """Explains the error of TensorFlow for communication in a graph inside that of the replicas.

    Args:
        title: What error messages call the object.
        method: The method that communicates.
    """
    try:
        yield
    except RuntimeError as error:
        if _FROM_ANOTHER_GRAPH not in str(error):
            raise
        where = _ENCLOSING.get(type(v1.get_default_graph()).__name__, "a tf.function")
        strategy = described(own_strategy())
        raise RuntimeError(
            f"{title}: {method}() is called inside {where} in a function that {strategy} runs on "
            "replicas, where they cannot make an update together or communicate. Call it directly "
            "in the function that is passed to strategy.run: apply_gradients() updates only after "
            "the last micro-batch."
        ) from error


def gradients_for(
    optimizer: Any, gradients: Sequence[Gradient], clipping: Clipping | None
) -> list[Gradient]:
    """Returns gradients that an optimizer may add up over the replicas.

    If the gradients are clipped, or one is sparse, the first replica gets the sum of all replicas,
    and the others get zeros: to clip parts is not to clip their sum. Rows of ``tf.IndexedSlices``
    are made unique in this sum. TensorFlow concatenates those of replicas when it adds them up, and
    optimizers such as Adam of Keras give wrong results for rows that several replicas have.

    Args:
        optimizer: The optimizer.
        gradients: The gradients of this replica.
        clipping: How to clip the sum; None if not at all.
    """
    context, is_first = tf.distribute.get_replica_context(), True
    gradients = list(gradients)
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        is_first = tf.get_static_value(context.replica_id_in_sync_group) == 0
        needs_sums = clipping is not None or clips_itself(optimizer)
        gradients = [
            sum_on_first_replica(one) if needs_sums or isinstance(one, tf.IndexedSlices) else one
            for one in gradients
        ]
    return clipping(gradients, optimizer) if clipping is not None and is_first else gradients


def sum_on_first_replica(gradient: Gradient) -> Gradient:
    """Returns the sum of all replicas on the first one, and zeros or no rows on the others.

    Args:
        gradient: The gradient of this replica. The sum of ``tf.IndexedSlices`` has unique rows.
    """
    context = tf.distribute.get_replica_context()
    is_first = tf.get_static_value(context.replica_id_in_sync_group) == 0
    if not isinstance(gradient, tf.IndexedSlices):
        together = context.all_reduce(tf.distribute.ReduceOp.SUM, gradient)
        return together if is_first else tf.zeros_like(together)
    together = context.all_reduce(tf.distribute.ReduceOp.SUM, _with_a_row(gradient))
    # The zeros of a replica without rows are added to another row, or to the first one.
    anywhere = tf.maximum(tf.reduce_max(together.indices), 0)
    rows, positions = tf.unique(tf.where(together.indices < 0, anywhere, together.indices))
    if not is_first:
        return tf.IndexedSlices(together.values[:0], rows[:0], gradient.dense_shape)
    values = tf.math.unsorted_segment_sum(together.values, positions, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _with_a_row(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Returns a gradient that has a row of zeros with the index -1 if it had no row.

    TensorFlow crashes if it adds up gradients of which none has a row.
    """
    indices, values = gradient.indices, gradient.values

    def row_of_zeros() -> tuple[tf.Tensor, tf.Tensor]:
        shape = tf.concat([[1], tf.shape(values)[1:]], axis=0)
        return -tf.ones([1], indices.dtype), tf.zeros(shape, values.dtype)

    has_rows = tf.size(indices) > 0
    indices, values = tf.cond(has_rows, lambda: (indices, values), row_of_zeros)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def share_reads(pairs: Sequence[tuple[Gradient | None, VariableLike]], updated: Any) -> Any:
    """Lets variables with sparse gradients be read without a copy again, after their update.

    Once rows of a variable have been updated, TensorFlow copies the whole variable whenever it is
    read, as each micro-batch does, until this mode is switched off. After that, the next update of
    rows copies the variable once, and only if it is being read at the time.

    Args:
        pairs: The gradients that were applied, and their variables.
        updated: What the optimizer returned: in a graph with sessions, the operation of the update.

    Returns:
        In a graph with sessions, an operation that includes the update; None elsewhere.
    """
    in_graph, shared = isinstance(updated, tf.Operation), []
    with tf.control_dependencies([updated] if in_graph else []):
        for gradient, variable in pairs:
            handle = getattr(of_tensorflow(variable), "handle", None)
            if isinstance(gradient, tf.IndexedSlices) and handle is not None:
                shared.append(tf.raw_ops.DisableCopyOnRead(resource=handle))
    return tf.group(updated, *shared) if in_graph else None


def cond(
    condition: tf.Tensor,
    update: Callable[[], Any],
    otherwise: Callable[[], list[tf.Tensor]] | None = None,
) -> tf.Tensor:
    """Makes an update if a condition holds, and returns the condition.

    Args:
        condition: The condition: `[] bool`.
        update: Makes the update, and returns its operation in a graph with sessions.
        otherwise: Called if the condition does not hold; returns tensors to compute.
    """

    def not_updated() -> tf.Tensor:
        with tf.control_dependencies([] if otherwise is None else otherwise()):
            return tf.constant(False)

    return tf.cond(condition, lambda: _true_after(update), not_updated)


def absent_everywhere(is_absent: tf.Tensor) -> tf.Tensor:
    """Returns whether a variable has no gradient on any replica: `[num_variables] bool`."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return is_absent
    context = tf.distribute.get_replica_context()
    present = tf.cast(tf.logical_not(is_absent), tf.float32)
    return tf.equal(context.all_reduce(tf.distribute.ReduceOp.SUM, present), 0)


def fitting(
    branches: Sequence[Positions], is_absent: tf.Tensor, updates: Sequence[Callable[[], Any]]
) -> Any:
    """Makes the first update that fits, and returns an operation of the graph that includes it.

    In ``tf.switch_case``, as opposed to ``tf.cond``, reference variables cannot be updated.

    Args:
        branches: The positions of the variables that each update leaves out. Those of the last one
            are empty.
        is_absent: Whether a variable has no gradient on any replica: `[num_variables] bool`.
        updates: The updates.
    """
    *ways, chosen = [functools.partial(_true_after, each) for each in updates]
    for left_out, way in reversed([*zip(branches[:-1], ways, strict=True)]):
        fits = tf.reduce_all(tf.gather(is_absent, sorted(left_out)))
        chosen = functools.partial(tf.cond, fits, way, chosen)
    return chosen().op


def _true_after(update: Callable[[], Any]) -> tf.Tensor:
    operation = update()
    with tf.control_dependencies([operation] if isinstance(operation, tf.Operation) else []):
        return tf.constant(True)


def check_scope(
    title: str,
    strategy: tf.distribute.Strategy,
    variables: Sequence[VariableLike],
    cause: Exception,
) -> None:
    """Raises a ValueError for a variable that was made outside of the strategy's scope."""
    for variable in variables:
        if not strategy.extended.variable_created_in_scope(of_tensorflow(variable)):
            raise ValueError(
                f"{title}: variable '{name_of(variable)}' was made outside of the scope of the "
                f"{type(strategy).__name__} whose replicas update it. Make it in strategy.scope()."
            ) from cause
