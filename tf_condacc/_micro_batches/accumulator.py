"""Accumulation of the gradients of several micro-batches into one update."""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Iterable
from typing import Any, NoReturn

import tensorflow as tf

from tf_condacc._micro_batches.checks import (
    Checks,
    NumMicroBatches,
    checked_variables,
    of_tensorflow,
)
from tf_condacc._micro_batches.replicas import (
    MicroBatch,
    Positions,
    Replica,
    ReplicaAccumulators,
    positions_of,
)
from tf_condacc._micro_batches.state import GradientAccumulatorState
from tf_condacc._micro_batches.updates import Update
from tf_condacc._tensorflow import Trackable, last_restore, not_converted
from tf_condacc._typing import Gradient, TensorLike, VariableLike

_LOG = logging.getLogger("tf_condacc")
_STATE = "state"  # The name of the child that has the state.


class GradientAccumulator(Trackable):
    """Accumulates the gradients of several micro-batches, which then make one update.

    The object has a dense or sparse accumulator for each variable. Gradients of embeddings, which
    are ``tf.IndexedSlices``, stay sparse. The accumulators' steps need not be set: no gradient is
    ever stale. It works eagerly, in ``tf.function`` and in graphs with sessions. Calls must follow
    one another: threads that call at the same time may mix up their updates.

    Under a ``tf.distribute.Strategy``, each replica accumulates its own gradients, on its device,
    and the optimizer adds up the replicas' means in each update as it does without accumulation.
    Scale the loss as you would without accumulation: divide your own loss by
    ``strategy.num_replicas_in_sync``, not by `num_micro_batches`. Keras losses are already divided.
    The result equals that of one batch that consists of the micro-batches of all replicas, if these
    are of equal size. If they are not, give each the number of its examples, or of its tokens, as a
    weight: with the gradients ``g`` and weights ``w``, an update is then made from
    ``sum(w * g) / sum(w)``, in which a micro-batch without a weight counts as 1. Under a strategy
    the sums are those of all replicas. A micro-batch of weight 0 counts as one of the micro-batches
    and adds zeros, even if its gradients are not finite. If all weights are 0, the mean is 0. Each
    gradient is multiplied by the weight in its own data type.

    Each replica adds its gradients in the order of the calls, so its result has the same bits in
    each run. It is the strategy that adds up the replicas' results.

    ``tf.train.Checkpoint`` saves and restores what is accumulated, eagerly also into an object that
    has not accumulated yet. If the strategy has several workers, all of them must save the
    checkpoint, because the state in it is that of all. SavedModels contain no gradients, and
    ``copy.deepcopy`` makes an object that is empty.

    If a ``tf.train.Checkpoint`` restores the variables and not this object, an eager call discards
    what was accumulated before, as by `reset`, and a warning is logged. An object that has been
    used in a ``tf.function`` or a graph does not notice it, not even in later eager calls. Nor does
    it notice values that come from a file of weights or a Saver. Call `reset` then.

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
            the data types of the gradients. The gradients of a variable that comes several times
            are added up.
        num_micro_batches: Number of micro-batches that make an update. Or a function that gets the
            number of updates so far, in which each take counts, and returns this number. In a
            function or graph both are tensors, `[]`.
        reduction_type: "MEAN" for the mean over the micro-batches, or "SUM". "MEAN" divides all
            gradients by the number of micro-batches, or by the sum of their weights: each row of a
            sparse gradient, too, whether or not all micro-batches have it. That is "GLOBAL_MEAN"
            of `SparseConditionalAccumulator`, whose own "MEAN" divides a row by the number of
            gradients that have it. "SUM" does not divide: ``sum(g)``, or ``sum(w * g)``.
        name: Name of the object, for its operations and error messages.
        skip_non_finite: Whether to drop a micro-batch if any of its gradients has a NaN or an
            infinity, instead of accumulating it. All gradients are checked before any is
            accumulated. All replicas drop the micro-batch if one of them has such a gradient.
            `num_skipped` counts what was dropped. An optimizer that scales the loss, such as
            ``keras.optimizers.LossScaleOptimizer``, skips updates itself and is refused.

    Raises:
        TypeError: `variables` is not a list of variables, or `num_micro_batches` is neither an
            integer nor a function.
        ValueError: There are no variables, `num_micro_batches` is lower than 1, or `reduction_type`
            is neither "MEAN" nor "SUM".
        RuntimeError: The object is made in a function that a strategy runs on replicas, or under a
            parameter server strategy, whose workers do not make common updates.
    """

    def __init__(
        self,
        variables: Iterable[VariableLike],
        num_micro_batches: int | NumMicroBatches,
        reduction_type: str = "MEAN",
        name: str = "gradient_accumulator",
        skip_non_finite: bool = False,
    ) -> None:
        self._name = name
        self._title = f"GradientAccumulator '{name}'"  # Error messages begin with it.
        self._checks = Checks(self._title, checked_variables(self._title, variables))
        self._variables = self._checks.variables
        self._num_micro_batches = self._checks.number(num_micro_batches)
        if reduction_type not in ("MEAN", "SUM"):
            raise ValueError(
                f"{self._title} expects reduction_type 'MEAN' or 'SUM', got {reduction_type!r}."
            )
        self._skips_non_finite = bool(skip_non_finite)
        self._replicas = ReplicaAccumulators(self._checks, name, reduction_type)
        self._track_parts()
        self._last_restores: list[int] | None = self._read_last_restores()

    def _track_parts(self) -> None:
        state = GradientAccumulatorState(self._replicas, self._title)
        self._track_trackable(self._replicas, "replicas")
        self._track_trackable(state, _STATE)

    @property
    def name(self) -> str:
        """The name of the object."""
        return self._name

    @property
    def variables(self) -> list[Any]:
        """The variables, each of them once, in the order of what is taken."""
        return list(self._variables)

    @property
    def num_micro_batches(self) -> int | NumMicroBatches:
        """The number of micro-batches that make an update, or the function that returns it."""
        return self._num_micro_batches

    @not_converted
    def accumulate(
        self, gradients: Iterable[Gradient | None], weight: TensorLike | None = None
    ) -> tf.Tensor:
        """Accumulates the gradients of one micro-batch.

        Under a strategy, call it in the function that the strategy runs on replicas.

        Args:
            gradients: The gradient of each variable, in the order of the variables: a tensor,
                ``tf.IndexedSlices``, or None, which counts as zeros. A variable may have all of
                them in turn. `take` returns ``tf.IndexedSlices`` if the variable's first gradient
                was, or if it was None and a later one was.
            weight: Weight of the micro-batch, such as the number of examples over which its loss
                is a mean: `[]`, a real number. None counts as 1.

        Returns:
            True if enough micro-batches are accumulated for a take: `[] bool`. A micro-batch that
            `skip_non_finite` drops does not count.

        Raises:
            TypeError: `gradients` is not a list, or `weight` is not a real number.
            ValueError: There are more or fewer gradients than variables, all are None, or one has
                another shape or data type than its variable; or `weight` is not a scalar, or a
                variable with a weighted gradient is of an integer type. Nothing was accumulated.
            RuntimeError: It is called outside of the function that the strategy runs, in a function
                that XLA compiles, or in a method of the optimizer that makes its update; or the
                first weight is given after a function was traced that takes gradients without
                dividing by weights.
            tf.errors.InvalidArgumentError: `weight` is negative, infinite or not a number. This
                replica has accumulated nothing.
            tf.errors.InvalidArgumentError: ``tf.IndexedSlices`` have an index that their variable
                does not have, or a shape that is unknown at tracing is wrong. Other gradients may
                have been accumulated; `reset` discards them.
        """
        micro_batch = self._checked_micro_batch(gradients, weight)
        with tf.control_dependencies(micro_batch.apply()):
            required = self._num_required(micro_batch.replica)
            return micro_batch.replica.first.num_accumulated() >= required

    @not_converted
    def take(self, num_required: TensorLike | None = None) -> list[Gradient | None]:
        """Takes the mean, or the sum, of the gradients that this replica has accumulated.

        Under a strategy this is the part of one replica, and the sum over the replicas is the mean
        gradient. If weights were given, replicas communicate to divide by the sum of all weights.

        Args:
            num_required: Number of micro-batches that the take requires: `[] int32`. By default
                those of a whole update. With 1, it takes a remainder at the end of the data, whose
                mean is that of the remaining micro-batches.

        Returns:
            A gradient for each variable: a tensor, or ``tf.IndexedSlices`` with unique ascending
            indices if the gradients of the variable were ``tf.IndexedSlices``. If they were None in
            all of these micro-batches, it is None, as ``tf.GradientTape`` returns it, or zeros in a
            function or graph, where that is not known.

        Raises:
            RuntimeError: Nothing was accumulated yet, or it is called outside of the function that
                the strategy runs.
            tf.errors.InvalidArgumentError: There are not enough micro-batches. Nothing was taken.
        """
        self._discard_if_only_variables_are_restored()
        replica = self._replicas.of_this_replica()
        if replica is None:
            raise RuntimeError(
                f"{self._title} has nothing to take: call accumulate() or apply_gradients() first, "
                "and trace functions that take after that."
            )
        required = self._num_required(replica) if num_required is None else num_required
        gradients, is_absent = replica.take(required)
        absent = positions_of(is_absent().numpy()) if tf.executing_eagerly() else Positions()
        return [
            None if position in absent else gradient
            for position, gradient in enumerate(self._replicas.as_given(gradients))
        ]

    @not_converted
    def apply_gradients(
        self,
        optimizer: Any,
        gradients: Iterable[Gradient | None],
        *,
        weight: TensorLike | None = None,
        clipnorm: TensorLike | None = None,
        global_clipnorm: TensorLike | None = None,
        clipvalue: TensorLike | None = None,
        **arguments: Any,
    ) -> tf.Tensor:
        """Accumulates the gradients of a micro-batch, and updates the variables after the last one.

        Under a strategy, call it directly in the function that the strategy runs on replicas, not
        inside a ``tf.cond``, an ``if`` on a tensor or a nested ``tf.function``. It replaces
        ``optimizer.apply`` in a ``tf.cond``, which TensorFlow forbids in such a function.

        All three limits apply to the mean, or sum, over the micro-batches of all replicas, after
        the repeated rows of sparse gradients have been summed.

        Args:
            optimizer: An optimizer of Keras or of TensorFlow 1. It counts updates, not
                micro-batches. If it clips gradients itself, it clips the mean of all replicas. If
                it scales the loss, the limits below are those of unscaled gradients.
            gradients: The gradients, as in `accumulate`. A gradient that is None counts as zeros,
                but a variable whose gradients are None in all micro-batches of an update is left
                out, so that its momentum and its weight decay rest. A function or graph leaves out
                the sets of variables that have been None together before it was traced, and their
                intersections, up to seven. Other sets, and all of them under a strategy with
                several workers, count as zeros, and a warning names the variables.
            weight: Weight of the micro-batch, as in `accumulate`: `[]`.
            clipnorm: The mean gradient of each variable is scaled down so that its L2 norm does
                not exceed this number: `[]`.
            global_clipnorm: All gradients are scaled down by the same factor so that their common
                L2 norm does not exceed this number: `[]`.
            clipvalue: Elements are limited to at least ``-clipvalue`` and at most ``clipvalue``:
                `[]`.
            **arguments: Passed to ``optimizer.apply_gradients`` in each update: for example
                `global_step`, which an optimizer of TensorFlow 1 increments.

        Returns:
            True if the variables were updated: `[] bool`.

        Raises:
            TypeError: `optimizer` is not an optimizer; an argument is called `clip_norm`,
                `global_clip_norm` or `clip_value`; or as in `accumulate`.
            ValueError: As in `accumulate`; or more than one kind of clipping is given, or a limit
                is not a scalar; or the optimizer has ``gradient_accumulation_steps``, or scales the
                loss although `skip_non_finite` is set; or a variable was made outside of the scope
                of the strategy.
            RuntimeError: As in `accumulate`; or it is called where replicas cannot update
                variables together.
            tf.errors.InvalidArgumentError: As in `accumulate`; or a limit is not above 0; or
                variables have been given different numbers of gradients, because a step has failed.
                `reset` begins anew.

        If the computation of a gradient fails, variables whose gradients were computed before may
        have been updated, as without accumulation.
        """
        self._checks.optimizer(optimizer, self._skips_non_finite)
        clipping = self._checks.clipping(clipnorm, global_clipnorm, clipvalue, arguments)
        micro_batch = self._checked_micro_batch(gradients, weight)
        first, required = micro_batch.replica.first, self._num_required(micro_batch.replica)
        update = functools.partial(
            Update, self._replicas, self._checks, optimizer, clipping, arguments, micro_batch.absent
        )
        if tf.distribute.has_strategy():
            with tf.control_dependencies(micro_batch.apply()):
                complete = first.num_accumulated() >= required
            return update(functools.partial(self._replicas.take, required)).make_if(complete)
        # Unless micro-batches can be skipped, it is known before the gradients are computed whether
        # this one completes an update. So the gradients that an optimizer does not need together
        # update their variables as soon as they are computed.
        complete = first.num_accumulated() + micro_batch.num_added() >= required
        take = functools.partial(micro_batch.apply_and_take, required)
        return update(take).make_if(complete, otherwise=micro_batch.apply)

    @not_converted
    def apply_remainder(
        self,
        optimizer: Any,
        *,
        clipnorm: TensorLike | None = None,
        global_clipnorm: TensorLike | None = None,
        clipvalue: TensorLike | None = None,
        **arguments: Any,
    ) -> tf.Tensor:
        """Updates the variables from micro-batches that are too few for an update, if any are left.

        Call it at the end of the data. The mean is that of the remaining micro-batches. Under a
        strategy, call it where `apply_gradients` may be called. Arguments and errors are those of
        `apply_gradients`.

        Returns:
            True if the variables were updated: `[] bool`.

        Raises:
            RuntimeError: It is called in a function or graph that is made before the first
                `accumulate`; or as in `apply_gradients`.
        """
        self._checks.optimizer(optimizer, self._skips_non_finite)
        clipping = self._checks.clipping(clipnorm, global_clipnorm, clipvalue, arguments)
        self._discard_if_only_variables_are_restored()
        replica = self._replicas.of_this_replica()
        self._checks.in_use(replica is not None, "apply_remainder")
        if replica is None:
            return tf.constant(False)
        is_left = replica.first.num_accumulated() > 0
        all_positions = Positions(range(len(self._variables)))
        take = functools.partial(self._replicas.take, 1)
        update = Update(
            self._replicas, self._checks, optimizer, clipping, arguments, all_positions, take
        )
        return update.make_if(is_left)

    @not_converted
    def num_accumulated(self) -> tf.Tensor:
        """Returns the number of accumulated micro-batches: `[] int32`.

        It is the same on all replicas, and can also be called outside the functions that the
        strategy runs on them.

        Raises:
            RuntimeError: It is called under another strategy, or in a function or graph that is
                made before the first `accumulate`.
        """
        self._discard_if_only_variables_are_restored()
        replica = self._replicas.of_any_replica()
        self._checks.in_use(replica is not None, "num_accumulated")
        return tf.constant(0) if replica is None else replica.first.num_accumulated()

    @not_converted
    def num_skipped(self) -> tf.Tensor:
        """Returns the number of micro-batches that `skip_non_finite` has dropped: `[] int64`.

        `reset` does not change it. It can be called where `num_accumulated` can.

        Raises:
            RuntimeError: As in `num_accumulated`.
        """
        replica = self._replicas.of_any_replica()
        self._checks.in_use(replica is not None, "num_skipped")
        zero = tf.constant(0, tf.int64)
        return zero if replica is None else replica.first.num_dropped()

    @not_converted
    def reset(self) -> tf.Operation | None:
        """Discards the gradients that all replicas of this process have accumulated.

        Returns:
            The operation that does so, for a session to run; None eagerly and in functions.

        Raises:
            RuntimeError: It is called in a function or graph that is made before the first
                `accumulate`.
        """
        self._checks.in_use(self._replicas.of_first_replica() is not None, "reset")
        return self._replicas.reset()

    def __deepcopy__(self, memo: dict[int, Any]) -> GradientAccumulator:
        """Returns an empty accumulator for copies of the variables."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        for name, value in vars(self).items():
            if name != "_replicas" and not name.startswith("_self_"):  # Trackable's own attributes.
                copied.__dict__[name] = copy.deepcopy(value, memo)
        copied._replicas = self._replicas.emptied(copied._checks)
        copied._track_parts()
        return copied

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuses to be pickled, with a TypeError."""
        raise TypeError(
            f"{self._title} cannot be pickled, because the gradients that it has accumulated "
            "belong to this process. Save the variables, and make another GradientAccumulator for "
            "the loaded ones. copy.deepcopy makes one that is empty."
        )

    def _trackable_children(self, save_type: str = "checkpoint", **arguments: Any) -> Any:
        """Returns the accumulators for SavedModels, and the state for checkpoints."""
        children = dict(super()._trackable_children(save_type, **arguments))
        state = children.pop(_STATE)
        return {_STATE: state} if save_type == "checkpoint" else children

    def _discard_because(self, reason: str) -> None:
        """Discards what is accumulated, because other weights take the place of the variables'."""
        replica = self._replicas.of_first_replica()
        if replica is None or not tf.executing_eagerly():
            return
        number = int(replica.first.num_accumulated())
        if number > 0:
            text = "%s discards %d accumulated micro-batches, because %s."
            _LOG.warning(text, self._title, number, reason)
            self._replicas.reset()

    def _read_last_restores(self) -> list[int]:
        """Returns the last restores of the state and of the variables.

        A variable of Keras 3 and the one of TensorFlow that it contains are restored apart.
        """
        inner = map(of_tensorflow, self._variables)
        parts = (self._lookup_dependency(_STATE), *self._variables, *inner)
        return [*map(last_restore, parts)]

    def _discard_if_only_variables_are_restored(self) -> None:
        """Discards what was accumulated before a restore of variables that did not replace it.

        Each eager call looks for such a restore since the call before. Once a function has used the
        object, it is not known any more which gradients came before a restore.
        """
        if not tf.executing_eagerly():
            self._last_restores = None
        if (before := self._last_restores) is None:
            return
        self._last_restores = now = self._read_last_restores()
        if now[0] == before[0] and now != before:
            self._discard_because("its variables were restored from a checkpoint, and it was not")

    def _num_required(self, replica: Replica) -> int | tf.Tensor:
        """Returns how many micro-batches the next update has: `[] int32`."""
        return self._checks.number_of(self._num_micro_batches, replica.first.global_step)

    def _checked_micro_batch(
        self, gradients: Iterable[Gradient | None], weight: TensorLike | None
    ) -> MicroBatch:
        """Returns a micro-batch of checked gradients, and makes the accumulators if need be."""
        self._checks.not_compiled()
        gradients, weight = self._checks.gradients(gradients), self._checks.weight(weight)
        self._discard_if_only_variables_are_restored()
        return self._replicas.micro_batch(gradients, weight, self._skips_non_finite)

    def _counts(self) -> tuple[int, int, int]:
        """Returns how many updates, further micro-batches and skipped ones there were, eagerly."""
        replica = self._replicas.of_first_replica()
        if replica is None:
            return 0, 0, 0
        first = replica.first
        return int(first.global_step()), int(first.num_accumulated()), int(first.num_dropped())
