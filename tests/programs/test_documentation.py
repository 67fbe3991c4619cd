"""Tests of the documentation: its code prints what the comments say, and its links exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked_python import forked_python

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
_NAMES = ("usage", "compat", "distribute", "parity", "cluster", "sync_replicas")
PAGES_OF_PROGRAMS = ["README.md", *[f"docs/{name}.md" for name in _NAMES]]

# This program runs each block of code by itself, and marks the beginning of its output.
_RUN_BLOCKS = """
import json, sys
for number, block in enumerate(json.load(sys.stdin)):
    print(f"== {number}", flush=True)
    exec(compile(block, f"<block {number}>", "exec"), {"__name__": "__main__"})
"""


def _blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def _expected(block: str) -> list[str]:
    """Returns the comments behind calls of `print`."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES_OF_PROGRAMS)
def test_code_prints_what_its_comments_say(page):
    blocks = _blocks(ROOT / page)
    assert blocks
    run = subprocess.run(
        [*forked_python(), "-c", _RUN_BLOCKS],
        input=json.dumps(blocks),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    outputs = re.split(r"^== \d+\n", run.stdout, flags=re.MULTILINE)[1:]
    for block, output in zip(blocks, outputs, strict=True):
        printed, expected = output.splitlines(), _expected(block)
        assert expected, f"the code shows nothing:\n{block}"
        assert len(printed) == len(expected)
        for line, comment in zip(printed, expected, strict=True):
            assert comment.startswith(line), f"expected {comment!r}, got {line!r}"


def test_the_synchronous_program_runs_under_the_launcher(tmp_path):
    (block,) = _blocks(ROOT / "docs" / "sync_replicas.md")
    (tmp_path / "train.py").write_text(block)
    launcher = [sys.executable, "-m", "tf_condacc.launch", "--ps", "1", "--workers", "3"]
    run = subprocess.run(
        [*launcher, "--", *forked_python(), "train.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        timeout=120,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    (comment,) = _expected(block)
    assert f"[worker 0] {comment}" in run.stdout.splitlines()


def _without_code(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Returns the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _without_code(page), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_pages_and_headings_that_exist(page):
    for link in re.findall(r"\]\(([^)]+)\)", _without_code(page)):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link
