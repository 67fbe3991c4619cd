"""Tests of scaling: applied gradients must be those of a loss divided by the number of towers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_condacc
from tests.support.tower_support import SUM, Recording, trained, two_zeros
from tf_condacc import estimator

v1 = tf.compat.v1
TowerOptimizer = tf_condacc.TowerOptimizer
MEAN = v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS
CALLS = "Each invocation of model_fn was supposed to make the same optimizer calls."
WRAP = (
    "Please wrap optimizers with TowerOptimizer in order to use replicate_model_fn with multiple "
    "`devices`."
)


def train_two(train: Callable, num_towers: int = 2, **more: Any) -> list[list[float]]:
    """Returns the variables a and b after steps in which each tower's gradients are [1, 2].

    Args:
      train: Function that makes the train_op from the loss and the two variables.
      num_towers: Number of towers.
      **more: Further arguments of `trained`.
    """

    def model_fn(features, labels, mode):
        a, b = two_zeros("a"), two_zeros("b")
        loss = tf.reduce_sum((a + b) * [1.0, 2.0])
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train(loss, a, b))

    values = trained(model_fn, num_towers, None, **{"loss_reduction": MEAN, **more})
    return [value.tolist() for value in values]


def by_gradients(loss, a, b):
    gradients = v1.gradients(loss, [a, b])
    return TowerOptimizer(Recording()).apply_gradients(zip(gradients, [a, b], strict=True))


def after_get_name(loss, a, b):
    TowerOptimizer(Recording()).get_name()
    return by_gradients(loss, a, b)


def second_by_gradients(loss, a, b):
    first = TowerOptimizer(Recording()).minimize(loss, var_list=[a])
    (gradient,) = v1.gradients(loss, [b])
    return tf.group(first, TowerOptimizer(Recording()).apply_gradients([(gradient, b)]))


@pytest.mark.parametrize(
    ("train", "call"),
    [
        (by_gradients, "Call 0 of tower 0 is apply_gradients .* about a:0, b:0:"),
        (after_get_name, "Call 0 of tower 0 is apply_gradients .* about a:0, b:0:"),
        (second_by_gradients, "Call 1 of tower 0 is apply_gradients .* about b:0:"),
    ],
)
def test_gradients_that_are_not_divided_are_refused_by_tower_and_call(train: Callable, call: str):
    match = re.escape(f"{WRAP} {CALLS} ") + call + ".* number of towers, which is 3"
    with pytest.raises(ValueError, match=match):
        train_two(train, num_towers=3)


def test_the_tower_that_differs_is_named():
    trains = iter([lambda loss, a, b: TowerOptimizer(Recording()).minimize(loss), by_gradients])
    with pytest.raises(ValueError, match="Call 0 of tower 1 is apply_gradients without"):
        train_two(lambda *given: next(trains)(*given))


@pytest.mark.parametrize("train", [by_gradients, after_get_name, second_by_gradients])
def test_gradients_of_any_origin_are_summed_where_sums_are_wanted(train: Callable):
    assert train_two(train, num_towers=3, loss_reduction=SUM) == [[-3, -6], [-3, -6]]


def test_with_one_tower_gradients_of_any_origin_are_applied():
    assert train_two(by_gradients, num_towers=1) == [[-1, -2], [-1, -2]]


def clipped(loss, a, b):
    optimizer = TowerOptimizer(Recording())
    gradients, variables = zip(*optimizer.compute_gradients(loss, [a, b]), strict=True)
    gradients = [tf.clip_by_value(gradient, -0.5, 0.5) for gradient in gradients]
    return optimizer.apply_gradients(zip(gradients, variables, strict=True))


def clipped_by_other_instances(loss, a, b):
    computed = TowerOptimizer(Recording()).compute_gradients(loss, [a, b])
    pairs = [(tf.clip_by_value(gradient, -0.5, 0.5), variable) for gradient, variable in computed]
    return tf.group(*[TowerOptimizer(Recording()).apply_gradients([pair]) for pair in pairs])


def two_losses(loss, a, b):
    """Clips the sum of the gradients of two losses, which together are the given loss."""
    optimizer = TowerOptimizer(Recording())
    parts = [optimizer.compute_gradients(loss * factor, [a, b]) for factor in (0.25, 0.75)]
    pairs = [
        (tf.clip_by_value(first + second, -0.5, 0.5), variable)
        for (first, variable), (second, _) in zip(*parts, strict=True)
    ]
    return optimizer.apply_gradients(pairs)


@pytest.mark.parametrize("train", [clipped, clipped_by_other_instances, two_losses])
def test_computed_gradients_may_be_transformed_before_they_are_applied(train: Callable):
    # Each tower's gradients are [1, 2] / 2 = [0.5, 1]. Clipping to 0.5 makes them [0.5, 0.5].
    assert train_two(train) == [[-1, -1], [-1, -1]]


def accumulated(loss, a, b):
    """Adds the gradients of all steps to variables, and applies the values of these variables."""
    optimizer = TowerOptimizer(Recording())
    sums, adds = [], []
    for gradient, _ in optimizer.compute_gradients(loss, [a, b]):
        sums.append(v1.Variable([0.0, 0.0], trainable=False, use_resource=True))
        adds.append(sums[-1].assign_add(gradient, read_value=False))
    with tf.control_dependencies(adds):
        totals = [total.read_value() for total in sums]
    return optimizer.apply_gradients(zip(totals, [a, b], strict=True))


def test_gradients_may_be_accumulated_in_variables_before_they_are_applied():
    assert train_two(accumulated, steps=2) == [[-3, -6], [-3, -6]]
