"""The update of the variables, which all replicas of a strategy make together."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tf_condacc._micro_batches.checks import Checks, Clipping, name_of, of_tensorflow
from tf_condacc._micro_batches.gradients import absent_everywhere, gradients_for
from tf_condacc._micro_batches.replicas import (
    Positions,
    ReplicaAccumulators,
    Taken,
    positions_of,
)
from tf_condacc._micro_batches.strategies import explaining_graphs
from tf_condacc._ops.host import check_control_flow
from tf_condacc._tensorflow import converted_as_caller, not_converted
from tf_condacc._typing import Gradient, VariableLike


class Update:
    """An update of the variables of a `GradientAccumulator`.

    Args:
        replicas: The accumulators.
        checks: The checks of the `GradientAccumulator`, which know its title and its variables.
        optimizer: The optimizer.
        clipping: How to clip the gradients; None if not at all.
        arguments: Further arguments of the optimizer's `apply_gradients`.
        absent: The positions of the variables that may have no gradient.
        take: Takes the gradients of the replica that calls.
    """

    def __init__(
        self,
        replicas: ReplicaAccumulators,
        checks: Checks,
        optimizer: Any,
        clipping: Clipping | None,
        arguments: dict[str, Any],
        absent: Positions,
        take: Callable[[], Taken],
    ) -> None:
        self._replicas, self._checks = replicas, checks
        self._optimizer, self._clipping, self._take = optimizer, clipping, take
        self._apply_gradients = functools.partial(
            converted_as_caller(optimizer.apply_gradients), **arguments
        )
        # Workers that leave out different variables would wait for each other for ever.
        self._absent = absent if replicas.strategy_of_workers is None else Positions()
        # In a graph, the sets of variables that the update may leave out. The last one is empty.
        self._branches = [Positions()]

    def make_if(
        self, condition: tf.Tensor, otherwise: Callable[[], list[tf.Tensor]] | None = None
    ) -> tf.Tensor:
        """Makes the update if a condition holds, and returns the condition.

        Under a strategy, replicas cannot communicate in a branch of ``tf.cond``. There the branch
        is built outside of the replicas, and updates from all of them.

        Args:
            condition: The condition, which is the same on all replicas: `[] bool`.
            otherwise: Called if the condition does not hold; returns tensors to compute. Under a
                strategy it must be None.

        Raises:
            RuntimeError: Replicas cannot update variables together in the current graph.
            ValueError: A variable was made outside of the scope of the strategy.
        """
        variables = self._checks.variables
        if hasattr(self._optimizer, "build") and not getattr(self._optimizer, "built", False):
            with tf.init_scope():  # Keras optimizers cannot make variables in a tf.cond.
                self._optimizer.build(list(variables))
        if not tf.executing_eagerly():
            check_control_flow(map(of_tensorflow, variables))
            if self._absent:
                self._branches = self._replicas.absences.branches(self._absent)
        if not tf.distribute.has_strategy():
            return _cond(condition, self._make, otherwise)
        with explaining_graphs(self._checks.title, "apply_gradients"):
            context = tf.distribute.get_replica_context()
            context.merge_call(self._make_on_all_if, args=(condition,))
        return condition

    @not_converted
    def _make_on_all_if(self, strategy: tf.distribute.Strategy, conditions: Any) -> None:
        first = strategy.experimental_local_results(conditions)[0]
        try:
            _cond(first, functools.partial(self._make, strategy))
        except AssertionError as error:  # TensorFlow does not say what is wrong.
            _check_scope(self._checks, strategy, error)
            raise

    def _make(self, strategy: tf.distribute.Strategy | None = None) -> Any:
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
        return ways[0]() if len(ways) == 1 else _fitting(branches, is_absent, ways)

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
        with self._replicas.updating(), self._without_new_variables():
            updated = self._apply_gradients(pairs)
        return _share_reads(pairs, updated)

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


def _share_reads(pairs: Sequence[tuple[Gradient | None, VariableLike]], updated: Any) -> Any:
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


def _cond(
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


def _fitting(
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


def _check_scope(checks: Checks, strategy: tf.distribute.Strategy, cause: Exception) -> None:
    """Raises a ValueError for a variable that was made outside of the strategy's scope."""
    for variable in checks.variables:
        if not strategy.extended.variable_created_in_scope(of_tensorflow(variable)):
            raise ValueError(
                f"{checks.title}: variable '{name_of(variable)}' was made outside of the scope of "
                f"the {type(strategy).__name__} whose replicas update it. Make it in "
                "strategy.scope()."
            ) from cause
