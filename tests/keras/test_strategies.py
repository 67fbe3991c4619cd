"""`fit` with micro-batches on replicas equals plain Keras on one device with large batches.

Plain Keras on replicas is not the truth everywhere: it does not weigh the replicas' parts of a
batch by their sizes, Adam is wrong for rows of an embedding that several replicas have, and the
losses and metrics that it reports under CentralStorageStrategy are wrong.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import keras
import pytest
import tensorflow as tf

from tests.keras import trainings
from tests.keras.test_fit import CASES
from tests.keras.trainings import Case, Trained, X, Y
from tests.processes.isolated import isolated
from tests.support.wide import all_but_wide

_NUM_CPUS = "TF_CONDACC_TEST_NUM_CPUS"
on_two = isolated({_NUM_CPUS: "2"})
on_four = isolated({_NUM_CPUS: "4"})

# The last micro-batch has three samples: two replicas get 2 and 1, the fourth one of four gets 0.
UNEQUAL = Case(trainings.sequential, x=X[:-1], y=Y[:-1], fit={"validation_data": (X[:9], Y[:9])})
SUBCLASSED = Case(trainings.Subclassed, lambda: keras.optimizers.RMSprop(0.01, epsilon=1e-3))
UNDER_MIRRORED = {
    "unequal parts": UNEQUAL,
    "functional": dataclasses.replace(CASES["functional"], fit={}),
    "subclassed": SUBCLASSED,
    **{name: CASES[name] for name in ("decorated", "mixed_float16", "embedding, Adam")},
}
ON_FOUR = {**UNDER_MIRRORED, "unequal parts": dataclasses.replace(UNEQUAL, fit={})}


@pytest.fixture(scope="module", autouse=True)
def devices() -> list[str]:
    """Makes logical CPUs, before TensorFlow is used, and returns their names."""
    number = int(os.environ[_NUM_CPUS])
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * number
    )
    return [f"CPU:{i}" for i in range(number)]


@pytest.fixture(scope="module")
def mirrored(devices: list[str]) -> tf.distribute.Strategy:
    """Returns a strategy. TensorFlow fails if another one of the process has other collectives."""
    return tf.distribute.MirroredStrategy(devices)


@pytest.fixture(scope="module")
def truth() -> Callable[[Case], Trained]:
    """Returns a function that trains without accumulation, each case once."""
    known: dict[int, Trained] = {}

    def train(case: Case) -> Trained:
        return known.setdefault(id(case), known.get(id(case)) or trainings.plain(case))

    return train


@on_two
@pytest.mark.parametrize("name", all_but_wide(UNDER_MIRRORED, ("unequal parts", "mixed_float16")))
def test_two_replicas(name, mirrored, truth):
    case = UNDER_MIRRORED[name]
    trainings.assert_same(case, trainings.accumulating(case, mirrored), truth(case))


@on_four
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("embedding, Adam", marks=pytest.mark.wide),
        pytest.param("unequal parts", marks=pytest.mark.wide),
        pytest.param("mixed_float16", marks=pytest.mark.long),
    ],
)
def test_four_replicas(name, mirrored, truth):
    case = ON_FOUR[name]
    trainings.assert_same(case, trainings.accumulating(case, mirrored), truth(case))


@on_two
@pytest.mark.parametrize("name", all_but_wide(["one device", "central storage"], ["one device"]))
def test_other_strategies(name, devices, truth):
    strategy = (
        tf.distribute.OneDeviceStrategy(devices[1])
        if name == "one device"
        else tf.distribute.experimental.CentralStorageStrategy(devices, devices[0])
    )
    case = dataclasses.replace(SUBCLASSED, compares_loss=name == "one device")
    trainings.assert_same(case, trainings.accumulating(case, strategy), truth(SUBCLASSED))


@on_two
def test_train_on_batch_on_replicas(mirrored):
    with mirrored.scope():
        model = trainings.compiled(UNEQUAL, trainings.sequential)
    accumulation = trainings.accumulate_gradients(model, 2)
    plain = trainings.compiled(UNEQUAL, trainings.sequential)
    for _ in range(3):
        model.train_on_batch(X[:8], Y[:8])
    accumulation.apply_remainder()
    for _ in range(2):
        plain.train_on_batch(X[:8], Y[:8])
    assert trainings.largest_difference(model.get_weights(), plain.get_weights()) < 1e-6
    assert keras.ops.convert_to_numpy(model.optimizer.iterations) == 2


@on_two
def test_the_number_of_micro_batches_may_grow_on_replicas(mirrored):
    with mirrored.scope():
        model = trainings.compiled(UNEQUAL, trainings.sequential)
    trainings.accumulate_gradients(model, lambda updates: 1 + updates)
    plain = trainings.compiled(UNEQUAL, trainings.sequential)
    for num_updates in range(3):
        for _ in range(1 + num_updates):
            model.train_on_batch(X[:8], Y[:8])
        plain.train_on_batch(X[:8], Y[:8])
    assert trainings.largest_difference(model.get_weights(), plain.get_weights()) < 1e-6
    assert keras.ops.convert_to_numpy(model.optimizer.iterations) == 3
