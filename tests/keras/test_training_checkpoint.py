"""Tests of TrainingCheckpoint, which continues a fit in the middle of an epoch."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_condacc.keras

NUM_BATCHES = 7
EPOCHS = 3


class Killed(Exception):
    """Stands for the end of the process."""


class Killer(keras.callbacks.Callback):
    def __init__(self, num_batches: int | None) -> None:
        super().__init__()
        self.num_left = num_batches

    def on_train_batch_end(self, batch, logs=None):
        if self.num_left is not None:
            self.num_left -= 1
            if self.num_left < 0:
                raise Killed


def made(remainder: str = "apply", number: int = 3) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.3), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input([3]), *layers])
    model.compile(keras.optimizers.Adam(0.01), loss="mse")
    if number > 1:
        tf_condacc.keras.accumulate_gradients(model, number, remainder=remainder)
    return model


def data() -> tf.data.Dataset:
    random = np.random.default_rng(0)
    x, y = (random.normal(size=[4 * NUM_BATCHES, n]).astype(np.float32) for n in (3, 1))
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


def train(folder, killed_after: int | None = None, save_freq: int = 2, **arguments) -> bytes:
    model = made(**arguments)
    saved = tf_condacc.keras.TrainingCheckpoint(model, folder, save_freq)
    model.fit(
        data(),
        initial_epoch=saved.initial_epoch,
        epochs=EPOCHS,
        verbose=0,
        callbacks=[saved, Killer(killed_after)],
    )
    variables = [*model.variables, *model.optimizer.variables]
    return b"".join(variable.numpy().tobytes() for variable in variables)


@pytest.mark.parametrize("remainder", ["apply", "carry", "drop"])
def test_a_training_that_is_killed_ends_with_the_bits_of_an_undisturbed_one(remainder, tmp_path):
    expected = train(tmp_path / "undisturbed", remainder=remainder)
    for killed_after in (1, 4, 6, 10, 8, 3):
        with pytest.raises(Killed):
            train(tmp_path / "killed", killed_after, remainder=remainder)
    assert train(tmp_path / "killed", remainder=remainder) == expected


def test_a_training_without_accumulation_continues(tmp_path):
    expected = train(tmp_path / "undisturbed", number=1)
    with pytest.raises(Killed):
        train(tmp_path / "killed", 9, number=1)
    assert train(tmp_path / "killed", number=1) == expected


def test_a_restored_accumulation_of_the_same_process_continues(tmp_path, caplog):
    model = made()
    saved = tf_condacc.keras.TrainingCheckpoint(model, tmp_path, 2)
    with pytest.raises(Killed):
        model.fit(data(), epochs=1, verbose=0, callbacks=[saved, Killer(4)])
    restored = tf_condacc.keras.TrainingCheckpoint(model, tmp_path, 2)
    assert (restored.initial_epoch, restored.initial_batch) == (0, 4)
    model.fit(data(), epochs=1, verbose=0, callbacks=[restored])
    assert int(model.optimizer.iterations) == 3
    assert [each for each in caplog.records if each.name == "tf_condacc"] == []


def test_files_of_the_model_stay_those_of_keras(tmp_path):
    model = made()
    saved = tf_condacc.keras.TrainingCheckpoint(model, tmp_path / "saved", 2)
    model.fit(data(), epochs=1, verbose=0, callbacks=[saved])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is keras.Sequential and not hasattr(loaded, "_condacc_accumulation")


def test_unbuilt_models_and_bad_frequencies_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has not been built"):
        tf_condacc.keras.TrainingCheckpoint(keras.Sequential([keras.layers.Dense(1)]), tmp_path, 1)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        tf_condacc.keras.TrainingCheckpoint(made(), tmp_path, 0)
