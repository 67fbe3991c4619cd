"""Tests of the documentation: its code prints what its comments say, and its files exist."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.docs.programs import PROGRAM, ROOT, printed_by, programs_of
from tests.processes.forked_python import forked_python
from tests.support.versions import needs_keras3
from tests.support.waiting import run_program

_NAMES = ("usage", "compat", "distribute", "keras", "parity", "cluster", "sync_replicas", "state")
PAGES_OF_PROGRAMS = ["README.md", "docs/getting-started.md"]
PAGES_OF_PROGRAMS += [f"docs/guides/{name}.md" for name in _NAMES]
# Their programs use Keras 3.
_OF_KERAS_3 = ("docs/guides/keras.md", "docs/guides/state.md")

# Runs each block of code separately, and marks the beginning of its output.
_RUN_BLOCKS = """
import json, sys
for number, block in enumerate(json.load(sys.stdin)):
    print(f"== {number}", flush=True)
    exec(compile(block, f"<block {number}>", "exec"), {"__name__": "__main__"})
"""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            marks=[pytest.mark.documents] * (page != "README.md")
            + [needs_keras3] * (page in _OF_KERAS_3),
        )
        for page in PAGES_OF_PROGRAMS
    ],
)
def test_code_prints_what_its_comments_say(page):
    blocks = programs_of(page)
    assert blocks
    run = run_program(
        [*forked_python(), "-c", _RUN_BLOCKS],
        input=json.dumps(blocks),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    outputs = re.split(r"^== \d+\n", run.stdout, flags=re.MULTILINE)[1:]
    for block, output in zip(blocks, outputs, strict=True):
        expected = printed_by(block)
        assert expected, f"the code shows nothing:\n{block}"
        assert output.splitlines() == expected


def _run_commands(page: str, after: str, folder: Path) -> str:
    """Runs the commands of a page that start the program before them. Returns their output.

    Args:
        page: Name of the page.
        after: A text in the program.
        folder: An empty folder. The program is `train.py` in it.
    """
    text = (ROOT / "docs" / "guides" / f"{page}.md").read_text(encoding="utf-8")
    (source,) = [each for each in PROGRAM.finditer(text) if after in each[1]]
    commands = re.search(r"^```\n(.*?)^```", text[source.end() :], re.DOTALL | re.MULTILINE)
    (folder / "train.py").write_text(source[1])
    # The command does not use TensorFlow, and it starts `python` as its tasks.
    for name, command in (
        ("condacc", [sys.executable, "-m", "condacc"]),
        ("python", forked_python()),
    ):
        program = folder / name
        program.write_text(f'#!/bin/bash\nexec {" ".join(command)} "$@"\n')
        program.chmod(0o755)
    search = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    run = run_program(
        ["bash", "-e", "-c", "exec 2>&1\n" + commands[1] + "\nwait -n || [[ $? == 127 ]]"],
        cwd=folder,
        env=os.environ | search | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert run.returncode == 0, run.stdout[-4000:]
    return run.stdout


@pytest.mark.documents
@pytest.mark.parametrize(
    ("after", "prints"),
    [("total_num_replicas=workers", "loss 0.0000"), ("MODEL_DIR", "[3. 4.]")],
    ids=["training", "checkpoints"],
)
def test_the_synchronous_program_runs_on_a_cluster(tmp_path, after, prints):
    output = _run_commands("sync_replicas", after, tmp_path)
    assert f"[worker 0] {prints}" in output.splitlines()


@pytest.mark.documents
def test_the_estimator_runs_on_a_cluster_with_an_evaluator(tmp_path):
    _run_commands("usage", "train_and_evaluate(", tmp_path)
    assert list((tmp_path / "model" / "eval").glob("events.*"))


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_exist(page):
    folders = ("cc", "condacc", "tf_condacc", "tests", "examples", "benchmarks", "release")
    files = [str(file.relative_to(ROOT)) for each in folders for file in (ROOT / each).rglob("*.*")]
    files += [file.name for file in ROOT.iterdir()]
    named = re.findall(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|h|cc|sh))`", (ROOT / page).read_text())
    assert named
    for name in named:
        assert any(f"/{file}".endswith(f"/{name}") for file in files), name
