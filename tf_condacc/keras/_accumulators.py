"""What the optimizers of a model have accumulated, in ``fit`` and in checkpoints."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tf_condacc._micro_batches.accumulator import GradientAccumulator
from tf_condacc._micro_batches.checks import parts_of
from tf_condacc._tensorflow import Trackable
from tf_condacc.keras._calls import Call
from tf_condacc.keras._options import Options
from tf_condacc.keras._step import Step

_LOG = logging.getLogger("tf_condacc")


class Accumulators(Trackable):
    """The ``GradientAccumulator`` objects of a model, which the first steps make.

    They are its children in checkpoints. A checkpoint that was restored before is restored into
    each when it is made.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._optimizers: dict[
            int, _AccumulatingOptimizer
        ] = {}  # By the identity of the optimizer.
        self._children: dict[str, GradientAccumulator] = {}
        self._counts = (0, 0, 0)  # Updates, further micro-batches and skipped ones.
        self._maybe_initialize_trackable()

    def add(self, call: Call, step: Step) -> None:
        """Accumulates the gradients of a call of an optimizer, or makes an update with them."""
        if not call.optimizer.built:
            with tf.init_scope():
                call.optimizer.build(call.variables)
        if id(call.optimizer) not in self._optimizers:
            make = functools.partial(self._make, call, step.reduction_type())
            tf.distribute.get_replica_context().merge_call(make)
        self._optimizers[id(call.optimizer)].add(call, step)

    def apply_remainder(self) -> None:
        """Makes updates from what is left over."""
        for each in self._optimizers.values():
            remainder = functools.partial(each.gradients.apply_remainder, each)
            self._options.model.distribute_strategy.run(remainder)

    def discard(self, reason: str | None = None) -> None:
        """Discards what is accumulated, with a warning if there is a reason to tell."""
        for each in self._children.values():
            each.reset() if reason is None else each._discard_because(reason)
        self._deferred_dependencies.clear()

    def clear(self) -> None:
        """Discards what is accumulated, also what functions hold that were traced before."""
        self.discard()
        self._optimizers.clear()
        self._children.clear()

    def is_empty(self) -> bool:
        """Returns whether no step has accumulated anything."""
        return not self._children

    def trained(self) -> set[int]:
        """Returns the identities of the variables that were trainable and had gradients."""
        return {variable for each in self._optimizers.values() for variable in each.trained}

    def num_skipped(self) -> int:
        """Returns how many micro-batches were skipped."""
        return sum(int(each.num_skipped()) for each in self._children.values())

    def skipped_all(self) -> bool:
        """Returns whether all micro-batches since the last `note_counts` were skipped."""
        before = self._counts
        self.note_counts()
        return self._counts[:2] == before[:2] and self._counts[2] > before[2]

    def note_counts(self) -> None:
        """Notes what has counted until now, if micro-batches may be skipped."""
        for each in self._children.values() if self._options.skip_non_finite else ():
            self._counts = each._counts()

    def check_restored(self) -> None:
        """Warns if something was restored for accumulators that have not been made, and forgets it.

        The checkpoint that is about to be saved will not have it, and the one that has it may be
        deleted afterwards.
        """
        if self._deferred_dependencies:
            _LOG.warning(
                "%s: an optimizer has not been used since its accumulated gradients were restored. "
                "They are lost.",
                self._options.title,
            )
            self._deferred_dependencies.clear()

    def _make(self, call: Call, reduction_type: str, strategy: tf.distribute.Strategy) -> None:
        """Makes what an optimizer accumulates, outside of the replicas.

        It has all variables of the optimizer: other micro-batches may have gradients of others.
        """
        del strategy
        options, optimizer = self._options, call.optimizer
        known = [each for part in parts_of(optimizer) for each in variables_of(part)]
        number = options.num_micro_batches
        if callable(number):
            with tf.init_scope():  # The variable of each replica is not one that int() converts.
                before = int(tf.convert_to_tensor(optimizer.iterations))
            number = functools.partial(_number_after, before, number)
        gradients = GradientAccumulator(
            list({id(each): each for each in [*call.variables, *known]}.values()),
            number,
            reduction_type,
            name=options.model.name,
            skip_non_finite=options.skip_non_finite,
        )
        name = f"optimizer_{[id(each) for each in options.optimizers].index(id(optimizer))}"
        self._children[name] = gradients
        self._handle_deferred_dependencies(name, gradients)
        with tf.init_scope():
            self._counts = gradients._counts()  # Those of a restored state.
        self._optimizers[id(optimizer)] = _AccumulatingOptimizer(
            call, gradients, reduction_type == "MEAN"
        )

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        del args, kwargs
        return dict(self._children)

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        return self._children.get(name)


class _AccumulatingOptimizer:
    """An optimizer that makes its updates of accumulated gradients, as its last call would.

    A ``GradientAccumulator`` gets it as its optimizer, and asks it for the clipping, the loss scale
    and the parts of the optimizer. So it has all other attributes of the optimizer.

    Attributes:
        gradients: The accumulated gradients.
        trained: The identities of the variables that were trainable and had gradients.
    """

    def __init__(self, call: Call, gradients: GradientAccumulator, is_mean: bool) -> None:
        self.gradients = gradients
        self.trained: set[int] = set()
        self._call, self._is_mean = call, is_mean

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call.optimizer, name)

    def add(self, call: Call, step: Step) -> None:
        """Accumulates the gradients of a call, or makes an update with them."""
        self._call = call
        self.trained.update(id(v) for _, v in call.present if _is_trainable(v))
        present = {id(v): tf.cast(gradient, v.dtype) for gradient, v in call.present}
        ordered = [present.pop(id(variable), None) for variable in self.gradients.variables]
        if present:
            raise ValueError(
                f"{step.title}: train_step gives the {type(call.optimizer).__name__} gradients of "
                "variables that it did not give it in the first micro-batch. Give it all "
                "variables in each, with None for those without gradients."
            )
        weight = step.weight() if self._is_mean else None
        self.gradients.apply_gradients(self, ordered, weight=weight)

    def apply_gradients(self, grads_and_vars: Iterable[Any]) -> Any:
        """Makes an update of the variables that the call gives, or that have gradients.

        Variables that are frozen by now are left out.
        """
        given = set(map(id, self._call.variables))
        pairs = [
            (gradient, variable)
            for gradient, variable in grads_and_vars
            if (gradient is not None or id(variable) in given)
            and (_is_trainable(variable) or id(variable) not in self.trained)
        ]
        if any(gradient is not None for gradient, _ in pairs):
            return self._call.update(pairs)
        return None


def variables_of(optimizer: Any) -> list[Any]:
    """Returns the variables that an optimizer was built for, if it tells."""
    return list(getattr(optimizer, "_trainable_variables", ()))


def _number_after(before: int, function: Any, update: Any) -> Any:
    """Returns the number of micro-batches of an update that comes after others."""
    # Keras keeps AutoGraph from converting what it calls, but a tf.function converts.
    return (function if tf.executing_eagerly() else tf.function(function))(update + before)


def _is_trainable(variable: Any) -> bool:
    return getattr(variable, "trainable", True)
