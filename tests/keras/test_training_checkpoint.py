"""Tests of TrainingCheckpoint, which continues a fit in the middle of an epoch."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_condacc.keras
from tests.support.wide import all_but_wide
from tf_condacc.keras._accumulators import Accumulators

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


class KillerBefore(Killer):
    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)

    def on_train_batch_end(self, batch, logs=None):
        pass


def made(remainder: str = "apply", number: int = 3, dropout: float = 0.3) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dropout(dropout), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input([3]), *layers])
    model.compile(keras.optimizers.Adam(0.01), loss="mse")
    if number > 1:
        tf_condacc.keras.accumulate_gradients(model, number, remainder=remainder)
    return model


def data() -> tf.data.Dataset:
    random = np.random.default_rng(0)
    x, y = (random.normal(size=[4 * NUM_BATCHES, n]).astype(np.float32) for n in (3, 1))
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


def bits(model: keras.Model) -> bytes:
    variables = [*model.variables, *model.optimizer.variables]
    return b"".join(variable.numpy().tobytes() for variable in variables)


def train(
    folder,
    killed_after: int | None = None,
    save_freq: int = 2,
    fit_arguments: dict[str, Any] | None = None,
    **arguments,
) -> bytes:
    model = made(**arguments)
    saved = tf_condacc.keras.TrainingCheckpoint(model, folder, save_freq)
    fit_arguments = {"x": data(), "epochs": EPOCHS, **(fit_arguments or {})}
    model.fit(
        initial_epoch=saved.initial_epoch,
        verbose=0,
        callbacks=[saved, Killer(killed_after)],
        **fit_arguments,
    )
    return bits(model)


@pytest.mark.parametrize(
    "remainder",
    [
        "carry",
        pytest.param("apply", marks=pytest.mark.killed_trainings),
        pytest.param("drop", marks=pytest.mark.killed_trainings),
    ],
)
def test_a_training_that_is_killed_ends_with_the_bits_of_an_undisturbed_one(remainder, tmp_path):
    expected = train(tmp_path / "undisturbed", remainder=remainder)
    for killed_after in (1, 6, 10, 3):
        with pytest.raises(Killed):
            train(tmp_path / "killed", killed_after, remainder=remainder)
    assert train(tmp_path / "killed", remainder=remainder) == expected


def test_a_training_without_accumulation_continues(tmp_path):
    expected = train(tmp_path / "undisturbed", number=1)
    with pytest.raises(Killed):
        train(tmp_path / "killed", 9, number=1)
    assert train(tmp_path / "killed", number=1) == expected


@pytest.mark.parametrize(
    ("remainder", "save_freq", "is_warned"),
    [("carry", "epoch", True), ("apply", 2, True), ("apply", "epoch", False)],
)
def test_backups_of_keras_that_lack_gradients_have_a_warning(
    remainder, save_freq, is_warned, tmp_path, caplog
):
    model = made(remainder)
    backup = keras.callbacks.BackupAndRestore(tmp_path, save_freq=save_freq)
    for callbacks in ([backup], keras.callbacks.CallbackList([backup], model=model)):
        model.fit(data(), verbose=0, callbacks=callbacks)
    warning = "Use tf_condacc.keras.TrainingCheckpoint, which saves them"
    assert caplog.text.count(warning) == is_warned


def test_an_epoch_after_a_restart_whose_micro_batches_are_all_skipped_has_a_warning(
    tmp_path, caplog
):
    x, is_bad = np.ones([12, 1], np.float32), np.isin(np.arange(12)[:, None], [0, 5, 9])
    for batches, epochs in ((np.where(is_bad, np.nan, x), 1), (x, 2), (np.nan * x, 3)):
        caplog.clear()
        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
        model.compile("sgd", loss="mse")
        accumulation = tf_condacc.keras.accumulate_gradients(model, 3, skip_non_finite=True)
        saved = tf_condacc.keras.TrainingCheckpoint(model, tmp_path, "epoch")
        model.fit(
            batches,
            x,
            batch_size=1,
            shuffle=False,
            initial_epoch=saved.initial_epoch,
            epochs=epochs,
            callbacks=[saved],
            verbose=0,
        )
        skipped = {1: 3, 2: 3, 3: 15}[epochs]
        assert accumulation.num_skipped() == skipped
        assert caplog.text.count("has skipped all micro-batches") == (epochs == 3)


class TwoOptimizers(keras.Model):
    """Trains each of its layers with an optimizer of its own, and keeps state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)
        self.noise = [tf.random.Generator.from_seed(1)]
        self.counts = {"steps": tf.Variable(0.0, trainable=False), "module": tf.Module()}
        self.counts["module"].steps = tf.Variable(0.0)
        self.late = tf.Module()  # Its variable is made in the first step.
        self.losses_so_far = tf_condacc.ConditionalAccumulator(tf.float32, [], reduction_type="SUM")
        self.unused = keras.optimizers.Adam()
        self.second_optimizer = keras.optimizers.Adam(0.02)

    def call(self, inputs):
        return self.second(self.first(inputs))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x + 0.1 * self.noise[0].normal(tf.shape(x))))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.counts["steps"].assign_add(1.0)
        self.counts["module"].steps.assign_add(2.0)
        self.losses_so_far.apply_grad(loss)
        if not hasattr(self.late, "steps"):
            with tf.init_scope():
                self.late.steps = tf.Variable(0)
        self.late.steps.assign_add(1)
        gradients[0] *= self.counts["steps"] + self.counts["module"].steps
        self.optimizer.apply(gradients[:2], self.first.trainable_variables)
        self.second_optimizer.apply(gradients[2:], self.second.trainable_variables)
        return {"loss": loss}


