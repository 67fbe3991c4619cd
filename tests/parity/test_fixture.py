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


def test_the_fixture_passes_and_fails_with_a_picture_as_the_page_shows(tmp_path):
    page = (_ROOT / "docs" / "guides" / "parity.md").read_text("utf-8")
    conftest, test = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert _FAULT[0] in test
    files = {"conftest": conftest, "test_page": test, "test_fault": test.replace(*_FAULT)}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nparity_logical_cpus = 3\n", "utf-8")
    temporary = tmp_path / "temporary"
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={temporary}", "-rA"]
    run = subprocess.run(
        [*forked_python(), "-m", "pytest", *options, "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )

    assert "1 failed, 1 passed" in run.stdout, run.stdout
    assert "PASSED test_page.py::" in run.stdout
    assert "ParityError" in run.stdout
    assert "The update of 2 towers is 2.00 times that of one big batch." in run.stdout
    (picture,) = temporary.rglob("parity.png")
    assert f"Picture: {picture}" in run.stdout
