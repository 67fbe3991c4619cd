"""A model that accumulates is saved, loaded, copied, compiled and restored as any Keras model."""

from __future__ import annotations

import copy
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras import trainings
from tests.keras.trainings import (
    BATCH_SIZE,
    NUM_MICRO_BATCHES,
    UPDATES_PER_EPOCH,
    Case,
    X,
    Y,
    fit,
    largest_difference,
    num_updates,
    sequential,
)
from tests.support.gpus import NO_XLA, skip_on_gpu
from tf_condacc.keras import accumulate_gradients

CASE = Case(sequential)
_REPLACED = (
    "fit",
    "reset_metrics",
    "compile",
    "train_step",
    "load_weights",
    "set_weights",
    "_trackable_children",
)


def compiled(**arguments: Any) -> keras.Model:
    return trainings.compiled(Case(sequential, compile=arguments), sequential)


def is_plain(model: keras.Model) -> bool:
    methods = {"apply", "apply_gradients"} & set(vars(model.optimizer))
    return not methods and not any(name in vars(model) for name in _REPLACED)


@pytest.fixture(scope="module")
def two_epochs() -> list[np.ndarray]:
    """Returns the weights after two epochs of plain Keras with large batches."""
    return trainings.plain(CASE).weights


@pytest.fixture
def after_one_epoch() -> keras.Model:
    """Returns a model that has accumulated for one epoch, and has a remainder."""
    model = compiled()
    accumulate_gradients(model, NUM_MICRO_BATCHES)
    fit(model)
    return model


def test_a_saved_model_goes_on_after_it_is_loaded(after_one_epoch, two_epochs, tmp_path):
    after_one_epoch.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert is_plain(loaded) and type(loaded) is keras.Sequential
    assert num_updates(loaded) == UPDATES_PER_EPOCH
    accumulate_gradients(loaded, NUM_MICRO_BATCHES)
    fit(loaded)
    assert largest_difference(loaded.get_weights(), two_epochs) < 1e-6
    fit(after_one_epoch)  # The saved model continues, too.
    assert largest_difference(after_one_epoch.get_weights(), two_epochs) < 1e-6


def test_a_loaded_model_that_does_not_accumulate_trains_as_any_other(after_one_epoch, tmp_path):
    after_one_epoch.train_on_batch(X[:BATCH_SIZE], Y[:BATCH_SIZE])  # Saved in the middle.
    after_one_epoch.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    fit(loaded, epochs=1)
    assert num_updates(loaded) == UPDATES_PER_EPOCH + 14


def test_weights_are_saved_and_loaded(after_one_epoch, tmp_path):
    saved = after_one_epoch.get_weights()
    after_one_epoch.save_weights(tmp_path / "model.weights.h5")
    fit(after_one_epoch)
    after_one_epoch.load_weights(tmp_path / "model.weights.h5")
    assert largest_difference(after_one_epoch.get_weights(), saved) == 0
    plain = compiled()
    fit(plain)
    plain.load_weights(tmp_path / "model.weights.h5")
    assert largest_difference(plain.get_weights(), saved) == 0


def test_copies_clones_and_exports_are_plain(after_one_epoch, tmp_path):
    copied = copy.deepcopy(after_one_epoch)
    cloned = keras.models.clone_model(after_one_epoch)
    cloned.compile("sgd", "mse")
    for each in (copied, cloned):
        assert is_plain(each)
        fit(each)
    assert num_updates(after_one_epoch) == UPDATES_PER_EPOCH
    after_one_epoch.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    served = exported.serve(X[:3])
    np.testing.assert_allclose(served, after_one_epoch.predict(X[:3], verbose=0), rtol=1e-5)


def test_a_model_is_compiled_again_with_other_variables(after_one_epoch):
    after_one_epoch.layers[0].trainable = False
    frozen = after_one_epoch.layers[0].get_weights()
    before = after_one_epoch.optimizer
    after_one_epoch.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    fit(after_one_epoch)
    assert num_updates(after_one_epoch) == UPDATES_PER_EPOCH
    assert largest_difference(after_one_epoch.layers[0].get_weights(), frozen) == 0
    assert "apply" not in vars(before)


