"""The sums of the gradients of micro-batches, on all replicas of a strategy."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_condacc._accumulators.base import TryTakeResult
from tf_condacc._accumulators.dense import ConditionalAccumulator
from tf_condacc._accumulators.sparse import SparseConditionalAccumulator
from tf_condacc._accumulators.weights import multiplied
from tf_condacc._micro_batches.checks import Checks, dtype_of, name_of, of_tensorflow
from tf_condacc._micro_batches.gradients import (
    is_any_not_finite,
    multiplied_all,
    values_of,
    with_values,
)
from tf_condacc._micro_batches.strategies import (
    described,
    device_of,
    explaining_graphs,
    has_other_workers,
    own_strategy,
)
from tf_condacc._ops.host import arguments_on_host, host_int32, host_int64
from tf_condacc._ops.native import lowest_num_accumulated, ops
from tf_condacc._tensorflow import Trackable
from tf_condacc._typing import Gradient, TensorLike, VariableLike

_LOG = logging.getLogger("tf_condacc")

Positions = frozenset[int]  # The positions of some of the variables of a GradientAccumulator.

# For each replica, by its number: which accumulators are sparse, which variables have had slices,
# and whether there are weights. It is a part of checkpoints, as JSON.
Layout = Mapping[int, Mapping[str, Any]]

_NEVER_STALE = tf.int64.max  # No accumulator's step is higher than this local step.
_ALWAYS_STALE = tf.int64.min  # Every accumulator's step is higher.
_MOST_BRANCHES = 8  # Each branch of a graph has a whole update.
_MOST_SETS = 64
_MOST_NAMES = 4


class _FoldingAccumulator(ConditionalAccumulator):
    """An accumulator that holds no gradients except the sum and the last one.

    A forward and a backward pass lie between two micro-batches, so gradients that are held back for
    the next one only take memory.
    """

    _ATTRIBUTES = {"holds": False}
    _HAS_FIXED_ORDER = True


class _SparseAccumulator(SparseConditionalAccumulator):
    """An accumulator of the sparse gradients of one replica."""

    _HAS_FIXED_ORDER = True


@dataclass
class VariableSum:
    """The accumulator of one variable on one replica.

    Attributes:
        accumulator: The accumulator.
        name: Its name, for error messages.
        variable: The variable.
        has_slices: Whether a gradient of the variable has been ``tf.IndexedSlices``.
    """

    accumulator: ConditionalAccumulator | SparseConditionalAccumulator
    name: str
    variable: VariableLike
    has_slices: bool = False

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the variable."""
        return tf.TensorShape(self.variable.shape)

    @property
    def is_dense(self) -> bool:
        """True if the accumulator is a dense one."""
        return isinstance(self.accumulator, ConditionalAccumulator)

    def apply(self, gradient: Gradient | None, step: tf.Tensor) -> tf.Tensor:
        """Applies a gradient, and returns the outcome, a `tf_condacc.ApplyOutcome`: `[] int32`.

        Args:
            gradient: The gradient; None for zeros, or for no rows.
            step: The local step; see `local_step`.
        """
        if isinstance(self.accumulator, SparseConditionalAccumulator):
            slices = self._as_slices(gradient)
            rows = {"indices": slices.indices, "shape": slices.dense_shape}
            return self.accumulator._outcome(slices.values, step, **rows)
        return self.accumulator._outcome(self._as_tensor(gradient), step)

    def take(self, num_required: TensorLike, factor: tf.Tensor | None) -> Gradient:
        """Takes what is accumulated. It has been checked that this is enough.

        Args:
            num_required: Number of micro-batches that are enough: `[] int32`.
            factor: Factor of the result: `[] float64`; None for 1.
        """
        if isinstance(self.accumulator, ConditionalAccumulator):
            taken = self.accumulator.try_take_grad(num_required).value
        else:
            taken = self.accumulator.try_take_indexed_slices_grad(num_required).value
            taken.values.set_shape([None, *self.shape[1:]])
        return _multiplied(taken, factor)

    def apply_and_take(
        self,
        gradient: Gradient | None,
        step: tf.Tensor,
        num_required: TensorLike,
        factor: tf.Tensor | None,
    ) -> tf.Tensor:
        """Does what `apply` and `take` of a dense accumulator do, in one operation."""
        gradient = self._as_tensor(gradient)
        taken = ops.condacc_dense_apply_take(
            self.accumulator.accumulator_ref, step, gradient, host_int32(num_required)
        )
        taken.set_shape(self.shape)
        return _multiplied(taken, factor)

    def as_dense(self, gradient: Gradient) -> tf.Tensor:
        """Returns a gradient as a tensor, with repeated rows added up.

        Raises:
            tf.errors.InvalidArgumentError: The variable does not have one of the rows.
        """
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        shape = self.shape
        if not shape.is_fully_defined():
            shape = tf.shape(of_tensorflow(self.variable), tf.int64)
        indices = tf.cast(gradient.indices, tf.int64)
        num_rows = tf.cast(shape[0], tf.int64)
        are_right = tf.reduce_all((indices >= 0) & (indices < num_rows))
        expected = f"Accumulator '{self.name}' has no row of one of these indices:"
        if tf.executing_eagerly() and not are_right:
            raise tf.errors.InvalidArgumentError(None, None, f"{expected} {indices.numpy()}")
        check = tf.debugging.Assert(are_right, [expected, indices])
        with tf.control_dependencies([] if check is None else [check]):
            return tf.scatter_nd(indices[:, tf.newaxis], gradient.values, shape)

    def _as_slices(self, gradient: Gradient | None) -> tf.IndexedSlices:
        if gradient is None:
            return tf.IndexedSlices(
                tf.zeros([0, *self.shape[1:]], self.accumulator.dtype), tf.zeros([0], tf.int64)
            )
        if isinstance(gradient, tf.IndexedSlices):
            return gradient
        num_rows = self.shape[0] if self.shape.rank else None
        if num_rows is None:
            num_rows = tf.shape(gradient)[0]
        return tf.IndexedSlices(gradient, tf.range(tf.cast(num_rows, tf.int64)))

    def _as_tensor(self, gradient: Gradient | None) -> tf.Tensor:
        if isinstance(gradient, tf.IndexedSlices):
            return self.as_dense(gradient)
        if gradient is not None:
            return gradient
        if self.shape.is_fully_defined():
            return tf.zeros(self.shape, self.accumulator.dtype)
        return tf.zeros_like(of_tensorflow(self.variable))