@pytest.mark.parametrize("accumulates", all_but_wide([False, True], [True]))
def test_other_optimizers_and_state_of_the_model_are_saved(accumulates, tmp_path):
    def train_it(folder, killed_after=None, is_built=True, change=lambda model: None):
        keras.utils.set_random_seed(1)
        model = TwoOptimizers()
        change(model)
        model(np.zeros([4, 3], np.float32))
        model.compile(keras.optimizers.Adam(0.01), loss="mse")
        model.optimizer.build(model.first.trainable_variables)
        if accumulates:
            optimizers = [model.optimizer, model.second_optimizer]
            tf_condacc.keras.accumulate_gradients(
                model, 3, remainder="carry", optimizers=optimizers
            )
        if is_built:
            model.second_optimizer.build(model.second.trainable_variables)
        saved = tf_condacc.keras.TrainingCheckpoint(model, folder, 2)
        arguments = {"initial_epoch": saved.initial_epoch, "epochs": EPOCHS, "verbose": 0}
        model.fit(data(), callbacks=[saved, Killer(killed_after)], **arguments)
        return bits(model), int(model.late.steps), float(model.losses_so_far.take_grad(1))

    expected = train_it(tmp_path / "undisturbed")
    for killed_after in (4, 9):
        with pytest.raises(Killed):
            train_it(tmp_path / "killed", killed_after)
    assert train_it(tmp_path / "killed") == expected
    for change in (
        lambda model: setattr(model, "more", tf.random.Generator.from_seed(2)),
        lambda model: delattr(model, "losses_so_far"),
    ):
        with pytest.raises(ValueError, match=r"another model. Of modules, random generators and"):
            train_it(tmp_path / "killed", change=change)
    with pytest.raises(ValueError, match="optimizer 'adam.*', which was built after"):
        train_it(tmp_path / "unbuilt", is_built=False)


@pytest.mark.killed_trainings
@pytest.mark.parametrize(
    ("remainder", "is_size_known"), [("apply", True), ("carry", True), ("carry", False)]
)
def test_a_training_that_is_killed_at_the_end_of_an_epoch_continues(
    remainder, is_size_known, tmp_path
):
    batches = data() if is_size_known else data().filter(lambda x, y: True)
    arguments = {"x": batches, "validation_data": data()}
    train_it = functools.partial(
        train, save_freq=NUM_BATCHES, remainder=remainder, fit_arguments=arguments
    )
    expected = train_it(tmp_path / "undisturbed")
    for _ in range(2):  # The epochs after the first one are trained as well.
        with pytest.raises(Killed):
            train_it(tmp_path / "killed", NUM_BATCHES - 1)
    with pytest.raises(Killed):
        train_it(tmp_path / "killed", NUM_BATCHES)
    assert train_it(tmp_path / "killed") == expected


def test_a_callback_continues_a_single_fit(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, 4, number=1)
    model = made(number=1)
    saved = tf_condacc.keras.TrainingCheckpoint(model, tmp_path, 2)
    for _ in range(2):
        before = int(model.optimizer.iterations)
        model.fit(data(), verbose=0, callbacks=[saved])
    assert (saved.initial_batch, int(model.optimizer.iterations) - before) == (4, NUM_BATCHES)


def test_an_error_while_batches_are_read_leaves_a_model_that_trains(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, 4, number=1)
    model = made(number=1)
    saved = tf_condacc.keras.TrainingCheckpoint(model, tmp_path, 2)
    with pytest.raises(Killed):
        model.fit(data(), verbose=0, callbacks=[saved, Killer(1)])
    with pytest.raises(ValueError, match="after 4 batches: an earlier fit .* ended by an error"):
        model.fit(data(), verbose=0, callbacks=[saved])
    model.fit(data(), verbose=0)
    assert int(model.optimizer.iterations) == 4 + NUM_BATCHES