def test_a_model_may_be_compiled_afterwards():
    model = sequential()
    accumulate_gradients(model, NUM_MICRO_BATCHES)
    model.compile(optimizer="sgd", loss="mse")
    fit(model)
    assert num_updates(model) == UPDATES_PER_EPOCH


def test_a_second_call_replaces_the_first_and_end_restores_the_model():
    model = compiled()
    fit(model)
    before = num_updates(model)
    attributes = set(vars(model))
    accumulate_gradients(model, NUM_MICRO_BATCHES)
    fit(model)
    assert {"_condacc_accumulation", *_REPLACED} == set(vars(model)) - attributes
    accumulation = accumulate_gradients(model, 2)
    fit(model)
    assert num_updates(model) == before + UPDATES_PER_EPOCH + 7
    accumulation.end()
    accumulation.end()
    assert is_plain(model) and model.supports_jit
    fit(model)
    assert num_updates(model) == 2 * before + UPDATES_PER_EPOCH + 7


def test_an_optimizer_of_two_models_accumulates_for_one():
    first, second = compiled(), compiled()
    optimizer = first.optimizer
    optimizer.build(first.trainable_variables + second.trainable_variables)
    second.compile(optimizer=optimizer, loss="mse")
    accumulate_gradients(first, 14)
    for model, expected in ((first, 1), (second, 15), (first, 16)):
        fit(model)
        assert int(optimizer.iterations.numpy()) == expected


def _checkpoint(make: Any) -> Any:
    """Returns how weights are saved to and restored from a checkpoint of some objects."""

    def save(model: keras.Model, folder: Any) -> Any:
        path = tf.train.Checkpoint(**make(model)).save(folder / "checkpoint")
        return lambda: tf.train.Checkpoint(**make(model)).restore(path).assert_consumed()

    return save


def _weights_file(model: keras.Model, folder: Any) -> Any:
    model.save_weights(folder / "model.weights.h5")
    return lambda: model.load_weights(folder / "model.weights.h5")


def _weights_of_model(model: keras.Model, folder: Any) -> Any:
    weights = model.get_weights()
    return lambda: model.set_weights(weights)


@pytest.mark.parametrize(
    "save",
    [
        _checkpoint(lambda model: {"model": model}),
        _checkpoint(lambda model: {"optimizer": model.optimizer}),
        _weights_file,
        _weights_of_model,
    ],
    ids=["model", "optimizer", "weights", "set_weights"],
)
def test_a_restore_discards_what_was_accumulated(save, tmp_path, caplog):
    model, plain = compiled(), compiled()
    accumulate_gradients(model, 2)
    model.train_on_batch(X[:BATCH_SIZE], Y[:BATCH_SIZE])  # Makes the accumulators.
    restore = save(model, tmp_path)
    restore()
    assert "discards 1 accumulated micro-batches, because" in caplog.text
    for first in (BATCH_SIZE, 2 * BATCH_SIZE):
        model.train_on_batch(X[first : first + BATCH_SIZE], Y[first : first + BATCH_SIZE])
    plain.train_on_batch(X[BATCH_SIZE : 3 * BATCH_SIZE], Y[BATCH_SIZE : 3 * BATCH_SIZE])
    assert num_updates(model) == 1
    assert largest_difference(model.get_weights(), plain.get_weights()) < 1e-6


def test_checkpoints_of_a_model_are_those_of_plain_keras(after_one_epoch, tmp_path):
    path = tf.train.Checkpoint(model=after_one_epoch).save(tmp_path / "checkpoint")
    plain = compiled()
    fit(plain)
    tf.train.Checkpoint(model=plain).restore(path).assert_consumed()
    assert largest_difference(plain.get_weights(), after_one_epoch.get_weights()) == 0


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_a_variable_without_gradients_is_left_as_it_is():
    class Unused(trainings.Subclassed):
        def build(self, shape: Any) -> None:
            self.unused = self.add_weight(shape=[2], initializer="ones")

    case = Case(Unused, lambda: keras.optimizers.SGD(0.1, use_ema=True))
    ours, truth = trainings.accumulating(case), trainings.plain(case)
    trainings.assert_same(case, ours, truth)
    assert any(np.array_equal(weight, [1.0, 1.0]) for weight in ours.weights)


