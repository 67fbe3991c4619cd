"""The examples as programs: wrong options, a missing package, and Ctrl-C."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.examples.programs import ENVIRONMENT, path_of, run
from tests.processes.forked_python import forked_python
from tests.processes.terminal import press_ctrl_c

_LOSS = r"loss=\d"
_examples, _long = pytest.mark.examples, pytest.mark.long


_WRONG_OPTIONS = [
    ("digits", ["--steps", "0"], "argument --steps: expected at least 1, got 0"),
    ("digits", ["--backend", "torch"], "argument --backend: invalid choice: 'torch'"),
    ("async_digits", ["--output", "no/such/picture.png"], "no such folder: no/such"),
    ("word_vectors", ["--workers", "0"], "argument --workers: expected at least 1, got 0"),
    ("towers", ["--towers", "3"], "3 towers cannot share a batch of 64 equally"),
    ("towers", ["--towers", "7", "--batch-size", "70"], "7 towers cannot share a batch of 360"),
    ("cluster_digits", ["--mode", "both"], "argument --mode: invalid choice: 'both'"),
]


@pytest.mark.parametrize(
    ("program", "options", "message"),
    [_WRONG_OPTIONS[0], *(pytest.param(*each, marks=_examples) for each in _WRONG_OPTIONS[1:])],
)
def test_a_wrong_option_is_refused(program, options, message, tmp_path):
    ended = run(program, *options, folder=tmp_path)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["matplotlib", "tqdm"])
def test_a_missing_package_is_named_in_one_line(package):
    path = path_of("digits")
    program = (
        f"import runpy, sys; sys.modules[{package!r}] = None; sys.argv = [{path!r}]\n"
        f"runpy.run_path({path!r}, run_name='__main__')"
    )
    folder = path.rpartition("/")[0]
    ended = subprocess.run(
        [*forked_python(), "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{folder}"},
    )
    assert ended.returncode == 1
    line = f"{path} needs {package}: pip install matplotlib tqdm"
    assert ended.stderr.splitlines()[-1] == line
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("program", "when"),
    [
        ("digits", _LOSS),
        pytest.param("towers", _LOSS, marks=_examples),
        pytest.param("async_digits", r"[1-9]\d*/\d+ \[", marks=_long),
        pytest.param("word_vectors", _LOSS, marks=_long),
        pytest.param("cluster_digits", r"step \d", marks=_long),
    ],
)
def test_ctrl_c_ends_it_cleanly(program, when, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    ended = press_ctrl_c([path_of(program), "--steps", "1000000"], when)
    assert ended.status == 130, ended.output
    assert "Traceback" not in ended.output
    assert not list(tmp_path.glob("*.png"))
