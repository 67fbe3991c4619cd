"""Tests of the examples of docs/guides/migration.md: what they print, and what the page shows."""

from __future__ import annotations

import difflib
import os
import re

import pytest
import tensorflow as tf

import tf_condacc
from tests.processes.forked_python import forked_python
from tests.support.migration_examples import (
    EXAMPLES,
    FOLDER,
    ROOT,
    outputs_of,
    recorded,
)
from tests.support.waiting import run_program


@pytest.fixture(scope="module")
def outputs() -> dict[str, str]:
    return outputs_of(forked_python(), "after.py", {"PYTHONPATH": str(ROOT)})


@pytest.mark.documents
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_new_program_prints_what_the_old_one_printed_on_the_original(example: str, outputs):
    assert outputs[example] == recorded(example)


@pytest.mark.documents
@pytest.mark.parametrize(
    "example",
    [
        "towers",
        *(pytest.param(each, marks=pytest.mark.long) for each in EXAMPLES if each != "towers"),
    ],
)
def test_the_old_program_runs_as_it_is(example: str):
    command = [*forked_python(), "-m", "condacc", "run", str(FOLDER / example / "before.py")]
    run = run_program(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout == recorded(example)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_shows_the_difference_of_the_programs_and_their_output(example: str):
    page = (ROOT / "docs" / "guides" / "migration.md").read_text(encoding="utf-8")
    (section,) = [
        part
        for part in re.split(r"^### ", page, flags=re.MULTILINE)
        if f"({FOLDER.name}/{example}/" in part
    ]
    blocks = dict(re.findall(r"```(diff|text)\n(.*?)```", section, re.DOTALL))
    before, after = (
        (FOLDER / example / name).read_text(encoding="utf-8").splitlines(keepends=True)
        for name in ("before.py", "after.py")
    )
    changed = [
        line
        for line in difflib.unified_diff(before, after, n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    assert blocks == {"diff": "".join(changed), "text": recorded(example)}


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_op_types_are_those_that_the_documentation_lists(kind: str, graph):
    def types_of(library) -> list[str]:
        if kind == "dense":
            accumulator = library.ConditionalAccumulator(tf.float32, shape=[2])
            push, taken = accumulator.apply_grad([1.0, 2.0]), accumulator.take_grad(1)
        else:
            accumulator = library.SparseConditionalAccumulator(tf.float32, shape=[2])
            push = accumulator.apply_grad([0], tf.constant([1.0]))
            taken = accumulator.take_grad(1).values
        count, move = accumulator.num_accumulated(), accumulator.set_global_step(1)
        return [op.type for op in (accumulator.accumulator_ref.op, push, taken.op, count.op, move)]

    page = (ROOT / "docs" / "reference" / "differences.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^### Op types\n(.*?)^##", page, re.DOTALL | re.MULTILINE)
    rows = [re.findall(r"`([A-Z]\S*)`", line) for line in section.splitlines()]
    # Both kinds share some of our types, which are listed once.
    listed = [row + row[2:] if len(row) == 3 else row for row in rows if len(row) > 2]
    place = ["dense", "sparse"].index(kind)
    assert types_of(tf.compat.v1) == [row[place] for row in listed]
    assert types_of(tf_condacc) == [row[2 + place] for row in listed]