def test_an_interrupted_training_goes_on_from_its_backup(two_epochs, tmp_path):
    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if self.model.optimizer.iterations > UPDATES_PER_EPOCH:
                raise KeyboardInterrupt

    def backup() -> keras.callbacks.Callback:
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    model = compiled()
    accumulate_gradients(model, NUM_MICRO_BATCHES)
    with pytest.raises(KeyboardInterrupt):
        fit(model, epochs=2, callbacks=[backup(), Fails()])
    for again in (model, compiled()):  # In the same process, and as in a new one.
        if again is not model:
            accumulate_gradients(again, NUM_MICRO_BATCHES)
            with pytest.raises(KeyboardInterrupt):
                fit(again, epochs=2, callbacks=[backup(), Fails()])
        fit(again, epochs=2, callbacks=[backup()])
        assert largest_difference(again.get_weights(), two_epochs) < 1e-6


def test_an_infinite_gradient_skips_the_update_and_halves_the_scale_once():
    case = Case(sequential, lambda: keras.optimizers.LossScaleOptimizer(trainings.sgd(), 1024.0))
    model = trainings.compiled(case, sequential)
    accumulate_gradients(model, NUM_MICRO_BATCHES)
    start = model.get_weights()
    y = Y.copy()
    y[10] = np.inf  # In the second of the first four micro-batches.
    model.fit(X[:32], y[:32], batch_size=BATCH_SIZE, shuffle=False, verbose=0)
    assert largest_difference(model.get_weights(), start) == 0
    assert (num_updates(model), float(model.optimizer.dynamic_scale.numpy())) == (0, 512.0)
    model.fit(X[:32], Y[:32], batch_size=BATCH_SIZE, shuffle=False, verbose=0)
    assert num_updates(model) == 1


def test_a_micro_batch_that_is_not_finite_is_skipped(caplog):
    model, plain = compiled(), compiled()
    accumulation = accumulate_gradients(model, 3, skip_non_finite=True)
    y = Y.copy()
    y[10] = np.nan  # In the second of four micro-batches.
    model.fit(X[:32], y[:32], batch_size=BATCH_SIZE, shuffle=False, verbose=0)
    rest = np.r_[0:8, 16:32]
    plain.train_on_batch(X[rest], Y[rest])
    assert largest_difference(model.get_weights(), plain.get_weights()) < 1e-6
    assert (num_updates(model), accumulation.num_skipped()) == (1, 1)
    assert "skipped" not in caplog.text
    for num_finite in (4, 0, 0):
        y = np.full_like(Y[:32], np.nan)
        y[:num_finite] = 0
        model.fit(X[:32], y, batch_size=4, shuffle=False, epochs=2, verbose=0)
        assert caplog.text.count("has skipped all") == (num_finite == 0)
    assert "has skipped all micro-batches of an epoch, because their gradients" in caplog.text
    caplog.clear()
    accumulate_gradients(model, 3, remainder="drop", skip_non_finite=True)
    y = Y.copy()
    y[10] = np.nan  # In the second of two micro-batches, of which the first is left over.
    model.fit(X[:16], y[:16], batch_size=BATCH_SIZE, shuffle=False, epochs=2, verbose=0)
    assert "skipped" not in caplog.text
    scaling = keras.optimizers.LossScaleOptimizer(trainings.sgd())
    with pytest.raises(ValueError, match="skip_non_finite=True would hide"):
        model.compile(scaling, "mse")


def test_the_end_restores_what_was_compiled(monkeypatch, caplog):
    skip_on_gpu(NO_XLA)
    model = compiled(jit_compile=True)
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [gpu])
    accumulate_gradients(model, 2)
    assert "switches jit_compile off until it ends" in caplog.text
    accumulate_gradients(model, 2).end()
    assert model.jit_compile
    accumulation = accumulate_gradients(model, 2)
    model.compile(optimizer="sgd", loss="mse", jit_compile=False)
    accumulation.end()
    assert not model.jit_compile
