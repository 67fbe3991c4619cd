"""Tests of both that stand for tf.estimator: the package tensorflow_estimator, and our Estimator.

The same programs run with both, in a process for each.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compat.estimators.process import BOTH
from tests.processes.forked_python import forked_python
from tests.support.versions import needs_keras3
from tests.support.waiting import run_program

pytestmark = pytest.mark.programs
FOLDER = Path(__file__).resolve().parent
Results = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Returns the result of a program with an implementation, whose programs run at first use."""
    folders: dict[str, Path] = {}

    def result(implementation: str, program: str) -> Any:
        if implementation not in folders:
            folders[implementation] = tmp_path_factory.mktemp(implementation)
            run(implementation, folders[implementation])
        file = folders[implementation] / f"{program}.json"
        assert file.exists(), (folders[implementation] / "log").read_text()[-4000:]
        value = json.loads(file.read_text())
        assert not str(value).startswith("Traceback"), value
        return value

    return result


def run(implementation: str, folder: Path) -> None:
    """Runs all programs. If one of them crashes or hangs, those before it have results."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path}
    if implementation == "own":  # Most canned models of tensorflow_estimator need Keras 2.
        environment.pop("TF_USE_LEGACY_KERAS", None)
    command = [*forked_python(), str(FOLDER / "process.py"), implementation, str(folder)]
    with (folder / "log").open("w") as log, contextlib.suppress(subprocess.TimeoutExpired):
        run_program(command, env=environment, capture_output=False, stdout=log, stderr=log)


EXPECTED: dict[str, Any] = {
    # The gradients are 4 and 12 in turn: the means of the first column of X in each batch.
    "each_checkpoint_is_evaluated": [
        {"y": -288.0, "loss": -288.0, "global_step": 5.0},
        [2, 4, 5],
        [],
        "bytes",
        [-36.0 * x for x in range(1, 16, 2)],
    ],
    "evaluations_are_throttled": [
        {"y": -256.0, "loss": -256.0, "global_step": 4.0},
        [],
        [1, 4],
    ],
    "a_training_that_has_ended_is_not_evaluated": [None, None],
    "a_training_ends_with_its_input": [
        {"y": -128.0, "loss": -128.0, "global_step": 2.0},
        True,
    ],
    "hooks_and_listeners_run_in_order": (
        "begin/saved 0/run/saved 2/evaluate/run/run/saved 3/evaluate/end at 3/end".split("/")
    ),
    "parameters_are_copied": [[[0.5], [0.5]], [0.5, 7.0], [0.5]],
    "the_device_function_places_operations": ["/CPU:1", "", ""],
}


@pytest.mark.parametrize("implementation", ["package", "own"])
@pytest.mark.parametrize("program", EXPECTED)
def test_a_program_runs_with_either(program: str, implementation: str, result: Results):
    assert result(implementation, program) == EXPECTED[program]


@pytest.mark.parametrize("program", BOTH)
def test_both_have_the_same_results(program: str, result: Results):
    assert result("own", program) == result("package", program)


@needs_keras3  # The parts of Keras 2 that TensorFlow 2.15 uses are imported late.
def test_importing_the_package_can_be_undone(result: Results):
    undone = result("package", "what_is_added_can_be_undone")
    assert undone == {
        "left": [],
        "stubs": [],
        "changed": [],
        "same module": True,
        "hooks as they were": True,
        "importable": "returned 'tensorflow_estimator'",
    }


def test_a_tpu_estimator_needs_no_tpu(result: Results):
    found = result("package", "a_tpu_estimator_trains_evaluates_and_predicts_without_a_tpu")
    assert found == [{"loss": 0.0625, "mean": 2.0, "global_step": 3.0}, 36, 3.5]


def test_a_canned_model_trains_in_towers_as_alone(result: Results):
    first, alone, towers = result("package", "a_canned_classifier_trains_in_towers")
    assert len(first) == 4  # Weights and biases of two layers.
    for name, values in alone.items():
        np.testing.assert_allclose(towers[name], values, rtol=1e-5, atol=1e-7)
    assert towers != first


def test_each_estimator_accepts_the_specs_of_the_other(result: Results):
    specs = result("package", "specs_of_either_are_accepted")
    assert len(specs) == 2
    for metrics, predicted, served in specs.values():
        assert metrics == {"y": -160.0, "loss": -160.0, "global_step": 3.0}
        assert predicted == served == [-20.0 * k for k in range(1, 16, 2)]


@needs_keras3  # With TensorFlow 2.15 they work.
def test_the_package_refuses_strategies_on_a_cluster(result: Results):
    message = result("package", "distribution_on_a_cluster_is_refused")
    assert message.startswith("ValueError: RunConfig: train_distribute")


def test_the_package_takes_worker_0_for_the_chief_of_a_cluster_without_one(result: Results):
    assert result("package", "the_first_worker_is_the_chief") == [
        ["ps 0", False, "grpc://localhost:1", 2],
        ["chief 0", True, "grpc://localhost:2", 2],
        ["worker 0", False, "grpc://localhost:3", 2],
        ["evaluator 0", False, "", 0],
        ["chief 0", True, "", 1],
        ["worker 0", False, "grpc://localhost:3", 2],
    ]


def test_a_missing_name_says_what_provides_it(result: Results):
    *attributes, receiver, from_import, private = result("own", "missing_names")
    names = ("DNNClassifier", "FinalExporter", "WarmStartSettings", "inputs.pandas_input_fn")
    for message, name in zip(attributes, names, strict=True):
        assert message.startswith(f"AttributeError: tf.estimator.{name} ")
        assert "which is missing: pip install 'tensorflow-estimator==" in message
    assert receiver.startswith("AttributeError: tf.estimator.export.TensorServingInputReceiver ")
    assert from_import.startswith("ImportError: cannot import name 'LinearRegressor'")
    assert private == "AttributeError: module 'tf.estimator' has no attribute '__wrapped__'"


def test_our_own_module_has_the_names_of_tf_estimator(result: Results):
    names, same_estimator, same_hook = result("own", "names")
    assert {"TrainSpec", "EvalSpec", "export", "inputs"} <= set(names)
    assert not {"TowerOptimizer", "replicate_model_fn"} & set(names)
    assert same_estimator and same_hook


def test_a_subclass_may_override_methods(result: Results):
    calls, attribute = result("own", "a_subclass_overrides_methods")
    assert calls == ["train", "train", "evaluate", "eval"]
    assert attribute == "a name of the subclass"


def test_a_cluster_trains_and_evaluates(result: Results):
    found = result("own", "a_cluster_trains_and_evaluates")
    tasks = ["evaluator", "master", "ps", "worker"]
    assert found["statuses"] == [[task, 0, 0] for task in tasks]
    # Each step applies the mean of both workers' gradients, each of which is 1.
    assert found["step"] == 6 and found["w"] == -6
    assert found["evaluations"] == ["eval_evaluator", "eval_master"]
    # The process of the parameter server has ended within the call.
    on_ps = [None, ["/job:ps/task:0"]]
    assert found["results"] == {"evaluator-0": [None, []], "master-0": on_ps, "worker-0": on_ps}


def test_a_chief_of_a_cluster_warns_that_it_only_trains(result: Results):
    found = result("own", "a_chief_that_only_trains_says_so")
    assert found == {"worker": [True], "master": []}


@needs_keras3
def test_canned_models_say_that_they_need_keras_2(result: Results):
    dnn, linear, steps = result("own", "canned_models_say_that_they_need_keras_2")
    assert dnn.startswith("RuntimeError: tf.estimator.DNNClassifier needs Keras 2")
    assert "--keras2" in dnn
    assert linear.startswith("RuntimeError: tf.estimator.LinearRegressor needs Keras 2")
    assert steps == 1


def test_a_configuration_may_be_a_subclass(result: Results):
    seen, refused = result("own", "a_configuration_may_be_a_subclass")
    assert seen == [[0.5, 3, True]]
    assert refused.startswith("AttributeError: tf_random_seed of a RunConfig cannot be set")


def test_train_alone_is_refused_on_a_cluster(result: Results):
    message = result("own", "in_a_cluster_train_needs_train_and_evaluate")
    assert message.startswith("RuntimeError: TF_CONFIG describes a cluster, and this process is ")
