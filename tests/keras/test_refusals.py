"""Models and arguments that cannot accumulate are refused, with an error that names them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from condacc import versions
from tests.keras import trainings
from tests.keras.trainings import (
    NUM_MICRO_BATCHES,
    NUM_SAMPLES,
    Case,
    X,
    Y,
    fit,
    num_updates,
    sequential,
)
from tests.support.gpus import NO_XLA, skip_on_gpu
from tests.support.versions import needs_means_of_activity
from tf_condacc.keras import accumulate_gradients


def compiled(**arguments: Any) -> keras.Model:
    return trainings.compiled(Case(sequential, compile=arguments), sequential)


def refused(error: type[Exception], model: Any, *arguments: Any, **named: Any) -> str:
    """Returns the message of an error; the model stays as it was."""
    before = dict(vars(model)) if isinstance(model, keras.Model) else None
    with pytest.raises(error) as raised:
        accumulate_gradients(model, *arguments, **named)
    assert before is None or before == vars(model)
    return str(raised.value)


def test_bad_arguments_are_named():
    model = compiled()
    assert "expects a model of Keras 3, got builtins.int" in refused(TypeError, 1, 2)
    assert "integer num_micro_batches, got 2.5" in refused(TypeError, model, 2.5)
    assert "at least 1, got 0" in refused(ValueError, model, 0)
    assert "weight(x, y, sample_weight), got 3" in refused(TypeError, model, 2, weight=3)
    message = refused(TypeError, model, 2, optimizers=["sgd"])
    assert "a list of optimizers of Keras 3, got str in it" in message
    several = [keras.optimizers.SGD() for _ in range(2)]
    message = refused(ValueError, model, 2, optimizers=several, skip_non_finite=True)
    assert "could drop a part of a micro-batch. Leave out skip_non_finite" in message
    message = refused(ValueError, model, 2, remainder="keep")
    assert model.name in message and "'apply', 'carry' or 'drop', got 'keep'" in message


def test_a_keras_whose_models_do_not_say_by_what_a_loss_is_divided_is_refused():
    model = compiled()
    del model._compile_loss
    message = refused(RuntimeError, model, 2)
    assert f"does not know Keras {keras.__version__}" in message and "'_compile_loss'" in message


def test_an_optimizer_that_accumulates_by_itself_is_refused():
    twice = keras.optimizers.SGD(gradient_accumulation_steps=3)
    for optimizer in (twice, keras.optimizers.LossScaleOptimizer(twice)):
        model = sequential()
        model.compile(optimizer=optimizer, loss="mse")
        message = refused(ValueError, model, 2)
        assert model.name in message and "gradient_accumulation_steps=3" in message
    model = compiled()
    accumulate_gradients(model, 2)
    optimizer = model.optimizer
    with pytest.raises(ValueError, match="gradient_accumulation_steps=3"):
        model.compile(optimizer=twice, loss="mse")
    assert model.optimizer is optimizer
    model.compile(optimizer=keras.optimizers.serialize(twice), loss="mse")
    with pytest.raises(ValueError, match="gradient_accumulation_steps=3"):
        fit(model)


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize`")
def test_training_in_float8_is_refused():
    model = keras.Sequential([keras.Input([16]), keras.layers.Dense(16)])
    model.quantize("float8")
    model.compile("sgd", "mse")
    accumulate_gradients(model, 2)
    with pytest.raises(ValueError, match="trains in float8"):
        model.fit(np.ones([16, 16]), np.ones([16, 16]), verbose=0)


def test_xla_is_refused_if_it_is_asked_for():
    skip_on_gpu(NO_XLA)
    model = compiled(jit_compile=True)
    assert "jit_compile=True, but XLA has no accumulators" in refused(ValueError, model, 2)
    model = compiled(jit_compile="auto")
    accumulate_gradients(model, 2)
    with pytest.raises(ValueError, match="jit_compile=True, but XLA has no accumulators"):
        model.compile("sgd", "mse", None, None, None, False, 1, True)
    model.compile("sgd", "mse", jit_compile="auto")
    assert not model.jit_compile


def test_xla_that_keras_has_chosen_is_turned_off(monkeypatch):
    """As on a machine with a GPU, where Keras compiles with XLA by default."""
    model = compiled(jit_compile=True)
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [gpu])
    accumulate_gradients(model, NUM_MICRO_BATCHES)
    assert not model.jit_compile
    model.compile(optimizer="sgd", loss="mse")
    assert not model.jit_compile
    fit(model)


def test_sums_and_means_together_are_refused():
    inputs = keras.Input([6])
    model = keras.Model(inputs, [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)])
    model.compile("sgd", [keras.losses.MeanSquaredError(reduction="sum"), "mse"])
    assert "the losses have the reductions ['sum', 'sum_over_batch_size']" in refused(
        ValueError, model, 2
    )


def test_sums_with_added_losses_are_refused():
    model = trainings.functional()
    model.compile("sgd", keras.losses.MeanSquaredError(reduction="sum"))
    accumulate_gradients(model, 2)
    with pytest.raises(ValueError, match="reduction 'sum' .* added losses"):
        fit(model)


def test_another_number_of_gradients_than_of_variables_is_refused():
    class WithFewer(trainings.Subclassed):
        def train_step(self, data: Any) -> Any:
            self(data[0])
            self.optimizer.apply([tf.ones([])], self.trainable_weights)

    model = WithFewer()
    model.compile("sgd", "mse")
    accumulate_gradients(model, 2)
    with pytest.raises(ValueError, match="The accumulation of .* the SGD 1 gradients of 4 vari"):
        fit(model)


def test_gradients_without_variables_are_those_of_a_built_optimizer():
    class WithoutVariables(trainings.Subclassed):
        def train_step(self, data: Any) -> Any:
            self(data[0])
            self.optimizer.apply([tf.ones(v.shape) for v in self.trainable_weights])
            return {"loss": tf.constant(0.0)}

    for is_built in (False, True):
        model = WithoutVariables()
        model(X[:1])
        model.compile(keras.optimizers.SGD(0.5), "mse")
        accumulate_gradients(model, 2)
        if not is_built:
            with pytest.raises(ValueError, match="must already be built"):
                fit(model)
            continue
        model.optimizer.build(model.trainable_variables)
        before = model.get_weights()
        model.fit(X[:16], Y[:16], batch_size=8, verbose=0)
        assert num_updates(model) == 1
        for weights, after in zip(before, model.get_weights(), strict=True):
            np.testing.assert_allclose(after, weights - 0.5, atol=1e-6)


def test_activity_regularizers_that_are_sums_are_refused(monkeypatch):
    monkeypatch.setattr(versions, "sums_activity_losses", lambda: True)
    layer = keras.layers.Dense(1, activity_regularizer="l1", name="regularized")
    model = keras.Sequential([keras.Input([6]), layer])
    model.compile("sgd", "mse")
    accumulate_gradients(model, 2)
    with pytest.raises(ValueError, match=r"before version 3.14, .* layers \['regularized'\]"):
        model.fit(X, Y, verbose=0)


@needs_means_of_activity
def test_activity_regularizers_with_masks_or_sums_of_weights_are_refused():
    inputs = keras.Input([5], dtype="int32")
    rows = keras.layers.Embedding(trainings.NUM_ROWS, 3, mask_zero=True)(inputs)
    hidden = keras.layers.Dense(4, activity_regularizer="l1", name="regularized")(rows)
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_regularizer="l2")(hidden))
    model.compile("sgd", "mse")
    accumulate_gradients(model, 2)
    with pytest.raises(ValueError, match=r"regularizers of the layers \['regularized'\] .* mask"):
        model.train_on_batch(trainings.IDS, trainings.LABELS)
    model = trainings.functional()
    model.compile("sgd", keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"))
    accumulate_gradients(model, 2)
    model.train_on_batch(X, Y)
    with pytest.raises(ValueError, match="activity regularizers .* 'mean_with_sample_weight'"):
        model.train_on_batch(X, Y, trainings.WEIGHTS)


def test_a_fit_that_is_called_through_the_class_is_refused():
    model = compiled()
    accumulate_gradients(model, 2)
    before = model.get_weights()
    with pytest.raises(RuntimeError, match=r"fit was called through a class.* Call model.fit\(\)"):
        keras.Model.fit(model, X, Y, verbose=0)
    assert (
        num_updates(model) == 0 and trainings.largest_difference(model.get_weights(), before) == 0
    )


def test_a_fit_that_takes_no_callbacks_is_refused():
    class WithoutCallbacks(trainings.Subclassed):
        def fit(self, x: Any, y: Any) -> Any:
            return super().fit(x, y, verbose=0)

    class WithOthers(trainings.Subclassed):
        def fit(self, x: Any, **others: Any) -> Any:
            return super().fit(x, Y, verbose=0, **others)

    model = WithoutCallbacks()
    model.compile("sgd", "mse")
    accumulate_gradients(model, 2)
    with pytest.raises(TypeError, match=r"fit of model .* must accept `callbacks` or \*\*kwargs"):
        model.fit(X, Y)
    model = WithOthers()
    model.compile("sgd", "mse")
    accumulate_gradients(model, 2)
    model.fit(X, batch_size=NUM_SAMPLES // 2)
    assert num_updates(model) == 1
