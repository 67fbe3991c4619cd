"""What happens to the micro-batches that are left over at the end of an epoch or of `fit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras.trainings import (
    BATCH_SIZE,
    EPOCHS,
    NUM_MICRO_BATCHES,
    NUM_SAMPLES,
    X,
    Y,
    largest_difference,
    sequential,
)
from tests.support.initial_values import seed_initial_values
from tf_condacc.keras import Accumulation, accumulate_gradients

PER_EPOCH = -(-NUM_SAMPLES // BATCH_SIZE)  # 14 micro-batches: 2 are left over.
CHOICES = ("apply", "carry", "drop")


def compiled() -> keras.Model:
    model = sequential()
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    return model


class Training:
    """A model that accumulates, and always begins with the same weights."""

    def __init__(self, remainder: str) -> None:
        seed_initial_values()
        self.model = compiled()
        self.accumulation: Accumulation = accumulate_gradients(
            self.model, NUM_MICRO_BATCHES, remainder=remainder
        )
        self._start = self.model.get_weights()
        self._plain = compiled()

    def begin(self) -> Training:
        self.model.set_weights(self._start)
        self._updates_before = self._updates()
        return self

    def fit(self, x: Any = X, y: Any = Y, **arguments: Any) -> Any:
        given = {"batch_size": BATCH_SIZE, "epochs": EPOCHS, "shuffle": False, "verbose": 0}
        return self.model.fit(x, y, **(given | arguments))

    def train_on(self, numbers: range) -> None:
        for number in numbers:
            part = slice(number * BATCH_SIZE, (number + 1) * BATCH_SIZE)
            self.model.train_on_batch(X[part], Y[part])

    @property
    def num_updates(self) -> int:
        return self._updates() - self._updates_before

    def assert_trained_on(self, *batches: np.ndarray) -> None:
        """Checks that the weights are those of plain Keras after some batches, given as rows."""
        self._plain.set_weights(self._start)
        for rows in batches:
            self._plain.train_on_batch(X[rows], Y[rows])
        assert self.num_updates == len(batches)
        assert largest_difference(self.model.get_weights(), self._plain.get_weights()) < 1e-6

    def _updates(self) -> int:
        return int(self.model.optimizer.iterations.numpy())


@pytest.fixture(scope="module")
def trainings() -> dict[str, Training]:
    return {remainder: Training(remainder) for remainder in CHOICES}


@pytest.fixture(params=CHOICES)
def training(request: pytest.FixtureRequest, trainings: dict[str, Training]) -> Training:
    return trainings[request.param].begin()


@pytest.fixture
def applying(trainings: dict[str, Training]) -> Training:
    return trainings["apply"].begin()


def rows(first: int, last: int) -> np.ndarray:
    """Returns the rows of consecutive micro-batches of the data, which begin anew at their end."""
    micro_batches = np.split(np.arange(NUM_SAMPLES), range(BATCH_SIZE, NUM_SAMPLES, BATCH_SIZE))
    return np.concatenate((micro_batches * EPOCHS)[first:last])


def in_fours(first: int, last: int) -> list[np.ndarray]:
    return [
        rows(i, min(i + NUM_MICRO_BATCHES, last)) for i in range(first, last, NUM_MICRO_BATCHES)
    ]


class Calls(keras.callbacks.Callback):
    """Calls a function after a batch, or at the end of an epoch."""

    def __init__(
        self,
        call: Callable[[keras.Model], None],
        batch: int | None = None,
        epoch: int | None = None,
    ) -> None:
        super().__init__()
        self._call, self._batch, self._epoch = call, batch, epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self._batch:
            self._call(self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == self._epoch:
            self._call(self.model)


def stop(model: keras.Model) -> None:
    model.stop_training = True


def fail(model: keras.Model) -> None:
    raise KeyboardInterrupt


EPOCH = in_fours(0, PER_EPOCH)
TWO_EPOCHS = {
    "apply": EPOCH + EPOCH,
    "carry": in_fours(0, 2 * PER_EPOCH),
    "drop": EPOCH[:3] + EPOCH[:3],
}


def test_remainder_at_the_end_of_an_epoch(training, request):
    training.fit(validation_data=(X[:8], Y[:8]))
    training.assert_trained_on(*TWO_EPOCHS[request.node.callspec.params["training"]])


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_remainder_of_a_dataset_without_a_known_size(training, request):
    def batches() -> Any:
        for i in range(0, NUM_SAMPLES, BATCH_SIZE):
            yield X[i : i + BATCH_SIZE], Y[i : i + BATCH_SIZE]

    signature = (tf.TensorSpec([None, 6]), tf.TensorSpec([None, 1]))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    training.fit(data, None, batch_size=None)
    training.assert_trained_on(*TWO_EPOCHS[request.node.callspec.params["training"]])


def test_remainder_with_steps_per_epoch(training, request):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH_SIZE).repeat()
    training.fit(data, None, batch_size=None, steps_per_epoch=6)
    first, second = in_fours(0, 6), in_fours(6, 12)
    expected = {
        "apply": first + second,
        "carry": in_fours(0, 12),
        "drop": [first[0], second[0]],
    }
    training.assert_trained_on(*expected[request.node.callspec.params["training"]])


def test_stop_in_the_middle_of_an_epoch(training, request):
    training.fit(callbacks=[Calls(stop, batch=5)])
    applied, dropped = in_fours(0, 6), in_fours(0, 4)
    is_dropped = request.node.callspec.params["training"] == "drop"
    training.assert_trained_on(*(dropped if is_dropped else applied))


def test_stop_at_the_end_of_an_epoch(training, request):
    training.fit(callbacks=[Calls(stop, epoch=0)], epochs=5)
    is_dropped = request.node.callspec.params["training"] == "drop"
    training.assert_trained_on(*(EPOCH[:3] if is_dropped else EPOCH))


def test_a_carried_remainder_is_part_of_the_moving_average():
    """Keras gives the weights their moving average at the end of `fit`, after all updates."""
    model = sequential()
    model.compile(optimizer=keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), loss="mse")
    accumulate_gradients(model, NUM_MICRO_BATCHES, remainder="carry")
    model.fit(X, Y, batch_size=BATCH_SIZE, epochs=5, callbacks=[Calls(stop, epoch=0)], verbose=0)
    assert int(model.optimizer.iterations.numpy()) == len(EPOCH)
    averages = [each.numpy() for each in model.optimizer.variables if "average" in each.name]
    assert largest_difference(model.get_weights(), averages) == 0


def test_an_error_in_fit_discards_what_was_accumulated(training):
    with pytest.raises(KeyboardInterrupt):
        training.fit(callbacks=[Calls(fail, batch=5)])
    training.train_on(range(6, 9))
    training.assert_trained_on(rows(0, 4))
    training.train_on(range(9, 10))
    training.assert_trained_on(rows(0, 4), rows(6, 10))


def test_callbacks_see_the_weights_after_the_remainder(applying):
    seen: list[Any] = []
    stopping = keras.callbacks.EarlyStopping("loss", min_delta=100, restore_best_weights=True)
    callbacks = [Calls(lambda model: seen.append(model.get_weights()), epoch=0), stopping]
    applying.fit(callbacks=callbacks, epochs=5)
    applying.model.set_weights(seen[0])
    assert stopping.stopped_epoch == 1 and applying.num_updates == 2 * len(EPOCH)
    assert largest_difference(stopping.best_weights, seen[0]) == 0
    applying.begin().fit(epochs=1)
    assert largest_difference(applying.model.get_weights(), seen[0]) < 1e-6


def test_callbacks_may_be_one_or_a_list_of_keras(training, request):
    choice = request.node.callspec.params["training"]
    training.fit(callbacks=Calls(fail, batch=-1))
    training.assert_trained_on(*TWO_EPOCHS[choice])
    callbacks = keras.callbacks.CallbackList(
        [], add_history=True, model=training.model, epochs=EPOCHS, steps=PER_EPOCH, verbose=0
    )
    history = training.begin().fit(callbacks=callbacks)
    training.assert_trained_on(*TWO_EPOCHS[choice])
    assert len(history.history["loss"]) == EPOCHS


def test_train_on_batch_counts_a_micro_batch(applying):
    applying.train_on(range(6))
    applying.assert_trained_on(rows(0, 4))
    applying.accumulation.apply_remainder()
    applying.accumulation.apply_remainder()  # Nothing is left over.
    applying.assert_trained_on(rows(0, 4), rows(4, 6))
    applying.train_on(range(6, 8))
    applying.accumulation.discard_remainder()
    applying.train_on(range(8, 12))
    applying.assert_trained_on(rows(0, 4), rows(4, 6), rows(8, 12))


def test_train_on_batch_runs_eagerly(applying):
    model = compiled()
    model.set_weights(applying.model.get_weights())
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", run_eagerly=True)
    accumulate_gradients(model, 2)
    for number in range(2):
        part = slice(number * BATCH_SIZE, (number + 1) * BATCH_SIZE)
        model.train_on_batch(X[part], Y[part])
    applying.train_on(range(2))
    applying.accumulation.apply_remainder()
    assert largest_difference(model.get_weights(), applying.model.get_weights()) < 1e-6


def test_remainder_of_train_on_batch_is_discarded_when_fit_begins(training, request):
    training.train_on(range(3, 6))
    training.fit()
    training.assert_trained_on(*TWO_EPOCHS[request.node.callspec.params["training"]])
