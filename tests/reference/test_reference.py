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

from tests.support.migration_examples import EXAMPLES, ROOT, outputs_of, recorded

ENVIRONMENT = ROOT / "build" / "v1"
SETUP_SECS = 900

pytestmark = [pytest.mark.reference, pytest.mark.timeout(SETUP_SECS + 300, method="thread")]


@pytest.fixture(scope="module")
def tensorflow_1_15() -> str:
    """Returns a Python that has TensorFlow 1.15.5."""
    setup = subprocess.run(
        [str(Path(__file__).with_name("setup.sh")), str(ENVIRONMENT)],
        capture_output=True,
        text=True,
        timeout=SETUP_SECS,
    )
    if setup.returncode == 3:
        pytest.skip(f"TensorFlow 1.15.5 is missing: {setup.stderr.splitlines()[-1]}")
    assert setup.returncode == 0, setup.stderr[-3000:]
    return setup.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def before(tensorflow_1_15: str) -> dict[str, str]:
    return outputs_of([tensorflow_1_15], "before.py", {"PYTHONPATH": ""})


@pytest.fixture(scope="module")
def after() -> dict[str, str]:
    return outputs_of([sys.executable], "after.py", {"PYTHONPATH": str(ROOT)})


def test_the_environment_has_the_version_that_the_outputs_are_recorded_with(tensorflow_1_15: str):
    version = "import tensorflow as tf; print(tf.__version__)"
    run = subprocess.run([tensorflow_1_15, "-c", version], capture_output=True, text=True)
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
    run = subprocess.run(
        [tensorflow_1_15, str(LEARN / program), str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    if program == "experiment.py":
        assert run.stdout == "slope: 2.0\nerror: 4.0 4 []\n"
    else:
        assert json.loads(run.stdout) == json.loads((LEARN / "learn/recorded.json").read_text())
