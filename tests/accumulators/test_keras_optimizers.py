"""Tests of GradientAccumulator with what optimizers of Keras do to gradients themselves."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_condacc import GradientAccumulator

keras = pytest.importorskip("keras")


@pytest.fixture
def weights() -> tf.Variable:
    return tf.Variable([0.0, 0.0])


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


def test_skipping_gradients_that_a_loss_scale_depends_on_is_refused(weights):
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    accumulator = GradientAccumulator([weights], 2, name="mine", skip_non_finite=True)
    with pytest.raises(ValueError, match="skip_non_finite=True .* LossScaleOptimizer"):
        accumulator.apply_gradients(optimizer, [tf.ones([2])])
    assert int(accumulator.num_accumulated()) == 0


@pytest.mark.parametrize(
    "limit, expected",
    [
        ({}, [-3.0, -4.0]),
        ({"clip_norm": 2.5}, [-1.5, -2.0]),
        ({"global_clip_norm": 2.5}, [-1.5, -2.0]),
        ({"clip_value": 3.5}, [-3.0, -3.5]),
    ],
)
def test_limits_are_those_of_unscaled_gradients(weights, limit, expected):
    scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=1024.0)
    accumulator = GradientAccumulator([weights], 2)
    apply = tf.function(lambda x: accumulator.apply_gradients(scaling, [x], **limit))
    for gradient in ([2.0, 8.0], [4.0, 0.0]):
        apply(1024.0 * tf.constant(gradient))
    np.testing.assert_allclose(weights, expected)
    # The update with an infinity is left out, and halves the scale once.
    apply(tf.constant([np.inf, 0.0]))
    apply(tf.ones([2]))
    np.testing.assert_allclose(weights, expected)
    assert float(scaling.dynamic_scale.numpy()) == 512.0
    assert int(scaling.iterations.numpy()) == 1


def test_limit_with_a_constant_loss_scale_is_that_of_unscaled_gradients(weights):
    optimizer = keras.optimizers.SGD(1.0, loss_scale_factor=8.0)
    accumulator = GradientAccumulator([weights], 1)
    accumulator.apply_gradients(optimizer, [8.0 * tf.constant([3.0, 4.0])], clip_norm=2.5)
    np.testing.assert_allclose(weights, [-1.5, -2.0])
