"""Tests of both that stand for tf.estimator: the package tensorflow_estimator, and our Estimator.

The same programs run with both, in a process for each. `recorded.json` has what they give; most
runs with the package are long tests.
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

FOLDER = Path(__file__).resolve().parent
RECORDED = json.loads((FOLDER / "recorded.json").read_text())
SPECS = "specs_of_either_are_accepted"  # It runs with the package in each run of the tests.
Results = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Returns the result of a program with an implementation, whose programs run at first use."""
    folders: dict[tuple[str, str], Path] = {}

    def result(implementation: str, program: str) -> Any:
        only = program if program == SPECS else ""
        if (implementation, only) not in folders:
            folder = folders[implementation, only] = tmp_path_factory.mktemp(implementation)
            run(folder, implementation, folder, only)
        folder = folders[implementation, only]
        file = folder / f"{program}.json"
        assert file.exists(), (folder / "log").read_text()[-4000:]
        value = json.loads(file.read_text())
        assert not str(value).startswith("Traceback"), value
        return value

    return result


def run(folder: Path, implementation: str, *arguments: object) -> None:
    """Runs programs. If one of them crashes or hangs, those before it have results."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path}
    if implementation == "own":  # Most canned models of tensorflow_estimator need Keras 2.
        environment.pop("TF_USE_LEGACY_KERAS", None)
    command = [*forked_python(), FOLDER / "process.py", implementation, *arguments]
    with (folder / "log").open("w") as log, contextlib.suppress(subprocess.TimeoutExpired):
        words = list(filter(None, map(str, command)))
        run_program(words, env=environment, capture_output=False, stdout=log, stderr=log)


@pytest.mark.programs
@pytest.mark.parametrize("program", RECORDED)
def test_a_program_gives_what_is_recorded(program: str, result: Results):
    assert result("own", program) == RECORDED[program]


@pytest.mark.long
@pytest.mark.parametrize("program", BOTH)
def test_a_program_gives_the_same_with_the_package(program: str, result: Results):
    assert result("package", program) == RECORDED[program]


@pytest.mark.long
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


@pytest.mark.long
def test_a_tpu_estimator_needs_no_tpu(result: Results):
    found = result("package", "a_tpu_estimator_trains_evaluates_and_predicts_without_a_tpu")
    assert found == [{"loss": 0.0625, "mean": 2.0, "global_step": 3.0}, 36, 3.5]


@pytest.mark.long
def test_a_canned_model_trains_in_towers_as_alone(result: Results):
    first, alone, towers = result("package", "a_canned_classifier_trains_in_towers")
    assert len(first) == 4  # Weights and biases of two layers.
    for name, values in alone.items():
        np.testing.assert_allclose(towers[name], values, rtol=1e-5, atol=1e-7)
    assert towers != first


@pytest.mark.programs
def test_each_estimator_accepts_the_specs_of_the_other(result: Results):
    specs = result("package", SPECS)
    assert len(specs) == 2
    for metrics, predicted, served in specs.values():
        assert metrics == {"y": -160.0, "loss": -160.0, "global_step": 3.0}
        assert predicted == served == [-20.0 * k for k in range(1, 16, 2)]


@pytest.mark.long
@needs_keras3  # With TensorFlow 2.15 they work.
def test_the_package_refuses_strategies_on_a_cluster(result: Results):
    message = result("package", "distribution_on_a_cluster_is_refused")
    assert message.startswith("ValueError: RunConfig: train_distribute")


@pytest.mark.long
def test_the_package_takes_worker_0_for_the_chief_of_a_cluster_without_one(result: Results):
    assert result("package", "the_first_worker_is_the_chief") == [
        ["ps 0", False, "grpc://localhost:1", 2],
        ["chief 0", True, "grpc://localhost:2", 2],
        ["worker 0", False, "grpc://localhost:3", 2],
        ["evaluator 0", False, "", 0],
        ["chief 0", True, "", 1],
        ["worker 0", False, "grpc://localhost:3", 2],
    ]


@pytest.mark.programs
@needs_keras3
def test_canned_models_say_that_they_need_keras_2(result: Results):
    dnn, linear, steps = result("own", "canned_models_say_that_they_need_keras_2")
    assert dnn.startswith("RuntimeError: tf.estimator.DNNClassifier needs Keras 2")
    assert "--keras2" in dnn
    assert linear.startswith("RuntimeError: tf.estimator.LinearRegressor needs Keras 2")
    assert steps == 1