class WeightSum:
    """The weights of the micro-batches that one replica has accumulated since the last take.

    Args:
        name: Name of the accumulator.
        device: Device of the replica.
    """

    def __init__(self, name: str, device: str | None) -> None:
        # Sums the weights and counts them, because not every micro-batch has a weight.
        with tf.init_scope(), tf.device(device):
            self.accumulator = _FoldingAccumulator(tf.float64, [2], name=name, reduction_type="SUM")

    def add(self, weight: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Adds the weight of a micro-batch, and returns the outcome of the apply: `[] int32`.

        Args:
            weight: The weight: `[] float64`.
            step: The local step; see `local_step`.
        """
        return self.accumulator._outcome(tf.stack([weight, tf.ones_like(weight)]), step)

    def take_factor(self, num_accumulated: tf.Tensor) -> tf.Tensor:
        """Takes the weights, and returns what turns this replica's means into weighted ones.

        The mean over n micro-batches is multiplied by n and divided by the sum of all weights.
        Optimizers sum the replicas' gradients, which are already divided by the number of replicas.
        The sum of the weights is divided by that number as well.

        Args:
            num_accumulated: Number of micro-batches of this replica: `[] int32`.

        Returns:
            The factor, 0 if no micro-batch of any replica has a weight above 0: `[] float64`.
        """
        number = tf.cast(num_accumulated, tf.float64)
        taken, weights = self.accumulator.try_take_grad(1)
        weights = tf.where(taken, weights, tf.zeros_like(weights))
        total = weights[0] + (number - weights[1])  # A micro-batch without a weight counts as 1.
        num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if num_replicas > 1:
            context = tf.distribute.get_replica_context()
            total = context.all_reduce(tf.distribute.ReduceOp.SUM, total)
        return tf.math.divide_no_nan(number * num_replicas, total)


def local_step(is_skipped: tf.Tensor | bool) -> tf.Tensor:
    """Returns the local step of a micro-batch, with which accumulators drop or keep it: `[] int64`.

    All gradients of a micro-batch share it: a constant for each would be a node for each.

    Args:
        is_skipped: Whether to drop the micro-batch as stale, which accumulators count: `[] bool`.
    """
    if isinstance(is_skipped, bool):
        return host_int64(_ALWAYS_STALE if is_skipped else _NEVER_STALE)
    stale, never_stale = (tf.constant(np.int64(x)) for x in (_ALWAYS_STALE, _NEVER_STALE))
    return tf.where(is_skipped, stale, never_stale)


class Taken(NamedTuple):
    """What was taken from the accumulators of a replica.

    Attributes:
        gradients: A gradient for each variable.
        is_absent: Computes whether all gradients of a variable were None: `[num_variables] bool`.
    """

    gradients: list[Gradient]
    is_absent: Callable[[], tf.Tensor]


class Replica:
    """The accumulators of one replica.

    Args:
        checks: The checks of the `GradientAccumulator`, which know its title and its variables.
        name: Name of the `GradientAccumulator`, with which those of the accumulators begin.
        device: Device of the replica; None for the current one.
        are_sparse: Whether the accumulator of each variable is sparse.
        reduction_type: "MEAN" or "SUM".

    Attributes:
        checks: The checks.
        sums: The accumulator of each variable.
        absences: Counts how many gradients of each variable were None since the last take.
        weights: The weights; None until one is given, and for sums.
        is_traced_without_weights: Whether a function was traced that takes means, and does not
            divide them by weights.
    """

    def __init__(
        self,
        checks: Checks,
        name: str,
        device: str | None,
        are_sparse: Sequence[bool],
        reduction_type: str,
    ) -> None:
        self.checks = checks
        self.weights: WeightSum | None = None
        self.is_traced_without_weights = False
        with tf.init_scope(), tf.device(device):  # Not in a function that is being traced.
            self.sums = [
                _make_sum(name, variable, is_sparse, reduction_type)
                for variable, is_sparse in zip(checks.variables, are_sparse, strict=True)
            ]
            self.absences = _FoldingAccumulator(
                tf.float64, [len(self.sums)], name=f"{name}/absences", reduction_type="SUM"
            )

    @property
    def first(self) -> ConditionalAccumulator | SparseConditionalAccumulator:
        """The accumulator of the first variable. All count the same updates and micro-batches."""
        return self.sums[0].accumulator

    def accumulators(self) -> list[ConditionalAccumulator | SparseConditionalAccumulator]:
        """Returns all accumulators, in the order in which they are saved."""
        weights = [] if self.weights is None else [self.weights.accumulator]
        return [*(each.accumulator for each in self.sums), self.absences, *weights]

    def layout(self) -> dict[str, Any]:
        """Returns which accumulators there are."""
        return {
            "sparse": [not each.is_dense for each in self.sums],
            "has_slices": [each.has_slices for each in self.sums],
            "weights": self.weights is not None,
        }

    def lowest(self) -> tf.Tensor:
        """Returns the lowest number of micro-batches that an accumulator has: `[] int32`."""
        return lowest_num_accumulated(*[each.accumulator.accumulator_ref for each in self.sums])

    def take(self, num_required: TensorLike) -> Taken:
        """Takes what is accumulated.

        Args:
            num_required: Number of micro-batches that the take requires: `[] int32`.

        Raises:
            tf.errors.InvalidArgumentError: An accumulator has too few. Nothing was taken.
        """
        number = self.lowest()
        with (
            self.checks.has_enough(number, num_required),
            explaining_graphs(self.checks.title, "take"),
            self.counts_taken(num_required, number) as (required, factor, is_absent),
        ):
            gradients = [each.take(required, factor) for each in self.sums]
        return Taken(gradients, is_absent)

    @contextlib.contextmanager
    def counts_taken(
        self, num_required: TensorLike, num_accumulated: tf.Tensor
    ) -> Iterator[tuple[tf.Tensor, tf.Tensor | None, Callable[[], tf.Tensor]]]:
        """Takes the weights and absences, and returns a context to take the gradients in.

        Args:
            num_required: Number of micro-batches that are enough: `[] int32`.
            num_accumulated: Number of micro-batches of this replica: `[] int32`.

        Yields:
            The number of micro-batches that are enough, `[] int32`; the factor of this replica's
            means, `[] float64`, or None for 1; and `Taken.is_absent`.
        """
        # It is emptied even if no gradient was None here: other functions may have added to it.
        counted = self.absences.try_take_grad(1)
        is_absent = functools.partial(_is_absent, counted, num_accumulated)
        factor = None
        if self.weights is not None:
            factor = self.weights.take_factor(num_accumulated)
        else:
            self.is_traced_without_weights |= not tf.executing_eagerly()
        with arguments_on_host():  # All takes share a constant.
            required = tf.convert_to_tensor(num_required, tf.int32)
        with tf.control_dependencies([counted.taken, *([] if factor is None else [factor])]):
            yield required, factor, is_absent


class MicroBatch(NamedTuple):
    """The gradients of a micro-batch of one replica.

    Attributes:
        replica: The accumulators of the replica.
        gradients: A gradient for each variable; None for one that has none.
        weight: Weight of the micro-batch: `[] float64`; None if it has none.
        is_skipped: Whether to drop the micro-batch: `[] bool`.
    """

    replica: Replica
    gradients: list[Gradient | None]
    weight: tf.Tensor | None
    is_skipped: tf.Tensor | bool

    @property
    def absent(self) -> Positions:
        """The positions of the variables that have no gradient."""
        return positions_of(gradient is None for gradient in self.gradients)

    def num_added(self) -> tf.Tensor | int:
        """Returns by how much the micro-batch increases the number of micro-batches: `[] int32`."""
        if isinstance(self.is_skipped, bool):
            return int(not self.is_skipped)
        return 1 - tf.cast(self.is_skipped, tf.int32)

    def apply(self) -> list[tf.Tensor]:
        """Applies the gradients, and returns the outcomes of all applies: `[] int32`."""
        step, targets = local_step(self.is_skipped), self._targets()
        applied = self._apply_all_but_dense(targets, step)
        with tf.control_dependencies(applied[-1:]):
            dense = [each.apply(gradient, step) for each, gradient in targets if each.is_dense]
        return applied + dense

    def apply_and_take(self, num_required: TensorLike) -> Taken:
        """Applies the gradients, and takes what the accumulators then have.

        Args:
            num_required: Number of micro-batches that the take requires: `[] int32`.

        Raises:
            tf.errors.InvalidArgumentError: An accumulator then has too few. Nothing was applied.
        """
        number = self.replica.lowest() + self.num_added()
        with self.replica.checks.has_enough(number, num_required):
            step, targets = local_step(self.is_skipped), self._targets()
            applied = self._apply_all_but_dense(targets, step)
            with (
                tf.control_dependencies(applied[-1:]),
                self.replica.counts_taken(num_required, number) as (required, factor, is_absent),
            ):
                gradients = [
                    each.apply_and_take(gradient, step, required, factor)
                    if each.is_dense
                    else each.take(required, factor)
                    for each, gradient in targets
                ]
        return Taken(gradients, is_absent)

    def _targets(self) -> list[tuple[VariableSum, Gradient | None]]:
        """Returns each accumulator and its gradient, multiplied by the weight.

        With the weight 0, even a gradient with infinities is zeros only.
        """
        gradients = [  # Those of dense accumulators are dense, before any is applied.
            each.as_dense(gradient) if each.is_dense and gradient is not None else gradient
            for each, gradient in zip(self.replica.sums, self.gradients, strict=True)
        ]
        if self.weight is not None:
            present = [gradient for gradient in gradients if gradient is not None]
            products = iter(multiplied_all(present, self.weight))
            gradients = [None if gradient is None else next(products) for gradient in gradients]
        return list(zip(self.replica.sums, gradients, strict=True))

    def _apply_all_but_dense(
        self, targets: Sequence[tuple[VariableSum, Gradient | None]], step: tf.Tensor
    ) -> list[tf.Tensor]:
        """Applies the sparse gradients, the weight and the absences, one after another.

        The dense gradients are applied afterwards: they have been checked, but the indices of
        sparse gradients are checked only when they are applied.

        Returns:
            The outcomes of their applies: `[] int32`.
        """
        applies = [
            functools.partial(each.apply, gradient, step)
            for each, gradient in targets
            if not each.is_dense
        ]
        if self.weight is not None and self.replica.weights is not None:
            applies.append(functools.partial(self.replica.weights.add, self.weight, step))
        if self.absent:
            counts = np.isin(range(len(targets)), [*self.absent]).astype(np.float64)
            applies.append(functools.partial(self.replica.absences._outcome, counts, step))
        applied: list[tf.Tensor] = []
        for apply in applies:
            with tf.control_dependencies(applied[-1:]):
                applied.append(apply())
        return applied


class KnownAbsences:
    """The sets of variables whose gradients were None together in a micro-batch.

    An optimizer is told in Python which variables it updates, but a graph learns only at run time
    which variables had no gradient. The graph therefore has one branch for each set that is
    possible: those of the micro-batches that are known when it is made, and their intersections.
    If other variables turn out to have no gradient, their gradients are zeros.

    Args:
        checks: The checks of the `GradientAccumulator`, which know its title and its variables.

    Attributes:
        sets: The known sets.
    """

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self.sets: set[Positions] = set()
        self._graphs: set[tuple[Positions, frozenset[Positions]]] = set()
        self._warned: set[str] = set()

    def add(self, absent: Positions) -> None:
        """Adds the set of a micro-batch, and logs a warning once if a graph lacks a branch for it.

        Args:
            absent: The positions of the variables whose gradients are None.
        """
        if absent in self.sets or len(self.sets) >= _MOST_SETS:
            return
        self.sets.add(absent)
        for possible, branches in self._graphs:
            if not {absent & branch for branch in (possible, *branches)} <= branches:
                self.warn(absent, "in a function that was traced before (make it again)")

    def branches(self, possible: Positions) -> list[Positions]:
        """Returns the sets that the update of a graph may leave out, the largest ones first.

        The last one is empty. A warning is logged once if there are too many.

        Args:
            possible: The positions of the variables whose gradients may all have been None.
        """
        found = {known & possible for known in self.sets} | {Positions()}
        while len(found) <= _MOST_BRANCHES:
            if (more := {one & other for one in found for other in found}) == found:
                break
            found = more
        branches = sorted(found, key=lambda each: (-len(each), sorted(each)))
        if len(branches) > _MOST_BRANCHES:
            self.warn(possible, "in a function, which has no branch for each of so many sets")
            branches = [*branches[: _MOST_BRANCHES - 1], Positions()]
        self._graphs.add((possible, frozenset(branches)))
        return branches

    def warn(self, absent: Positions, where: str) -> None:
        """Logs a warning once that an update may not leave out variables, and where it does not."""
        if where not in self._warned:
            self._warned.add(where)
            names = [name_of(self._checks.variables[each]) for each in sorted(absent)]
            _LOG.warning(
                "%s: the gradients of the variables %s are None. They count as zeros %s. So "
                "momentum and weight decay go on in an update in which all of them are None.",
                self._checks.title,
                ", ".join(names[:_MOST_NAMES] + ["..."] * (len(names) > _MOST_NAMES)),
                where,
            )


class ReplicaAccumulators(Trackable):
    """The accumulators of each replica, which its first gradients and its first weight make.

    Args:
        checks: The checks of the `GradientAccumulator`, which know its title and its variables.
        name: Name of the `GradientAccumulator`, with which those of the accumulators begin.
        reduction_type: "MEAN" or "SUM".

    Attributes:
        absences: The sets of variables that had no gradient.

    Raises:
        RuntimeError: Replicas make no common updates, or each would make its own object.
    """

    def __init__(self, checks: Checks, name: str, reduction_type: str) -> None:
        self._checks = checks
        self._title = checks.title
        self._name = name
        self._reduction_type = reduction_type
        self._check_is_outside_replicas()
        self._strategy = own_strategy()
        self._made: dict[int, Replica] = {}  # By the number of the replica.
        self.absences = KnownAbsences(checks)
        self._thread = threading.local()

    @contextlib.contextmanager
    def updating(self) -> Iterator[None]:
        """Notes that this thread calls the optimizer for an update."""
        self._thread.is_updating = True
        try:
            yield
        finally:
            self._thread.is_updating = False

    def micro_batch(
        self,
        gradients: list[Gradient | None],
        weight: tf.Tensor | None,
        skips_non_finite: bool,
    ) -> MicroBatch:
        """Returns a micro-batch of checked gradients, and makes the accumulators if need be.

        Args:
            gradients: A gradient for each variable.
            weight: Weight of the micro-batch: `[] float64`; None if it has none.
            skips_non_finite: Whether to drop it if an element is not finite.

        Raises:
            RuntimeError: It is called outside of the functions that the strategy runs on replicas,
                or by the optimizer that makes the update.
        """
        if getattr(self._thread, "is_updating", False):
            raise RuntimeError(
                f"{self._title} is used in a method of the optimizer that makes its update, so its "
                "mean would be accumulated again and never be applied. Call it where the "
                "gradients are computed, with an optimizer whose methods do not call it."
            )
        number = self._number()
        if number not in self._made:
            # A variable whose first gradient is None has a sparse accumulator, which needs no
            # memory as long as there is no other gradient.
            are_sparse = map(_is_sparse, gradients, self._checks.variables)
            self._make(number, list(are_sparse), own_strategy())
        replica = self._made[number]
        for gradient, each in zip(gradients, replica.sums, strict=True):
            each.has_slices |= isinstance(gradient, tf.IndexedSlices)
        with explaining_graphs(self._title, "accumulate"):
            is_skipped = skips_non_finite and is_any_not_finite(gradients, weight)
        if weight is not None and self._reduction_type == "MEAN":
            self._make_weights(number)
        micro_batch = MicroBatch(replica, gradients, weight, is_skipped)
        self.absences.add(micro_batch.absent)
        if micro_batch.absent and self.strategy_of_workers is not None:
            self.absences.warn(micro_batch.absent, "under a strategy with several workers")
        return micro_batch

    def _make(
        self, number: int, are_sparse: Sequence[bool], strategy: tf.distribute.Strategy | None
    ) -> None:
        """Makes the accumulators of a replica."""
        device = device_of(number, strategy)
        made = Replica(self._checks, self._name, device, are_sparse, self._reduction_type)
        for position, each in enumerate(made.sums):
            self._track_trackable(each.accumulator, f"replica_{number}_{position}")
        self._track_trackable(made.absences, f"replica_{number}_absences")
        self._made[number], self._strategy = made, strategy

    def _make_weights(self, number: int) -> None:
        """Makes the weights of a replica, unless it has them.

        Raises:
            RuntimeError: A function was traced that takes means without dividing by weights.
        """
        if self._made[number].weights is not None:
            return
        self._check_is_not_traced_without_weights()
        weights = WeightSum(f"{self._name}/weights", device_of(number, self._strategy))
        self._track_trackable(weights.accumulator, f"replica_{number}_weights")
        self._made[number].weights = weights

    def spec(self) -> dict[str, Any]:
        """Returns what must be equal in a checkpoint and in the object, as JSON can have it."""
        return {
            "reduction_type": self._reduction_type,
            "num_replicas": 1 if self._strategy is None else self._strategy.num_replicas_in_sync,
            "variables": [
                [dtype_of(variable).name, str(tf.TensorShape(variable.shape))]
                for variable in self._checks.variables
            ],
        }

    def layout(self) -> Layout:
        """Returns which accumulators there are."""
        return {number: replica.layout() for number, replica in self._made.items()}

    @property
    def strategy_of_workers(self) -> tf.distribute.Strategy | None:
        """The strategy, if it has replicas in other processes; None otherwise."""
        strategy = self._strategy
        return strategy if strategy is not None and has_other_workers(strategy) else None

    def roles(self, layout: Layout) -> list[tuple[int, int]]:
        """Returns the replica and the position of each accumulator of a layout, in a fixed order.

        A replica has an accumulator for each variable, one for absences, and one for weights.
        """
        return [
            (replica, position)
            for replica in sorted(layout)
            for position in range(len(self._checks.variables) + 1 + layout[replica]["weights"])
        ]

    def handles(self, numbers: Iterable[int] | None = None) -> list[tf.Tensor]:
        """Returns the handles of the accumulators of some replicas, or of all, as in `roles`."""
        replicas = [self._made[each] for each in sorted(self._made if numbers is None else numbers)]
        return [each.accumulator_ref for replica in replicas for each in replica.accumulators()]

    def make_all(self, layout: Layout) -> None:
        """Makes those accumulators of a layout that do not exist. The others do not change.

        Raises:
            tf.errors.InvalidArgumentError: An accumulator is of another kind.
            RuntimeError: A function was traced that takes means without dividing by weights.
        """
        for number, kinds in layout.items():
            replica = self._made.get(number)
            for each, is_sparse in zip(
                replica.sums if replica else [], kinds["sparse"], strict=False
            ):
                if each.is_dense == is_sparse:
                    expected, got = ("dense", "sparse") if each.is_dense else ("sparse", "dense")
                    raise tf.errors.InvalidArgumentError(
                        None,
                        None,
                        f"{self._title}: the gradients of {name_of(each.variable)} are "
                        "accumulated in another way than in the checkpoint: expected a "
                        f"{expected} accumulator, got a {got} one. Restore before the first "
                        "micro-batch.",
                    )
            if kinds["weights"] and (replica is None or replica.weights is None):
                self._check_is_not_traced_without_weights()
        for number, kinds in layout.items():
            if number not in self._made:
                self._make(number, kinds["sparse"], self._strategy)
            for each, has_slices in zip(self._made[number].sums, kinds["has_slices"], strict=True):
                each.has_slices |= bool(has_slices)
            if kinds["weights"]:
                self._make_weights(number)

    def take(self, num_required: TensorLike) -> Taken:
        """Takes what the replica that calls has accumulated, as `Replica.take`."""
        return self._made[self._number()].take(num_required)

    def as_given(self, gradients: Sequence[Gradient]) -> list[Gradient]:
        """Returns what was taken on this replica in the kinds that all replicas have in common.

        These are tensors, unless all gradients of a variable on all replicas were
        ``tf.IndexedSlices`` or None.
        """
        kinds = zip(*(replica.sums for replica in self._made.values()), strict=True)
        are_slices = [
            any(each.has_slices for each in of_variable)
            and not any(e.is_dense for e in of_variable)
            for of_variable in kinds
        ]
        given = zip(self._made[self._number()].sums, gradients, are_slices, strict=True)
        return [one if is_slices else each.as_dense(one) for each, one, is_slices in given]

    def of_this_replica(self) -> Replica | None:
        """Returns the accumulators of the replica that calls; None if it has none yet."""
        return self._made.get(self._number())

    def of_first_replica(self) -> Replica | None:
        """Returns the accumulators of the first replica of this process; None if there are none."""
        return next(iter(self._made.values()), None)

    def of_any_replica(self) -> Replica | None:
        """Returns the accumulators of this replica, or of the first one between steps."""
        strategy = own_strategy()
        in_scope = strategy is self._strategy and tf.distribute.in_cross_replica_context()
        if self._strategy is not None and (in_scope or strategy is None):
            return self.of_first_replica()
        return self.of_this_replica()

    def reset(self) -> tf.Operation | None:
        """Discards the gradients and weights of all replicas; returns the operation of a graph."""
        accumulators = [each for made in self._made.values() for each in made.accumulators()]
        # The step counts the updates, on which their number of micro-batches may depend.
        resets = [each.reset(each.global_step()) for each in accumulators]
        is_run_by_session = not (tf.executing_eagerly() or tf.inside_function())
        return tf.group(*resets) if is_run_by_session else None

    def emptied(self, checks: Checks | None = None) -> ReplicaAccumulators:
        """Returns an object under the same strategy that has no accumulators yet.

        Args:
            checks: The checks of another `GradientAccumulator`, which know its variables; None for
                the same variables.
        """
        made = ReplicaAccumulators(checks or self._checks, self._name, self._reduction_type)
        made._strategy = self._strategy
        made.absences.sets |= self.absences.sets
        return made

    def _number(self) -> int:
        """Returns the number of the replica that executes the calling function."""
        context, strategy = tf.distribute.get_replica_context(), own_strategy()
        expected = self._strategy
        if strategy is not None:
            self._check_has_common_updates(strategy)
        if context is None:
            raise RuntimeError(
                f"{self._title} is used outside of a function that {described(strategy)} "
                "runs on replicas. Use it in the function that is passed to strategy.run."
            )
        # As long as there are no accumulators, another strategy may replace the default one.
        if strategy is not expected and (expected is not None or self._made):
            another = "another " if type(strategy) is type(expected) else ""
            raise RuntimeError(
                f"{self._title} was made or first used under {described(expected)}, but "
                f"is now used under {another}{described(strategy)}. Use it in functions "
                "that are passed to strategy.run of the same strategy."
            )
        return int(tf.get_static_value(context.replica_id_in_sync_group))

    def _check_is_not_traced_without_weights(self) -> None:
        if any(replica.is_traced_without_weights for replica in self._made.values()):
            raise RuntimeError(
                f"{self._title}: the first weight is given after a function was traced that "
                "takes gradients, which would not divide by weights. Give weights in the "
                "first function that is traced; a micro-batch without one has weight=1.0."
            )

    def _check_has_common_updates(self, strategy: tf.distribute.Strategy) -> None:
        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            raise RuntimeError(
                f"{self._title} does not work under ParameterServerStrategy, whose workers make no "
                "common updates. Make a ConditionalAccumulator beside each variable."
            )

    def _check_is_outside_replicas(self) -> None:
        """Checks that replicas make common updates, and that they can share this object."""
        self._check_has_common_updates(tf.distribute.get_strategy())
        if tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
            strategy = described(own_strategy())
            raise RuntimeError(
                f"{self._title} is made in a function that {strategy} runs on replicas, so each "
                "replica would have another one. Make it outside, such as in strategy.scope()."
            )


def _as_op_name(variable: VariableLike) -> str:
    """Returns the name of a variable with "_" for characters that op names cannot contain."""
    return re.sub(r"[^\w./-]", "_", name_of(variable).removesuffix(":0"))


def _is_sparse(gradient: Gradient | None, variable: VariableLike) -> bool:
    """Returns whether the first gradient of a variable makes a sparse accumulator."""
    shape = tf.TensorShape(variable.shape)
    # Only a tensor can be the gradient of a scalar.
    may_be_sparse = gradient is None and shape.rank and shape.is_fully_defined()
    return bool(may_be_sparse) or isinstance(gradient, tf.IndexedSlices)


def _make_sum(
    prefix: str, variable: VariableLike, is_sparse: bool, reduction_type: str
) -> VariableSum:
    """Makes the accumulator of a variable. Error messages of its operations contain its name."""
    name = f"{prefix}/{_as_op_name(variable)}"
    dtype, shape = dtype_of(variable), tf.TensorShape(variable.shape)
    kind: Any = _SparseAccumulator if is_sparse else _FoldingAccumulator
    if is_sparse and reduction_type == "MEAN":
        reduction_type = "GLOBAL_MEAN"
    accumulator = kind(dtype, shape, name=name, reduction_type=reduction_type)
    return VariableSum(accumulator, name, variable)


def _is_absent(counted: TryTakeResult, num_accumulated: tf.Tensor) -> tf.Tensor:
    """Returns which counts, if any were taken, are those of all micro-batches: `[n] bool`."""
    return counted.taken & (counted.value >= tf.cast(num_accumulated, tf.float64))


def _multiplied(gradient: Gradient, factor: tf.Tensor | None) -> Gradient:
    """Multiplies a gradient by a factor, `[] float64`. A factor of 0 sets all elements to zero."""
    if factor is None:
        return gradient
    return with_values(gradient, multiplied(values_of(gradient), factor))


def positions_of(absent: Iterable[bool]) -> Positions:
    """Returns the positions at which an iterable is true."""
    return frozenset(position for position, is_absent in enumerate(absent) if is_absent)
