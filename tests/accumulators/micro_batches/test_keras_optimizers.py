"""Tests of GradientAccumulator with the optimizers of Keras 2, and with what Keras 3 adds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.versions import needs_keras3
from tf_condacc import GradientAccumulator

keras = pytest.importorskip("keras")
optimizers2 = tf.keras.optimizers  # Keras 2; see conftest.py.
KERAS2: dict[str, Callable[..., Any]] = {
    "SGD": lambda **options: optimizers2.SGD(0.5, momentum=0.5, **options),
    "Adam": lambda **options: optimizers2.Adam(0.5, **options),
    "moving average": lambda **options: optimizers2.Adagrad(0.5, use_ema=True, **options),
    "legacy SGD": lambda **options: optimizers2.legacy.SGD(0.5, momentum=0.5, **options),
    "legacy Adam": lambda **options: optimizers2.legacy.Adam(0.5, **options),
    "loss scale": lambda **options: loss_scale_optimizer2(optimizers2.Adam(0.5, **options)),
}


def loss_scale_optimizer2(inner: Any) -> Any:
    return tf.keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=8.0)


@pytest.fixture
def weights() -> tf.Variable:
    return tf.Variable([0.0, 0.0])


@needs_keras3
@pytest.mark.parametrize("wrapped", [False, True])
def test_optimizer_that_accumulates_itself_is_refused(weights, wrapped):
    optimizer = keras.optimizers.Adam(0.1, gradient_accumulation_steps=3)
    if wrapped:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    accumulator = GradientAccumulator([weights], 2, name="mine")
    message = "GradientAccumulator 'mine' accumulates .* Adam with gradient_accumulation_steps=3"
    with pytest.raises(ValueError, match=message):
        accumulator.apply_gradients(optimizer, [tf.ones([2])])
    assert int(accumulator.num_accumulated()) == 0


@needs_keras3
def test_skipping_gradients_that_a_loss_scale_depends_on_is_refused(weights):
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    accumulator = GradientAccumulator([weights], 2, name="mine", skip_non_finite=True)
    with pytest.raises(ValueError, match="skip_non_finite=True .* LossScaleOptimizer"):
        accumulator.apply_gradients(optimizer, [tf.ones([2])])
    assert int(accumulator.num_accumulated()) == 0


@needs_keras3
@pytest.mark.parametrize(
    "limit, expected",
    [
        ({}, [-3.0, -4.0]),
        ({"clipnorm": 2.5}, [-1.5, -2.0]),
        ({"global_clipnorm": 2.5}, [-1.5, -2.0]),
        ({"clipvalue": 3.5}, [-3.0, -3.5]),
    ],
)
def test_limits_are_those_of_unscaled_gradients(weights, limit, expected):
    scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=1024.0)
    accumulator = GradientAccumulator([weights], 2)
    apply = tf.function(lambda x: accumulator.apply_gradients(scaling, [x], **limit))
    for gradient in ([2.0, 8.0], [4.0, 0.0]):
        apply(1024.0 * tf.constant(gradient))
    np.testing.assert_allclose(weights, expected)
    # The update with an infinity is skipped, and halves the scale once.
    apply(tf.constant([np.inf, 0.0]))
    apply(tf.ones([2]))
    np.testing.assert_allclose(weights, expected)
    assert float(scaling.dynamic_scale.numpy()) == 512.0
    assert int(scaling.iterations.numpy()) == 1


@needs_keras3
def test_limit_with_a_constant_loss_scale_is_that_of_unscaled_gradients(weights):
    optimizer = keras.optimizers.SGD(1.0, loss_scale_factor=8.0)
    accumulator = GradientAccumulator([weights], 1)
    accumulator.apply_gradients(optimizer, [8.0 * tf.constant([3.0, 4.0])], clipnorm=2.5)
    np.testing.assert_allclose(weights, [-1.5, -2.0])


@pytest.mark.narrow(
    to=lambda name, options, in_function: name == "Adam" or (in_function and not options)
)
@pytest.mark.parametrize("in_function", [True, False])
@pytest.mark.parametrize("options", [{}, {"global_clipnorm": 1.5}], ids=["", "clips"])
@pytest.mark.parametrize("name", KERAS2)
def test_optimizers_of_keras_2_make_one_update_of_the_mean(weights, name, options, in_function):
    def gradients(factor: float) -> list[Any]:
        rows = tf.IndexedSlices(factor * tf.ones([2, 3]), tf.constant([1, 3]), tf.constant([4, 3]))
        return [tf.constant([factor, -factor]), rows]

    variables = [weights, tf.Variable(tf.zeros([4, 3]))]
    accumulator, optimizer = GradientAccumulator(variables, 2), KERAS2[name](**options)
    step = functools.partial(accumulator.apply_gradients, optimizer)
    step = tf.function(step) if in_function else step
    updates = [bool(step(gradients(factor))) for factor in (0.5, 1.5, 1.0, 1.0)]
    assert updates == [False, True, False, True]

    expected = [tf.Variable([0.0, 0.0]), tf.Variable(tf.zeros([4, 3]))]
    alone = KERAS2[name](**options)
    for _ in range(2):
        alone.apply_gradients(list(zip(gradients(1.0), expected, strict=True)))
    assert int(optimizer.iterations) == int(alone.iterations) == 2
    for variable, other in zip(variables, expected, strict=True):
        np.testing.assert_array_equal(variable, other)


def test_a_loss_scale_of_keras_2_skips_an_update_that_is_not_finite(weights):
    optimizer = loss_scale_optimizer2(optimizers2.SGD(1.0))
    accumulator = GradientAccumulator([weights], 2)
    apply = tf.function(lambda x: accumulator.apply_gradients(optimizer, [x], clipnorm=2.5))
    for gradient in ([2.0, 8.0], [4.0, 0.0]):  # These are unscaled.
        apply(tf.constant(gradient))
    np.testing.assert_allclose(weights, [-1.5, -2.0])
    for gradient in ([np.inf, 0.0], [1.0, 1.0]):
        apply(tf.constant(gradient))
    np.testing.assert_allclose(weights, [-1.5, -2.0])
    assert float(optimizer.loss_scale) == 4.0


def test_skipping_gradients_that_a_loss_scale_of_keras_2_depends_on_is_refused(weights):
    optimizer = loss_scale_optimizer2(optimizers2.SGD(1.0))
    accumulator = GradientAccumulator([weights], 2, skip_non_finite=True)
    with pytest.raises(ValueError, match="skip_non_finite=True .* LossScaleOptimizer"):
        accumulator.apply_gradients(optimizer, [tf.ones([2])])
