"""The optimizer that applies the sum of the gradients of all towers.

Mirrors ``tf.contrib.estimator.TowerOptimizer``.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._optimizers.wrapper import OptimizerWrapper
from tf_condacc._sums import added_up
from tf_condacc._towers import graph_state, optimizer_calls
from tf_condacc._towers.graph_state import OptimizerCall
from tf_condacc._towers.reduction import sum_gradients
from tf_condacc._typing import Gradient, GradientAndVariable, Loss

_LOG = logging.getLogger("tf_condacc")


@functools.cache
def warn_of_deprecation(name: str) -> None:
    """Logs once per process that new programs should use a distribution strategy."""
    _LOG.warning(
        "%s exists for programs that were written for tf.contrib.estimator, where it has been "
        "deprecated since 2018-05-31. New programs should use tf.distribute.MirroredStrategy.",
        name,
    )


class TowerOptimizer(OptimizerWrapper):
    """Sums the gradients of all towers, and applies the sums in the last tower.

    Mirrors ``tf.contrib.estimator.TowerOptimizer``. Within a `model_fn` that `replicate_model_fn`
    replicates, the gradients of each variable are summed on the variable's device as they arrive,
    and the wrapped optimizer applies the sums. Elsewhere all calls are forwarded to the wrapped
    optimizer unchanged.

    It differs from the original in that the calls of different towers are compared, dense and
    sparse gradients of a variable can be mixed in any order, and its checkpoints are those of the
    wrapped optimizer.

    Example:
        >>> def model_fn(features, labels, mode):
        ...     weight = tf.compat.v1.get_variable("weight", initializer=0.0)
        ...     loss = tf.reduce_mean((features * weight - labels) ** 2)
        ...     optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.25)
        ...     optimizer = tf_condacc.TowerOptimizer(optimizer)
        ...     train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
        ...     return tf_condacc.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
        >>> def input_fn():
        ...     return tf.data.Dataset.from_tensors((tf.ones([4]), tf.fill([4], 3.0))).repeat()
        >>> towers = tf_condacc.replicate_model_fn(model_fn, devices=["/CPU:0", "/CPU:1"])
        >>> two_cpus = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
        >>> config = tf_condacc.estimator.RunConfig(session_config=two_cpus)
        >>> model = tf_condacc.estimator.Estimator(towers, config=config)
        >>> print(model.train(input_fn, steps=2).get_variable_value("weight"))
        2.25

    Args:
        optimizer_or_optimizer_fn: A ``tf.compat.v1.train.Optimizer``, or a function without
            arguments that returns one. The function is called once, when the optimizer is first
            needed.
    """

    COLLECTION_FOR_GRAPH_STATES = graph_state.COLLECTION

    def __init__(
        self,
        optimizer_or_optimizer_fn: v1.train.Optimizer | Callable[[], v1.train.Optimizer],
    ) -> None:
        super().__init__(use_locking=False, name="TowerOptimizer")
        warn_of_deprecation("TowerOptimizer")
        self._optimizer_or_optimizer_fn = optimizer_or_optimizer_fn
        self.configure()

    def configure(self, *, deterministic: bool | None = None) -> None:
        """Sets an option that the original does not have, before `apply_gradients`.

        Args:
            deterministic: Whether to add all gradients in the order of the towers, so that the bits
                of the sums do not depend on the order in which they arrive. By default, it is what
                ``tf.config.experimental.enable_op_determinism`` has set.
        """
        self._is_deterministic = deterministic

    @staticmethod
    def has_been_used() -> bool:
        """Returns whether a TowerOptimizer has been used in the current graph or its towers."""
        return graph_state.of_graph().has_been_used

    def compute_gradients(self, loss: Loss, *args: Any, **kwargs: Any) -> list[GradientAndVariable]:
        """Computes the gradients of the tower's part in the loss of all towers.

        Args:
            loss: The loss of the tower, `[] float`, or a function that returns it. It is divided by
                the number of towers unless the loss reduction is SUM.
            *args: Passed to the wrapped optimizer's `compute_gradients`.
            **kwargs: Passed to the wrapped optimizer's `compute_gradients`.

        Returns:
            A list of (gradient, variable) pairs.
        """
        state = graph_state.of_graph()
        optimizer = self._get_optimizer()
        gradients = optimizer.compute_gradients(state.scale_loss(loss), *args, **kwargs)
        if state.number_of_towers > 1:
            gradients = list(gradients)
            state.towers[-1].computed.append(OptimizerCall(optimizer, gradients))
        return gradients

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradientAndVariable],
        global_step: tf.Variable | None = None,
        **kwargs: Any,
    ) -> tf.Operation:
        """Stores the gradients of a tower. In the last tower, applies the sums of all towers.

        The method `compute_gradients` divides the gradients of a tower by the number of towers.
        Gradients from other sources, such as ``tf.gradients``, are accepted only if the loss
        reduction is SUM, which needs no division.

        Args:
            grads_and_vars: Iterable of (gradient, variable) pairs, as `compute_gradients` returns
                them. Gradients may be transformed, for example clipped. A gradient may be None; it
                is then left out of the sum. Those of a variable that occurs several times are
                added up.
            global_step: Optional variable that is incremented when the sums are applied.
            **kwargs: Passed to the wrapped optimizer's `apply_gradients`.

        Returns:
            In the last tower, the operation that applies the sums. In the other towers, an
            operation named "train_op_placeholder" that does nothing.

        Raises:
            ValueError: The calls of the towers do not match; or no variable has a gradient; or the
                gradients must be divided by the number of towers, and are not computed by
                `compute_gradients`.
        """
        state = graph_state.of_graph()
        optimizer = self._get_optimizer()
        if state.number_of_towers == 1:
            summed = added_up(grads_and_vars)
            return optimizer.apply_gradients(summed, global_step=global_step, **kwargs)
        grads_and_vars = list(grads_and_vars)
        state.towers[-1].calls.append(OptimizerCall(optimizer, grads_and_vars))
        optimizer_calls.check_scaled(state)
        if not state.is_last_tower:
            with tf.control_dependencies(
                optimizer_calls.gradient_tensors(state.towers[-1].calls[-1])
            ):
                return tf.no_op(name="train_op_placeholder")
        calls = optimizer_calls.matching(state.towers)
        with graph_state.scopes_of(state.towers[0]):
            sums = _sum_by_variable(calls, self._is_deterministic)
            return optimizer.apply_gradients(sums, global_step=global_step, **kwargs)

    def get_name(self, *args: Any, **kwargs: Any) -> str:
        """Returns the name of the wrapped optimizer."""
        return self._get_optimizer().get_name(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> list[tf.Variable]:
        """Returns the variables that encode the state of the wrapped optimizer."""
        return self._get_optimizer().variables(*args, **kwargs)

    @property
    def _wrapped(self) -> v1.train.Optimizer:
        return self._get_optimizer()

    def _get_optimizer(self) -> v1.train.Optimizer:
        graph_state.of_graph().has_been_used = True
        if callable(self._optimizer_or_optimizer_fn):
            self._optimizer_or_optimizer_fn = self._optimizer_or_optimizer_fn()
        return self._optimizer_or_optimizer_fn


def _sum_by_variable(
    calls: Sequence[OptimizerCall], deterministic: bool | None
) -> list[GradientAndVariable]:
    """Sums the gradients of each variable.

    The variables of the last tower come first, in the order of its call. `deterministic` is the
    argument of `sum_gradients`.
    """
    gradients: dict[str, list[Gradient]] = {}
    variables: dict[str, v1.Variable] = {}
    for call in (calls[-1], *calls[:-1]):
        for _, variable in call.gradients_and_variables:
            variables.setdefault(variable.name, variable)
            gradients.setdefault(variable.name, [])
    for call in calls:
        for gradient, variable in call.gradients_and_variables:
            if gradient is not None:
                gradients[variable.name].append(gradient)
    with v1.name_scope("gradient_aggregating"):
        return [
            (
                sum_gradients(found, variables[name], deterministic) if found else None,
                variables[name],
            )
            for name, found in gradients.items()
        ]