@pytest.mark.parametrize(
    ("number", "train_again", "num_updates"),
    [
        (1, lambda model: model.train_on_batch(*next(iter(data()))), 1),
        (3, lambda model: model.fit(data(), verbose=0), 3),  # The last one is of one micro-batch.
    ],
    ids=["train_on_batch", "fit"],
)
def test_an_error_just_before_a_batch_is_read_leaves_a_model_that_trains(
    number, train_again, num_updates, tmp_path
):
    with pytest.raises(Killed):
        train(tmp_path, 4, number=number)
    model = made(number=number)
    saved = tf_condacc.keras.TrainingCheckpoint(model, tmp_path, 2)
    with pytest.raises(Killed):
        model.fit(data(), verbose=0, callbacks=[saved, KillerBefore(1)])
    before = int(model.optimizer.iterations)
    train_again(model)
    assert int(model.optimizer.iterations) - before == num_updates
    assert "make_train_function" not in vars(model)


def test_another_number_of_steps_per_execution_is_refused_if_it_does_not_divide(tmp_path):
    def saved_with(steps_per_execution):
        model = made(number=1)
        model.compile(model.optimizer, loss="mse", steps_per_execution=steps_per_execution)
        return model, tf_condacc.keras.TrainingCheckpoint(model, tmp_path, 4)

    with pytest.raises(Killed):
        train(tmp_path, 4, 4, number=1)
    model, saved = saved_with(3)
    with pytest.raises(ValueError, match="divides the 4 batches of epoch 0 .* got 3"):
        model.fit(data(), verbose=0, callbacks=[saved])
    model, saved = saved_with(2)
    model.fit(data(), verbose=0, callbacks=[saved])
    assert int(model.optimizer.iterations) == NUM_BATCHES


def test_a_fit_that_begins_with_another_epoch_is_refused(tmp_path):
    train(tmp_path)
    model = made()
    saved = tf_condacc.keras.TrainingCheckpoint(model, tmp_path, 2)
    before = bits(model)
    with pytest.raises(ValueError, match=r"begins with epoch 3 .* got 0\. Pass initial_epoch="):
        model.fit(data(), epochs=EPOCHS, verbose=0, callbacks=[saved])
    assert bits(model) == before


def test_checkpoints_of_other_models_are_refused_and_leave_the_model(tmp_path):
    train(tmp_path / "adam", number=1)
    train(tmp_path / "accumulated")

    def refused(folder, message, optimizer=None, units=4):
        model = keras.Sequential([keras.Input([3]), keras.layers.Dense(units, "tanh")])
        model.add(keras.layers.Dropout(0.3))
        model.add(keras.layers.Dense(1))
        model.compile(optimizer or keras.optimizers.Adam(0.01), loss="mse")
        model.optimizer.build(model.trainable_variables)
        before = bits(model)
        with pytest.raises(ValueError, match=message):
            tf_condacc.keras.TrainingCheckpoint(model, tmp_path / folder, 2)
        assert bits(model) == before

    # The variables of SGD are the first ones of Adam.
    refused("adam", "have 7 variables, but the checkpoint has 15", keras.optimizers.SGD())
    refused("adam", r"is float32 \[3, 5\], but float32 \[3, 4\]", units=5)
    refused("accumulated", "contains accumulated gradients, but the model accumulates none")


def test_accumulated_gradients_under_the_names_of_an_earlier_version_are_refused(
    monkeypatch, tmp_path
):
    def children(self, *args, **kwargs):
        return {f"{name}_call_0": each for name, each in self._children.items()}

    with monkeypatch.context() as patched:
        patched.setattr(Accumulators, "_trackable_children", children)
        with pytest.raises(Killed):
            train(tmp_path, 4)
    with pytest.raises(ValueError, match="another version of tf_condacc"):
        train(tmp_path)


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


def test_a_frequency_of_epochs_saves_at_their_ends_alone(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, NUM_BATCHES + 5, save_freq="epoch", number=1)
    saved = tf_condacc.keras.TrainingCheckpoint(made(number=1), tmp_path, "epoch")
    assert (saved.initial_epoch, saved.initial_batch) == (1, 0)


def test_unbuilt_models_and_bad_frequencies_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has not been built"):
        tf_condacc.keras.TrainingCheckpoint(keras.Sequential([keras.layers.Dense(1)]), tmp_path, 1)
    for frequency in (0, "batch", None):
        with pytest.raises(ValueError, match=f"'epoch' or .* at least 1, got {frequency!r}"):
            tf_condacc.keras.TrainingCheckpoint(made(), tmp_path, frequency)
