"""Accumulation of the gradients of several micro-batches into one update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.trackable.base import Trackable

from tf_condacc._accumulators import gradient_checks, micro_batches
from tf_condacc._accumulators.micro_batches import Slot
from tf_condacc._typing import TensorLike

# AutoGraph need not convert this module: its conditions are Python values.
_not_converted = tf.autograph.experimental.do_not_convert


class GradientAccumulator(Trackable):
    """Accumulates the gradients of several micro-batches, which then make one update.

    The object has a dense or sparse accumulator for each variable. Gradients of embeddings, which
    are ``tf.IndexedSlices``, stay sparse. The step of the accumulators needs no attention: no
    gradient is ever stale. It works eagerly, in ``tf.function`` and in graphs with sessions.

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
        variables: Sequence[Any],
        num_micro_batches: int,
        reduction_type: str = "MEAN",
        name: str = "gradient_accumulator",
    ) -> None:
        self._variables = gradient_checks.checked_variables(variables, name)
        self._num_micro_batches = gradient_checks.checked_number(num_micro_batches, name)
        gradient_checks.check_construction(reduction_type, name)
        self._reduction_type = reduction_type
        self._name = name
        self._strategy = micro_batches.own_strategy()
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
    def accumulate(self, gradients: Sequence[Any]) -> tf.Tensor:
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
        gradient_checks.check_not_compiled(self._name)
        gradients = gradient_checks.checked(gradients, self._variables, self._name)
        slots = self._slots_of_replica(gradients)
        are_dense = [slot.is_dense for slot in slots]
        gradient_checks.check_kinds(gradients, are_dense, self._variables, self._name)
        # Dense gradients are known to be right. They count only if the sparse ones are right, too.
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
    def take(self, num_required: TensorLike | None = None) -> list[tf.Tensor | tf.IndexedSlices]:
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
    def apply_gradients(self, optimizer: Any, gradients: Sequence[Any]) -> tf.Tensor:
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
        gradient_checks.check_optimizer(optimizer, self._name)
        complete = self.accumulate(gradients)
        micro_batches.build(optimizer, self._variables)

        def update() -> Any:
            taken = micro_batches.without_repeated_rows(self.take())
            return optimizer.apply_gradients(list(zip(taken, self._variables, strict=True)))

        return micro_batches.call_if(complete, update, self._variables, self._name)

    @_not_converted
    def num_accumulated(self) -> tf.Tensor:
        """Returns the number of micro-batches that this replica has accumulated: `[] int32`.

        Raises:
            RuntimeError: It is called outside of the function that the strategy runs, or in a
                function or graph that is made before the first `accumulate`.
        """
        slots = self._slots.get(self._replica())
        gradient_checks.check_in_use(slots is not None, self._name, "num_accumulated")
        return tf.constant(0) if slots is None else slots[0].accumulator.num_accumulated()

    @_not_converted
    def reset(self) -> None:
        """Discards the gradients that all replicas of this process have accumulated.

        Raises:
            RuntimeError: It is called in a function or graph that is made before the first
                `accumulate`.
        """
        gradient_checks.check_in_use(bool(self._slots), self._name, "reset")
        for slot in (slot for slots in self._slots.values() for slot in slots):
            slot.accumulator.reset(0)

    @property
    def _title(self) -> str:
        return f"GradientAccumulator '{self._name}'"

    def _replica(self) -> int:
        return micro_batches.replica(self._name, self._strategy, is_in_use=bool(self._slots))

    def _slots_of_replica(self, gradients: Sequence[Any]) -> list[Slot]:
        """Returns the accumulators of this replica, which its first gradients make."""
        replica = self._replica()
        if replica not in self._slots:
            slots = micro_batches.make_slots(
                self._variables, gradients, self._reduction_type, replica, self._name
            )
            for position, slot in enumerate(slots):
                self._track_trackable(slot.accumulator, f"replica_{replica}_{position}")
            self._slots[replica], self._strategy = slots, micro_batches.own_strategy()
        return self._slots[replica]
