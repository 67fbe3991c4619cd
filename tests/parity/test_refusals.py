"""Tests of what the comparison of trainings refuses, and of its messages."""

from __future__ import annotations

import re
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.parity.trainings import small_training
from tf_condacc import parity
from tf_condacc.parity._strategy_setups import big_batch

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": []}, "batches: expected at least one, got none"),
        ({"batches": [np.zeros([2])]}, "batches: expected pairs (features, labels)"),
        ({"batches": [(np.zeros([2]), np.zeros([3]))]}, "got shapes (2,), (3,)"),
        ({"batches": [(np.zeros([2]), 1.0)]}, "got shapes (2,), ()"),
        ({"reduction": "none"}, 'expected "mean" or "sum", got \'none\''),
        ({"reduction": "sum", "divided_by_replicas": True}, 'expected reduction="mean", got "sum"'),
        (
            {"batches": tf.data.Dataset.from_tensors(([1.0], [2.0])).repeat()},
            "batches: expected a finite number, got an infinite dataset",
        ),
    ],
)
def test_a_bad_description_is_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        small_training(**changes)


@pytest.mark.parametrize("name", ["build", "loss", "optimizer", "v1_optimizer"])
def test_an_object_in_place_of_a_function_is_refused(name):
    with pytest.raises(TypeError, match=f"{name}: expected a function, such as .*, got .*Optim"):
        small_training(**{name: v1.train.GradientDescentOptimizer(0.5)})


_FIXED = tf.Variable([1.0, 2.0], name="fixed")
_SHARED = types.SimpleNamespace(iterations=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"build": lambda: _FIXED}, "It must make new variables on each call, not return a model"),
        ({"optimizer": lambda: _SHARED}, "optimizer: expected a function that returns a new"),
        (
            {"loss": lambda model, x, y: tf.reduce_mean(tf.linalg.matvec(x, model + _FIXED))},
            "no trainable variables but those that `build` makes, got also fixed:0",
        ),
        ({"build": lambda: None}, "expected a function that makes trainable variables, got none"),
        ({"loss": lambda model, x, y: model}, "expected a scalar of a floating-point type, got"),
        ({"loss": lambda model, x, y: tf.constant(1.0)}, "expected it to depend on the variables"),
        ({"batches": [(np.zeros([3, 2], np.float32), None)]}, "a multiple of 2 examples, got 3"),
    ],
)
def test_a_training_that_cannot_be_run_is_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parity.compare(small_training(**changes), [parity.accumulators(2)])


def test_variables_that_differ_from_call_to_call_are_refused():
    shapes = iter([[2], [3]])
    changing = small_training(build=lambda: tf.Variable(tf.ones(next(shapes))))
    message = r"new variables on each call, like those of the first, of shapes \[\(2,\)\], got"
    with pytest.raises(ValueError, match=message):
        parity.compare(changing, [])


def test_setups_of_the_same_name_are_refused():
    with pytest.raises(ValueError, match="expected different names"):
        parity.compare(small_training(), [parity.towers(2), parity.towers(2)])


@pytest.mark.parametrize(
    ("setups", "error", "message"),
    [
        ([big_batch()], ValueError, "other than one big batch, which is always added"),
        (
            parity.towers(2),
            TypeError,
            "expected a list of setups, got the setup 2 towers, which is",
        ),
        (3, TypeError, "expected a list of setups, got 3"),
        ([parity.towers], TypeError, "<function towers at .*>, a function, which must be called"),
        ([parity.Setup("mine", lambda _: None)], TypeError, "mine: .*returns a Run, got None"),
    ],
)
def test_what_is_no_setup_is_refused(setups, error, message):
    with pytest.raises(error, match=message):
        parity.compare(small_training(), setups)


@pytest.mark.parametrize("tolerance", [-1, float("nan"), float("inf")])
def test_a_tolerance_that_is_no_number_is_refused(tolerance):
    with pytest.raises(ValueError, match="expected a finite number of at least 0"):
        parity.compare(small_training(), [], tolerance=tolerance)


@pytest.mark.parametrize("setup", [parity.towers(2), parity.sync_replicas(2)])
def test_setups_of_version_1_refuse_other_optimizers(setup):
    class Other:
        def apply_gradients(self, pairs: Any) -> None:
            pass

    with pytest.raises(TypeError, match=r"an optimizer of tf.compat.v1.train.*Other.*v1_o"):
        parity.compare(small_training(optimizer=Other), [setup])


def test_a_graph_is_refused():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="eager mode, got a graph"):
        parity.compare(small_training())


def test_too_few_logical_cpus_are_told_with_the_remedy():
    number = len(tf.config.list_logical_devices("CPU"))
    message = f"expected at least 99 logical CPUs, got {number}.*use_logical_cpus\\(99\\) before"
    batches = [(np.zeros([99, 2], np.float32), None)]
    with pytest.raises(RuntimeError, match=f"MirroredStrategy with 99 replicas: {message}"):
        parity.compare(small_training(batches=batches), [parity.mirrored(99)])
    with pytest.raises(RuntimeError, match=f"use_logical_cpus: {message}"):
        parity.use_logical_cpus(99)
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        parity.use_logical_cpus(0)


def test_a_parameter_server_strategy_is_refused():
    kind = tf.distribute.ParameterServerStrategy
    setup = parity.under(lambda: object.__new__(kind), "servers")  # One without a cluster.
    with pytest.raises(ValueError, match="servers: .* on the coordinator of the .* alone"):
        parity.compare(small_training(), [setup])


class Idle(tf.distribute.OneDeviceStrategy):
    """A strategy that claims to have two replicas, and has one."""

    num_replicas_in_sync = 2


def test_replicas_that_do_no_work_are_an_error():
    setup = parity.under(lambda: Idle("/CPU:0"), "idle")
    with pytest.raises(RuntimeError, match=r"idle: .* each of 2 replicas .* got \[1, 0\] times"):
        parity.compare(small_training(), [setup])


@pytest.mark.parametrize("setup", [parity.multi_worker(2), parity.parameter_servers(2)])
def test_functions_without_a_name_are_refused_outside_of_pytest(setup, monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(ValueError, match=f"{setup.name}: .* not lambdas .* TF_CONFIG can use"):
        parity.compare(small_training(), [setup])


def test_micro_batches_under_a_strategy_leave_variables_without_a_gradient_alone():
    def build() -> list[tf.Variable]:
        return [tf.Variable([1.0, 2.0], name="used"), tf.Variable(3.0, name="unused")]

    described = small_training(
        build=build, loss=lambda model, x, y: tf.reduce_mean(tf.linalg.matvec(x, model[0]))
    )
    parity.assert_parity(described, [parity.mirrored(1, 2)], tolerance=0)
