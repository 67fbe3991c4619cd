"""Accumulation of the gradients of several micro-batches into one update."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._accumulators import replicas
from tf_condacc._accumulators.gradient_checks import (
    checked_gradients,
    checked_number,
    checked_variables,
    checked_weight,
    gradient_title,
    name_of,
)
from tf_condacc._accumulators.replica_updates import update_if
from tf_condacc._accumulators.replicas import Slot, WeightSum
from tf_condacc._tensorflow import Trackable, is_compiled
from tf_condacc._typing import Gradient, TensorLike, VariableLike

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
    The result equals that of one batch that consists of the micro-batches of all replicas, if these
    are of equal size. If they are not, give each the number of its examples, or of its tokens, as a
    weight: with the gradients ``g`` and weights ``w``, an update is then made from
    ``sum(w * g) / sum(w)``, in which a micro-batch without a weight counts as 1. Under a strategy
    the sums are those of all replicas.

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
        reduction_type: "MEAN" for the mean over the micro-batches, or "SUM". "MEAN" divides all
            gradients by the number of micro-batches, or by the sum of their weights: each row of a
            sparse gradient, too, whether or not all micro-batches have it. That is "GLOBAL_MEAN"
            of `SparseConditionalAccumulator`, whose own "MEAN" divides a row by the number of
            gradients that have it. "SUM" does not divide: ``sum(g)``, or ``sum(w * g)``.
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
        self._variables = checked_variables(self._title, variables)
        self._num_micro_batches = checked_number(self._title, num_micro_batches)
        if reduction_type not in ("MEAN", "SUM"):
            raise ValueError(
                f"{self._title} expects reduction_type 'MEAN' or 'SUM', got {reduction_type!r}."
            )
        self._reduction_type = reduction_type
        self._check_is_outside_replicas()
        self._strategy = replicas.own_strategy()
        # The keys are the numbers of the replicas.
        self._slots: dict[int, list[Slot]] = {}
        self._weights: dict[int, WeightSum] = {}  # Empty as long as no weight was given.
        self._is_traced_without_weights = False

    @property
    def name(self) -> str:
        """The name of the object."""
        return self._name

    @property
    def num_micro_batches(self) -> int:
        """The number of micro-batches that make an update."""
        return self._num_micro_batches

    @_not_converted
    def accumulate(
        self, gradients: Iterable[Gradient], weight: TensorLike | None = None
    ) -> tf.Tensor:
        """Accumulates the gradients of one micro-batch.

        Under a strategy it is called in the function that the strategy runs on replicas.

        Args:
            gradients: The gradient of each variable, in the order of the variables: a tensor or
                ``tf.IndexedSlices``. Tensors first, ``tf.IndexedSlices`` later is allowed; the
                reverse raises ValueError.
            weight: Weight of the micro-batch, such as the number of its examples of which the loss
                is the mean: `[]`, a real number. None counts as 1. A micro-batch of weight 0 counts
                as one of the micro-batches and adds zeros, even if its gradients are not finite. If
                all weights are 0, the mean is 0.

        Returns:
            True if the gradients of enough micro-batches are accumulated for a take: `[] bool`.

        Raises:
            TypeError: `gradients` is no list, or `weight` is no real number.
            ValueError: There are more or fewer gradients than variables, one is None, or one has
                another shape or data type than its variable; or `weight` is not a scalar, or a
                variable with a weighted gradient is of an integer type. Nothing was accumulated.
            RuntimeError: It is called outside of the function that the strategy runs, or in a
                function that XLA compiles; or the first weight is given after a function was traced
                that takes gradients without dividing by weights.
            tf.errors.InvalidArgumentError: `weight` is negative, infinite or not a number. This
                replica has accumulated nothing.
            tf.errors.InvalidArgumentError: ``tf.IndexedSlices`` have an index that their variable
                does not have, or a shape that is unknown at tracing is wrong. Other gradients may
                have been accumulated; `reset` discards them.
        """
        self._check_not_compiled()
        gradients = checked_gradients(self._title, gradients, self._variables)
        weight = checked_weight(self._title, weight, self._variables)
        slots = self._slots_of_replica(gradients)
        for gradient, slot, variable in zip(gradients, slots, self._variables, strict=True):
            if not slot.is_dense and not isinstance(gradient, tf.IndexedSlices):
                raise ValueError(
                    f"{gradient_title(self._title, variable)} is a tensor, expected "
                    "tf.IndexedSlices as in the first micro-batch."
                )
        weights = None if weight is None else self._weights_of_replica()
        # The dense gradients have been checked. They are applied after the sparse gradients, whose
        # indices are checked only when they are applied.
        checked: list[tf.Tensor] = []
        applied: list[tf.Tensor] = []
        for gradient, slot in sorted(
            zip(gradients, slots, strict=True), key=lambda x: x[1].is_dense
        ):
            with tf.control_dependencies(checked):
                applied.append(slot.apply(gradient, weight))
            if not slot.is_dense:
                checked = applied[-1:]
        if weights is not None:
            with tf.control_dependencies(checked):
                applied.append(weights.add(weight))
        with tf.control_dependencies(applied):
            return slot.accumulator.num_accumulated() >= self._num_micro_batches

    @_not_converted
    def take(self, num_required: TensorLike | None = None) -> list[Gradient]:
        """Takes the mean, or the sum, of the gradients that this replica has accumulated.

        Under a strategy this is the part of one replica, and the sum over the replicas is the mean
        gradient. If weights were given, replicas communicate to divide by the sum of all weights.

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
        replica = self._replica()
        slots = self._slots.get(replica)
        if slots is None:
            raise RuntimeError(
                f"{self._title} has nothing to take: call accumulate() or apply_gradients() first, "
                "and trace functions that take after that."
            )
        required = self._num_micro_batches if num_required is None else num_required
        num_accumulated = tf.reduce_min([slot.accumulator.num_accumulated() for slot in slots])
        enough = tf.debugging.assert_greater_equal(
            num_accumulated,
            required,
            message=f"{self._title} has fewer micro-batches than a take requires. Take a remainder "
            "with num_required=1.",
        )
        with tf.control_dependencies([] if enough is None else [enough]):
            factor = self._factor_of_means(replica, num_accumulated)
        with tf.control_dependencies([x for x in (enough, factor) if x is not None]):
            return [slot.take(required, factor) for slot in slots]

    @_not_converted
    def apply_gradients(
        self, optimizer: Any, gradients: Iterable[Gradient], *, weight: TensorLike | None = None
    ) -> tf.Tensor:
        """Accumulates the gradients of a micro-batch, and updates the variables after the last one.

        Under a strategy, call it directly in the function that the strategy runs on replicas, not
        inside a ``tf.cond``, an ``if`` on a tensor or a nested ``tf.function``. It replaces
        ``optimizer.apply`` in a ``tf.cond``, which TensorFlow forbids in such a function.

        Args:
            optimizer: An optimizer of Keras or of TensorFlow 1. It counts updates, not
                micro-batches.
            gradients: The gradients, as in `accumulate`.
            weight: Weight of the micro-batch, as in `accumulate`: `[]`.

        Returns:
            True if the variables were updated: `[] bool`.

        Raises:
            TypeError: `optimizer` is no optimizer, or as in `accumulate`.
            ValueError: As in `accumulate`; or a variable was made outside of the scope of the
                strategy.
            RuntimeError: As in `accumulate`; or it is called where replicas cannot update
                variables together.
            tf.errors.InvalidArgumentError: As in `accumulate`.
        """
        if not callable(getattr(optimizer, "apply_gradients", None)):
            raise TypeError(
                f"{self._title}: apply_gradients() expects an optimizer and a list of gradients, "
                f"got {type(optimizer).__name__} as the optimizer."
            )
        complete = self.accumulate(gradients, weight)
        if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
            with tf.init_scope():  # Keras optimizers cannot make variables in a tf.cond.
                optimizer.build(list(self._variables))

        def update() -> Any:
            taken = replicas.without_repeated_rows(self.take())
            return optimizer.apply_gradients(list(zip(taken, self._variables, strict=True)))

        return update_if(self._title, complete, update, self._variables)

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
        for weights in self._weights.values():
            weights.accumulator.reset(0)

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

    def _weights_of_replica(self) -> WeightSum | None:
        """Returns the weights of this replica, which its first weight makes; None for sums."""
        replica = self._replica()
        if self._reduction_type == "MEAN" and replica not in self._weights:
            if self._is_traced_without_weights:
                raise RuntimeError(
                    f"{self._title}: the first weight is given after a function was traced that "
                    "takes gradients, which would not divide by weights. Give weights in the "
                    "first function that is traced; a micro-batch without one has weight=1.0."
                )
            weights = WeightSum(f"{self._name}/weights", replica)
            self._track_trackable(weights.accumulator, f"replica_{replica}_weights")
            self._weights[replica] = weights
        return self._weights.get(replica)

    def _factor_of_means(self, replica: int, num_accumulated: tf.Tensor) -> tf.Tensor | None:
        """Takes the weights, and returns the factor of the replica's means; None for 1."""
        weights = self._weights.get(replica)
        if weights is not None:
            return weights.take_factor(num_accumulated)
        self._is_traced_without_weights |= not tf.executing_eagerly()
        return None

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


def _as_op_name(variable: VariableLike) -> str:
    """Returns the name of a variable without characters that names of operations cannot have."""
    return re.sub(r"[^\w./-]", "_", name_of(variable).removesuffix(":0"))
