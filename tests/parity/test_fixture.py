"""Test of the pytest plugin, with the code that the page about parity shows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.processes.forked_python import forked_python

_ROOT = Path(__file__).resolve().parents[2]
# Towers and synchronous replicas get twice the learning rate.
_FAULT = (
    "build=",
    "v1_optimizer=lambda: v1.train.GradientDescentOptimizer(0.2),\n        build=",
)


def run_pytest(folder: Path, *options: str) -> str:
    """Runs the tests in a folder, and returns what pytest prints."""
    command = [*forked_python(), "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA"]
    done = subprocess.run(
        [*command, *options, "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )
    return done.stdout


def test_the_fixture_passes_and_fails_with_a_picture_as_the_page_shows(tmp_path):
    page = (_ROOT / "docs" / "guides" / "parity.md").read_text("utf-8")
    conftest, test = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert _FAULT[0] in test
    files = {"conftest": conftest, "test_page": test, "test_fault": test.replace(*_FAULT)}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nparity_logical_cpus = 3\n", "utf-8")
    temporary = tmp_path / "temporary"
    output = run_pytest(tmp_path, f"--basetemp={temporary}")
    assert "1 failed, 1 passed" in output, output
    assert "PASSED test_page.py::" in output
    assert "ParityError" in output
    assert "The update of 2 towers is 2.00 times that of one big batch." in output
    (picture,) = temporary.rglob("parity.png")
    assert f"Picture: {picture}" in output


def test_a_plugin_that_comes_after_the_first_operation_is_an_error_of_use(tmp_path):
    plugin = 'pytest_plugins = ["tf_condacc.parity.pytest_plugin"]\n'
    (tmp_path / "conftest.py").write_text(f"import tensorflow as tf\ntf.zeros([1])\n{plugin}")
    output = run_pytest(tmp_path)
    assert re.search(r"^ERROR: tf_condacc\.parity\.pytest_plugin: use_logical_cpus", output, re.M)
    assert "INTERNALERROR" not in output
