"""Test of the pytest plugin, with the code that the page about parity shows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.processes.forked_python import forked_python

_ROOT = Path(__file__).resolve().parents[2]
_TEST = """
import numpy as np
import tensorflow as tf
from tf_condacc import parity

v1 = tf.compat.v1


def test_my_training_learns_the_same_in_all_setups(assert_parity):
    training = parity.Training(
        build=lambda: tf.Variable([1.0, 2.0], name="weights"),
        loss=lambda weights, x, y: tf.reduce_mean((tf.linalg.matvec(x, weights) - y) ** 2),
        optimizer=lambda: v1.train.GradientDescentOptimizer(0.1),
        batches=[(np.eye(2, dtype=np.float32), np.zeros([2], np.float32))] * 3,
    )
    assert_parity(training, num_replicas=2)
"""
# Towers and synchronous replicas get twice the learning rate.
_FAULT = (
    "build=",
    "v1_optimizer=lambda: v1.train.GradientDescentOptimizer(0.2),\n        build=",
)


# Neither function of the training has a name, so the processes run the test up to the comparison.
_OF_PROCESSES = """
import numpy as np
import pytest
import tensorflow as tf
from tf_condacc import parity

parity.use_logical_cpus(2)


@pytest.mark.parametrize("number", [1.0, float("nan")], ids=["a number", "an error"])
def test_processes(number):
    def loss(weights, x, y):
        if number != number and tf.distribute.has_strategy():
            raise OSError("a lost disk")
        return tf.reduce_mean((tf.linalg.matvec(x, weights) - y) ** 2)

    training = parity.Training(
        build=lambda: tf.Variable(tf.random.normal([2]), name="weights"),
        loss=loss,
        optimizer=lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
        batches=[(np.eye(2, dtype=np.float32), np.zeros([2], np.float32))] * 3,
    )
    parity.assert_parity(training, [parity.mirrored(1), parity.multi_worker(2)][number != number :])
"""


def run_pytest(folder: Path, tests: str = ".") -> str:
    """Runs tests in a folder, by default all, and returns what pytest prints."""
    command = [*forked_python(), "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA"]
    done = subprocess.run(
        [*command, tests],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )
    return done.stdout


def test_the_fixture_passes_and_fails_as_the_page_shows(tmp_path):
    page = (_ROOT / "docs" / "guides" / "parity.md").read_text("utf-8")
    example, *_, conftest = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert example == (_ROOT / "examples" / "test_wrapper.py").read_text("utf-8")
    test = _TEST
    assert _FAULT[0] in test
    files = {"conftest": conftest, "test_page": test, "test_fault": test.replace(*_FAULT)}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nparity_logical_cpus = 3\n", "utf-8")
    output = run_pytest(tmp_path)
    assert "1 failed, 1 passed" in output, output
    assert "PASSED test_page.py::" in output
    assert "ParityError" in output
    assert "The update of 2 towers is 2.00 times that of one big batch." in output


@pytest.mark.multi_worker
def test_processes_run_the_test_and_a_failure_has_its_traceback(tmp_path):
    (tmp_path / "test_processes.py").write_text(_OF_PROCESSES, "utf-8")
    output = run_pytest(tmp_path)
    assert "1 failed, 1 passed" in output, output
    assert "PASSED test_processes.py::test_processes[a number]" in output
    assert "RuntimeError: MultiWorkerMirroredStrategy with 2 workers: worker" in output
    assert "OSError: a lost disk" in output


@pytest.mark.multi_worker
def test_the_example_passes_in_five_strategies(tmp_path):
    output = run_pytest(tmp_path, str(_ROOT / "examples" / "test_wrapper.py"))
    assert "5 passed" in output, output


def test_a_plugin_that_comes_after_the_first_operation_is_an_error_of_use(tmp_path):
    plugin = 'pytest_plugins = ["tf_condacc.parity.pytest_plugin"]\n'
    (tmp_path / "conftest.py").write_text(f"import tensorflow as tf\ntf.zeros([1])\n{plugin}")
    output = run_pytest(tmp_path)
    assert re.search(r"^ERROR: tf_condacc\.parity\.pytest_plugin: use_logical_cpus", output, re.M)
    assert "INTERNALERROR" not in output
