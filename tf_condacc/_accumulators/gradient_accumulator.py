"""Accumulation of the gradients of several micro-batches into one update."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._accumulators import replicas
from tf_condacc._accumulators.replicas import Slot
from tf_condacc._tensorflow import Trackable, is_compiled
from tf_condacc._typing import Gradient, TensorLike, VariableLike

# These words are in TensorFlow's error for a `merge_call` in a graph inside that of the replicas.
_FROM_ANOTHER_GRAPH = "while defining a new graph"
# Types of graphs, and the statements for which TensorFlow builds them.
_ENCLOSING = {
    "CondBranchFuncGraph": "a tf.cond or an `if` on a tensor",
    "WhileBodyFuncGraph": "a tf.while_loop or a loop over a tensor",
}

# AutoGraph need not convert this module: its conditions are Python values.
_not_converted = tf.autograph.experimental.do_not_convert


class GradientAccumulator(Trackable):
    """Accumulates the gradients of several micro-batches, which then make one update.

    The object has a dense or sparse accumulator for each variable. Gradients of embeddings, which
    are ``tf.IndexedSlices``, stay sparse. The accumulators' steps need not be set: no gradient is
    ever stale. It works eagerly, in ``tf.function`` and in graphs with sessions.

    Under a ``tf.distribute.Strategy``, each replica accumulates its own gradients, on its device,
    and the optimizer adds up the replicas' means in each update as it does without accumulation.
    Scale the loss as you would without accumulation: divide your own loss by
    ``strategy.num_replicas_in_sync``, not by `num_micro_batches`. Keras losses are already divided.
    The result equals that of one batch that consists of the micro-batches, if these are of equal
    size.

    TensorFlow 1 has no such class. ``gradient_accumulation_steps`` of Keras optimizers serves the
    same purpose, but fails under strategies with several replicas, and makes the gradients of
    embeddings dense.

    Example:
        >>> weights = tf.Variable([0.0])
        >>> accumulator = tf_condacc.GradientAccumulator([weights], num_micro_batches=2)
        >>> [bool(accumulator.accumulate([tf.constant([x])])) for x in (1.0, 3.0)]
        [False, True]
        >>> print(accumulator.take()[0].numpy())
        [2.]

    Args:
        variables: The variables of the model, of TensorFlow or of Keras. They give the shapes and
            the data types of the gradients.
        num_micro_batches: Number of micro-batches that make an update.
        reduction_type: "MEAN" for the mean over the micro-batches, or "SUM". The mean of sparse
            gradients divides each row by the number of micro-batches ("GLOBAL_MEAN" of
            `SparseConditionalAccumulator`).
        name: Name of the object, for its operations and error messages.

    Raises:
        TypeError: `variables` is not a list of variables, or `num_micro_batches` is not an integer.
        ValueError: There are no variables, `num_micro_batches` is lower than 1, or `reduction_type`
            is neither "MEAN" nor "SUM".
        RuntimeError: The object is made in a function that a strategy runs on replicas, or under a
            parameter server strategy, whose workers do not make common updates.
    """

    def __init__(
        self,
        variables: Iterable[VariableLike],
        num_micro_batches: int,
        reduction_type: str = "MEAN",
        name: str = "gradient_accumulator",
    ) -> None:
        self._name = name
        self._title = f"GradientAccumulator '{name}'"  # Error messages begin with it.
        self._variables = self._checked_variables(variables)
        self._num_micro_batches = self._checked_number(num_micro_batches)
        if reduction_type not in ("MEAN", "SUM"):
            raise ValueError(
                f"{self._title} expects reduction_type 'MEAN' or 'SUM', got {reduction_type!r}."
            )
        self._reduction_type = reduction_type
        self._check_is_outside_replicas()
        self._strategy = replicas.own_strategy()
        self._slots: dict[int, list[Slot]] = {}

    @property
    def name(self) -> str:
        """The name of the object."""
        return self._name

    @property
    def num_micro_batches(self) -> int:
        """The number of micro-batches that make an update."""
        return self._num_micro_batches

    @_not_converted
    def accumulate(self, gradients: Iterable[Gradient]) -> tf.Tensor:
        """Accumulates the gradients of one micro-batch.

        Under a strategy it is called in the function that the strategy runs on replicas.

        Args:
            gradients: The gradient of each variable, in the order of the variables: a tensor or
                ``tf.IndexedSlices``. Tensors first, ``tf.IndexedSlices`` later is allowed; the
                reverse raises ValueError.

        Returns:
            True if the gradients of enough micro-batches are accumulated for a take: `[] bool`.

        Raises:
            TypeError: `gradients` is no list.
            ValueError: There are more or fewer gradients than variables, one is None, or one has
                another shape or data type than its variable. Nothing was accumulated.
            RuntimeError: It is called outside of the function that the strategy runs, or in a
                function that XLA compiles.
            tf.errors.InvalidArgumentError: ``tf.IndexedSlices`` have an index that their variable
                does not have, or a shape that is unknown at tracing is wrong. Other gradients may
                have been accumulated; `reset` discards them.
        """
        self._check_not_compiled()
        gradients = self._checked(gradients)
        slots = self._slots_of_replica(gradients)
        for gradient, slot, variable in zip(gradients, slots, self._variables, strict=True):
            if not slot.is_dense and not isinstance(gradient, tf.IndexedSlices):
                raise ValueError(
                    f"{self._gradient_of(variable)} is a tensor, expected tf.IndexedSlices as in "
                    "the first micro-batch."
                )
        # The dense gradients have been checked. They are applied after the sparse gradients, whose
        # indices are checked only when they are applied.
        checked: list[tf.Tensor] = []
        applied: list[tf.Tensor] = []
        for gradient, slot in sorted(
            zip(gradients, slots, strict=True), key=lambda x: x[1].is_dense
        ):
            with tf.control_dependencies(checked):
                applied.append(slot.apply(gradient))
            if not slot.is_dense:
                checked = applied[-1:]
        with tf.control_dependencies(applied):
            return slot.accumulator.num_accumulated() >= self._num_micro_batches

    @_not_converted
    def take(self, num_required: TensorLike | None = None) -> list[Gradient]:
        """Takes the mean, or the sum, of the gradients that this replica has accumulated.

        Args:
            num_required: Number of micro-batches that are enough: `[] int32`. By default those of
                a whole update. With 1, a remainder at the end of the data can be taken; its mean is
                that of the micro-batches that are there.

        Returns:
            A gradient for each variable: a tensor, or ``tf.IndexedSlices`` with unique ascending
            indices if the gradients of the variable were ``tf.IndexedSlices``.

        Raises:
            RuntimeError: Nothing was accumulated yet, or it is called outside of the function that
                the strategy runs.
            tf.errors.InvalidArgumentError: There are not enough micro-batches. Nothing was taken.
        """
        slots = self._slots.get(self._replica())
        if slots is None:
            raise RuntimeError(
                f"{self._title} has nothing to take: call accumulate() or apply_gradients() first, "
                "and trace functions that take after that."
            )
        required = self._num_micro_batches if num_required is None else num_required
        enough = tf.debugging.assert_greater_equal(
            tf.reduce_min([slot.accumulator.num_accumulated() for slot in slots]),
            required,
            message=f"{self._title} has fewer micro-batches than a take requires. Take a remainder "
            "with num_required=1.",
        )
        with tf.control_dependencies([] if enough is None else [enough]):
            return [slot.take(required) for slot in slots]

    @_not_converted
    def apply_gradients(self, optimizer: Any, gradients: Iterable[Gradient]) -> tf.Tensor:
        """Accumulates the gradients of a micro-batch, and updates the variables after the last one.

        Under a strategy, call it directly in the function that the strategy runs on replicas, not
        inside a ``tf.cond``, an ``if`` on a tensor or a nested ``tf.function``. It replaces
        ``optimizer.apply`` in a ``tf.cond``, which TensorFlow forbids in such a function.

        Args:
            optimizer: An optimizer of Keras or of TensorFlow 1. It counts updates, not
                micro-batches.
            gradients: The gradients, as in `accumulate`.

        Returns:
            True if the variables were updated: `[] bool`.

        Raises:
            TypeError: `optimizer` is no optimizer, or as in `accumulate`.
            ValueError: As in `accumulate`; or a variable was made outside of the scope of the
                strategy.
            RuntimeError: As in `accumulate`; or it is called where replicas cannot update
                variables together.
        """
        if not callable(getattr(optimizer, "apply_gradients", None)):
            raise TypeError(
                f"{self._title}: apply_gradients() expects an optimizer and a list of gradients, "
                f"got {type(optimizer).__name__} as the optimizer."
            )
        complete = self.accumulate(gradients)
        if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
            with tf.init_scope():  # Keras optimizers cannot make variables in a tf.cond.
                optimizer.build(list(self._variables))

        def update() -> Any:
            taken = replicas.without_repeated_rows(self.take())
            return optimizer.apply_gradients(list(zip(taken, self._variables, strict=True)))

        return self._call_if(complete, update)

    @_not_converted
    def num_accumulated(self) -> tf.Tensor:
        """Returns the number of micro-batches that this replica has accumulated: `[] int32`.

        Raises:
            RuntimeError: It is called outside of the function that the strategy runs, or in a
                function or graph that is made before the first `accumulate`.
        """
        slots = self._slots.get(self._replica())
        self._check_in_use(slots is not None, "num_accumulated")
        return tf.constant(0) if slots is None else slots[0].accumulator.num_accumulated()

    @_not_converted
    def reset(self) -> None:
        """Discards the gradients that all replicas of this process have accumulated.

        Raises:
            RuntimeError: It is called in a function or graph that is made before the first
                `accumulate`.
        """
        self._check_in_use(bool(self._slots), "reset")
        for slot in (slot for slots in self._slots.values() for slot in slots):
            slot.accumulator.reset(0)

    def _replica(self) -> int:
        """Returns the number of the replica that executes the calling function."""
        context, strategy = tf.distribute.get_replica_context(), replicas.own_strategy()
        expected = self._strategy
        if context is None:
            raise RuntimeError(
                f"{self._title} is used outside of a function that {replicas.described(strategy)} "
                "runs on replicas. Use it in the function that is passed to strategy.run."
            )
        # As long as there are no accumulators, another strategy may replace the default one.
        if strategy is not expected and (expected is not None or self._slots):
            another = "another " if type(strategy) is type(expected) else ""
            raise RuntimeError(
                f"{self._title} was made or first used under {replicas.described(expected)}, but "
                f"is now used under {another}{replicas.described(strategy)}. Use it in functions "
                "that are passed to strategy.run of the same strategy."
            )
        return int(tf.get_static_value(context.replica_id_in_sync_group))

    def _slots_of_replica(self, gradients: Sequence[Gradient]) -> list[Slot]:
        """Returns the accumulators of this replica, which its first gradients make."""
        replica = self._replica()
        if replica not in self._slots:
            # Error messages of the operations contain the names of the accumulators.
            names = [f"{self._name}/{_as_op_name(variable)}" for variable in self._variables]
            slots = replicas.make_slots(
                replica, names, self._variables, gradients, self._reduction_type
            )
            for position, slot in enumerate(slots):
                self._track_trackable(slot.accumulator, f"replica_{replica}_{position}")
            self._slots[replica], self._strategy = slots, replicas.own_strategy()
        return self._slots[replica]

    def _call_if(self, condition: tf.Tensor, update: Callable[[], Any]) -> tf.Tensor:
        """Calls a function that updates variables if a condition holds, and returns the condition.

        Under a strategy, replicas cannot communicate in a branch of ``tf.cond``. There the branch
        is built outside of the replicas, and runs the function on all of them.

        Args:
            condition: The condition, which is the same on all replicas: `[] bool`.
            update: The function. In a graph with sessions it returns the operation of the update.
        """

        def merged(strategy: tf.distribute.Strategy, conditions: Any) -> None:
            first = strategy.experimental_local_results(conditions)[0]
            try:
                _cond(first, lambda: strategy.run(update))
            except AssertionError as error:  # TensorFlow does not say what is wrong.
                self._check_scope(strategy, error)
                raise

        if not tf.distribute.has_strategy():
            return _cond(condition, update)
        try:
            tf.distribute.get_replica_context().merge_call(merged, args=(condition,))
        except RuntimeError as error:
            if _FROM_ANOTHER_GRAPH not in str(error):
                raise
            where = _ENCLOSING.get(type(v1.get_default_graph()).__name__, "a tf.function")
            strategy = replicas.described(replicas.own_strategy())
            raise RuntimeError(
                f"{self._title}: apply_gradients() is called inside {where} in a function that "
                f"{strategy} runs on replicas, where they cannot make an update together. Call it "
                "directly in the function that is passed to strategy.run: it updates only after "
                "the last micro-batch."
            ) from error
        return condition

    def _checked_variables(self, variables: Iterable[VariableLike]) -> list[VariableLike]:
        if _is_variable(variables) or not isinstance(variables, Iterable):
            raise TypeError(
                f"{self._title} expects a list of variables, got {type(variables).__name__}."
            )
        variables = list(variables)
        if not variables:
            raise ValueError(
                f"{self._title} expects at least one variable, got none. A Keras model has no "
                "variables before it is built."
            )
        for variable in variables:
            if not _is_variable(variable):
                raise TypeError(
                    f"{self._title} expects a list of variables, got {type(variable).__name__} in "
                    "it."
                )
        return variables

    def _checked_number(self, num_micro_batches: Any) -> int:
        try:
            number = operator.index(num_micro_batches)
        except TypeError:
            raise TypeError(
                f"{self._title} expects an integer num_micro_batches, got {num_micro_batches!r}."
            ) from None
        if number < 1:
            raise ValueError(
                f"{self._title} expects num_micro_batches of at least 1, got {number}."
            )
        return number

    def _checked(self, gradients: Iterable[Gradient]) -> list[Gradient]:
        """Converts gradients to tensors or ``tf.IndexedSlices``, and compares them with variables.

        Raises:
            TypeError: They are not in a list.
            ValueError: Their number, or the shape or the data type of one, is wrong, or one is
                None.
        """
        if tf.is_tensor(gradients) or not isinstance(gradients, Iterable):
            raise TypeError(
                f"{self._title} expects a list of gradients, got {type(gradients).__name__}."
            )
        gradients = list(gradients)
        if any(isinstance(one, tuple) and any(map(_is_variable, one)) for one in gradients):
            raise ValueError(
                f"{self._title} got pairs of gradients and variables. It has the variables: pass "
                "the gradients only."
            )
        if len(gradients) != len(self._variables):
            raise ValueError(
                f"{self._title} expects {len(self._variables)} gradients, one for each variable, "
                f"got {len(gradients)}. Pass the gradients of all variables, in their order. Was "
                "`trainable` of a Keras model changed after the accumulator was made?"
            )
        return list(map(self._checked_one, gradients, self._variables))

    def _checked_one(self, gradient: Gradient | None, variable: VariableLike) -> Gradient:
        if gradient is None:
            raise ValueError(
                f"{self._gradient_of(variable)} is None: the loss does not depend on this "
                "variable, or these are gradients of other variables. Leave a variable without "
                "gradients out of the variables of the GradientAccumulator."
            )
        is_sparse = isinstance(gradient, tf.IndexedSlices)
        values = gradient.values if is_sparse else tf.convert_to_tensor(gradient)
        dtype, shape = tf.as_dtype(variable.dtype), tf.TensorShape(variable.shape)
        if values.dtype != dtype:
            raise ValueError(
                f"{self._gradient_of(variable)} has dtype {values.dtype.name}, expected "
                f"{dtype.name}."
            )
        expected = tf.TensorShape([None]).concatenate(shape[1:]) if is_sparse else shape
        if not values.shape.is_compatible_with(expected):
            what = "values of shape" if is_sparse else "shape"
            raise ValueError(
                f"{self._gradient_of(variable)} has {what} {values.shape}, expected {expected}."
            )
        return gradient if is_sparse else values

    def _gradient_of(self, variable: VariableLike) -> str:
        return f"{self._title}: the gradient of variable '{_name_of(variable)}'"

    def _check_is_outside_replicas(self) -> None:
        """Checks that replicas make common updates, and that they can share this object."""
        strategy = tf.distribute.get_strategy()
        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            raise RuntimeError(
                f"{self._title} does not work under ParameterServerStrategy, whose workers make no "
                "common updates. Make a ConditionalAccumulator beside each variable."
            )
        if tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
            raise RuntimeError(
                f"{self._title} is made in a function that {type(strategy).__name__} runs on "
                "replicas, so each replica would have another one. Make it outside, such as in "
                "strategy.scope()."
            )

    def _check_not_compiled(self) -> None:
        if not tf.executing_eagerly() and is_compiled(v1.get_default_graph()):
            raise RuntimeError(
                f"{self._title} is used in a function that XLA compiles, but XLA has no "
                "accumulators. Leave out jit_compile=True, or set supports_jit = False in the "
                "class of a Keras model. A function that only computes the gradients may be "
                "compiled."
            )

    def _check_scope(self, strategy: tf.distribute.Strategy, cause: Exception) -> None:
        """Raises a ValueError for a variable that was made outside of the strategy's scope."""
        for variable in self._variables:
            wrapper: Any = variable  # A variable of Keras has one of TensorFlow as its value.
            of_tensorflow = variable if isinstance(variable, tf.Variable) else wrapper.value
            if not strategy.extended.variable_created_in_scope(of_tensorflow):
                raise ValueError(
                    f"{self._title}: variable '{_name_of(variable)}' was made outside of the scope "
                    f"of the {type(strategy).__name__} whose replicas update it. Make it in "
                    "strategy.scope()."
                ) from cause

    def _check_in_use(self, is_in_use: bool, method: str) -> None:
        """Checks that a function or graph that calls a method sees the accumulators.

        Raises:
            RuntimeError: There are no accumulators yet, and a function or graph is being made.
        """
        if not is_in_use and not tf.executing_eagerly():
            raise RuntimeError(
                f"{self._title}: {method}() is called in a function or graph that is made before "
                "the first accumulate(), so it would never see what is accumulated. Call "
                "accumulate() or apply_gradients() first."
            )


def _cond(condition: tf.Tensor, update: Callable[[], Any]) -> tf.Tensor:
    def updated() -> tf.Tensor:
        operation = update()
        with tf.control_dependencies([operation] if isinstance(operation, tf.Operation) else []):
            return tf.constant(True)

    return tf.cond(condition, updated, lambda: tf.constant(False))


def _name_of(variable: Any) -> str:
    """Returns the name of a variable of TensorFlow, or the path of one of Keras."""
    return getattr(variable, "path", None) or variable.name


def _as_op_name(variable: VariableLike) -> str:
    """Returns the name of a variable without characters that names of operations cannot have."""
    return re.sub(r"[^\w./-]", "_", _name_of(variable).removesuffix(":0"))


def _is_variable(value: Any) -> bool:
    return all(hasattr(value, attribute) for attribute in ("assign", "dtype", "shape"))
