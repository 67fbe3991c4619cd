"""Synchronous training with parameter servers of TensorFlow 2, as the example does it: the bits."""

from __future__ import annotations

import argparse
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tf_condacc
from tests.processes.forked_python import forked_python
from tests.support.waiting import run_program

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "parameter_servers.py"
OPTIMIZERS = ["SGD", "Adam", "Adagrad"]

# Trains with several parameter servers, each of which has a part of the table of words.
SHARDED = f"""
import socket, sys, types
from pathlib import Path
sys.path.insert(0, {str(EXAMPLE.parent)!r})
import parameter_servers, tensorflow as tf, tf_condacc.cluster
spec = {{"ps": [], "worker": []}}
for job in ("ps", "ps", "ps", "worker"):
    with socket.create_server(("localhost", 0)) as server:
        spec[job].append(f"localhost:{{server.getsockname()[1]}}")
cluster = tf.train.ClusterSpec(spec)
places = [(job, task) for job in spec for task in range(len(spec[job]))]
servers = [tf.distribute.Server(cluster, *place, protocol="grpc") for place in places]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
shards = tf.distribute.experimental.partitioners.MinSizePartitioner(10 << 10, max_shards=3)
strategy = tf.distribute.ParameterServerStrategy(resolver, shards)
with tf_condacc.cluster.coordinator(strategy) as coordinator:
    for optimizer in sys.argv[2:]:
        folder = Path(sys.argv[1]) / optimizer
        options = types.SimpleNamespace(steps=12, optimizer=optimizer, folder=folder)
        parameter_servers.train(strategy, coordinator, options)
"""


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parameter_servers", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def digests(output: str) -> list[str]:
    """Returns the digests of weights and slots that a run of the example has printed."""
    found = re.findall(r"^(?:weights|slots) (\w{64})$", output, re.MULTILINE)
    assert len(found) % 2 == 0 and found, output
    return found


@pytest.fixture
def train(example, tmp_path, capsys):
    """A function that trains in this process, and returns the digests."""

    def train(name: str, coordinator: Any = None, optimizer: str = "Adam", steps: int = 25):
        options = argparse.Namespace(steps=steps, optimizer=optimizer, folder=tmp_path / name)
        example.train(tf.distribute.get_strategy(), coordinator, options)
        return digests(capsys.readouterr().out)

    return train


class Repeating:
    """A coordinator that runs the parts in the reverse order, and each as often as it is told."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._scheduled: list[tuple[Any, Any]] = []

    def schedule(self, function: Any, arguments: Any) -> Repeating:
        self._scheduled.append((function, arguments))
        return self

    def join(self) -> None:
        for function, arguments in reversed(self._scheduled):
            for _ in range(self._times):
                function(*arguments)
        self._scheduled.clear()

    def fetch(self) -> float:
        return 0.0


def test_parts_in_another_order_and_parts_that_are_repeated_change_no_bit(train):
    assert train("repeated", Repeating(3)) == train("once")


def test_a_training_goes_on_from_its_checkpoint_to_the_bit(train):
    train("in two runs", steps=10)
    assert train("in two runs") == train("in one run")


@pytest.mark.skipif(
    keras.__version__.startswith("2"),
    reason="Keras 2 draws other initial values for pieces of a variable than for the whole",
)
def test_variables_in_several_pieces_get_the_bits_of_those_in_one(train, tmp_path):
    command = [*forked_python(), "-c", SHARDED, str(tmp_path), *OPTIMIZERS]
    done = run_program(command)
    assert done.returncode == 0, done.stderr
    expected = [train(f"alone {name}", optimizer=name, steps=12) for name in OPTIMIZERS]
    assert digests(done.stdout) == sum(expected, [])


@pytest.mark.parametrize("library", [keras, tf_keras], ids=["keras", "tf_keras"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9}),
        ("Adam", {}),
        ("AdamW", {}),
        ("Adagrad", {}),
        ("RMSprop", {}),
        ("Ftrl", {}),
        ("Adam", {"global_clipnorm": 0.1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_an_optimizer_gets_the_bits_of_the_weighted_mean(library, name, options):
    rng = np.random.default_rng(0)
    dense = rng.standard_normal([3, 4, 2], np.float32)
    rows = rng.standard_normal([3, 5, 2], np.float32)
    at = np.array([[0, 3, 5, 7, 8], [1, 3, 5, 6, 8], [0, 1, 2, 5, 8]])
    weights = np.array([3, 1, 2], np.float32)
    ours, expected = (_Training(library, name, options) for _ in range(2))
    accumulators = [
        tf_condacc.ConditionalAccumulator.deterministic(3, tf.float32, [4, 2]),
        tf_condacc.SparseConditionalAccumulator.deterministic(
            3, tf.float32, [9, 2], reduction_type="GLOBAL_MEAN"
        ),
    ]

    @tf.function
    def update() -> None:
        means = [accumulators[0].try_take_grad(3), accumulators[1].try_take_indexed_slices_grad(3)]
        ours.apply([mean.value for mean in means])

    @tf.function
    def expected_update(mean: tf.Tensor, means_of_rows: tf.Tensor, present: tf.Tensor) -> None:
        slices = tf.IndexedSlices(means_of_rows, present, tf.constant([9, 2]))
        expected.apply([mean, slices])

    for step in range(3):
        for part in (2, 0, 1):
            accumulators[0].apply_contribution(dense[part], part, step, weight=weights[part])
            accumulators[1].apply_contribution(
                at[part], rows[part], part, local_step=step, weight=weights[part]
            )
        update()
        total = weights.sum(dtype=np.float32)
        mean, table = np.zeros([4, 2], np.float32), np.zeros([9, 2], np.float32)
        for part in range(3):
            mean += dense[part] * weights[part]
            table[at[part]] += rows[part] * weights[part]
        present = np.unique(at)
        means = [mean / total, table[present] / total]
        expected_update(*map(tf.constant, [*means, present]))
    assert ours.bits() == expected.bits()


class _Training:
    """Two variables, and an optimizer of either Keras that updates them."""

    def __init__(self, library: Any, name: str, options: dict[str, Any]) -> None:
        kind = library.Variable if library is keras and hasattr(keras, "Variable") else tf.Variable
        self._variables = [kind(np.ones([4, 2], np.float32)), kind(np.ones([9, 2], np.float32))]
        self._optimizer = getattr(library.optimizers, name)(0.1, **options)
        self._optimizer.build(self._variables)

    def apply(self, gradients: list[Any]) -> None:
        self._optimizer.apply_gradients(zip(gradients, self._variables, strict=True))

    def bits(self) -> list[bytes]:
        """Returns the bytes of the variables and of what the optimizer keeps."""
        kept = [*self._variables, *self._optimizer.variables]
        return [np.asarray(each.numpy()).tobytes() for each in kept]
