"""Tests that programs print on TensorFlow 1.15.5 what they print on ours.

They are the examples of docs/guides/migration, and those of tests/compat for tf.contrib.learn.

`make test-reference` runs them. They are skipped where TensorFlow 1.15.5 cannot be set up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tf_condacc
from tests.support.migration_examples import EXAMPLES, ROOT, outputs_of, recorded
from tests.support.waiting import run_program
from tests.sync_replicas.one_worker import updates_of

ENVIRONMENT = ROOT / "build" / "v1"
# The import of TensorFlow 2 in this process has set the second one.
_VARIABLES = {"PYTHONPATH": "", "TF2_BEHAVIOR": "0"}
pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def tensorflow_1_15() -> str:
    """Returns a Python that has TensorFlow 1.15.5."""
    setup = run_program([Path(__file__).with_name("setup.sh"), ENVIRONMENT])
    if setup.returncode == 3:
        pytest.skip(f"TensorFlow 1.15.5 is missing: {setup.stderr.splitlines()[-1]}")
    assert setup.returncode == 0, setup.stderr[-3000:]
    return setup.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def before(tensorflow_1_15: str) -> dict[str, str]:
    return outputs_of([tensorflow_1_15], "before.py", _VARIABLES)


@pytest.fixture(scope="module")
def after() -> dict[str, str]:
    return outputs_of([sys.executable], "after.py", {"PYTHONPATH": str(ROOT)})


def test_the_environment_has_the_version_that_the_outputs_are_recorded_with(tensorflow_1_15: str):
    version = "import tensorflow as tf; print(tf.__version__)"
    run = run_program([tensorflow_1_15, "-c", version])
    assert run.stdout.strip() == "1.15.5", run.stderr[-3000:]


@pytest.mark.parametrize("example", EXAMPLES)
def test_both_programs_print_the_same_numbers(example: str, before, after):
    assert before[example] == after[example]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_recorded_output_is_that_of_the_original(example: str, before):
    assert before[example] == recorded(example)


LEARN = ROOT / "tests" / "compat" / "programs"


@pytest.mark.parametrize("program", ["learn/all_cases.py", "experiment.py"])
def test_programs_of_learn_print_what_tests_of_compat_expect(program, tensorflow_1_15, tmp_path):
    run = run_program(
        [tensorflow_1_15, LEARN / program, tmp_path],
        env=os.environ | _VARIABLES | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    if program == "experiment.py":
        assert run.stdout == "slope: 2.0\nerror: 4.0 4 []\n"
    else:
        assert json.loads(run.stdout) == json.loads((LEARN / "learn/recorded.json").read_text())


BINDINGS = str(Path(__file__).with_name("contrib_bindings.py"))
# What is different on purpose: slim has one more argument, and hyperparameters no protocol buffer.
# TensorFlow has renamed a module that one of slim imports, and tf.contrib.learn has two paths.
DIFFERENT = {"inception_v3", "HParams", "tf_device", "io", "learn_runner"}


def test_imports_from_contrib_bind_what_they_bind_in_the_original(tensorflow_1_15, tmp_path):
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}
    theirs, ours = (
        subprocess.run(
            [python, BINDINGS, *arguments],
            stdout=(tmp_path / file).open("w"),
            env=environment | {"PYTHONPATH": path},
            check=True,
        )
        and json.loads((tmp_path / file).read_text())
        for python, path, file, arguments in (
            (tensorflow_1_15, "", "theirs", []),
            (sys.executable, str(ROOT), "ours", [str(tmp_path / "theirs")]),
        )
    )
    bound = [(path, name) for path, names in ours.items() for name in names]
    assert len(theirs) > 800 and len(bound) > 1500
    wrong = [
        (path, name, theirs[path][name], ours[path][name])
        for path, name in bound
        if name not in DIFFERENT and not _are_alike(theirs[path][name], ours[path][name])
    ]
    assert wrong == []


def _are_alike(theirs, ours):
    """Returns whether two names bind the same module, or functions with the same arguments."""
    if isinstance(theirs, str) and isinstance(ours, str):
        if not theirs.startswith("tensorflow.contrib"):
            return theirs == ours
        is_contrib = ours.startswith(("tensorflow.contrib.", "tf_slim", "tf_keras."))
        return is_contrib and theirs.split(".")[-1] == ours.split(".")[-1]
    if isinstance(theirs, list) and isinstance(ours, list):
        theirs, ours = ([n for n, kind in each if "VAR_" not in kind] for each in (theirs, ours))
        return theirs == ours[: len(theirs)] or not ours
    return not isinstance(theirs, str) and not isinstance(ours, str)


def test_one_worker_makes_the_updates_of_the_original(tensorflow_1_15: str):
    """As tests/sync_replicas compare with the optimizer of the installed TensorFlow."""
    run = run_program(
        [tensorflow_1_15, ROOT / "tests" / "sync_replicas" / "one_worker.py"],
        env=os.environ | _VARIABLES | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(lines) == 16
    for replicas, total, theirs in lines:
        ours = updates_of(tf_condacc.SyncReplicasOptimizer, replicas, total, 3)
        common = {str(number) for number in ours} & set(theirs)
        assert len(common) >= 2
        for number in common:
            assert ours[int(number)].tobytes().hex() == theirs[number], (replicas, total, number)
