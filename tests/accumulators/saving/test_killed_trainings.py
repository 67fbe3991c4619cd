"""Trainings that are killed at random points end with the bits of an undisturbed one."""

from __future__ import annotations

import functools
import random
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.accumulators.saving.killed_training import FORMS, gradients_of
from tests.processes.forked_python import forked_python
from tests.support.versions import needs_keras3
from tests.support.waiting import run_program

PROGRAM = "tests.accumulators.saving.killed_training"
_MARKS = {form: [pytest.mark.killed_trainings] for form in FORMS if form != "eager"}
_MARKS["fit"] += [needs_keras3]
EACH_FORM = [pytest.param(form, marks=_MARKS.get(form, ())) for form in FORMS]


def run(form: str, folder: Path, moment: int = 0, secs: float = 0.0) -> str | None:
    """Runs the training, and returns its digest; None if it was killed."""
    done = run_program([*forked_python(), "-m", PROGRAM, form, folder, str(moment), str(secs)])
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    return done.stdout.split("ended ")[-1].strip()


@functools.cache
def undisturbed(form: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        result = run(form, Path(folder))
    assert result is not None
    return result


def test_the_sums_depend_on_the_order_of_the_additions():
    """A training that added again, or in another order, would end with other bits."""
    gradients = [gradients_of(number)[0] for number in range(5)]
    forwards, backwards = np.zeros(64, np.float32), np.zeros(64, np.float32)
    for one, other in zip(gradients, reversed(gradients), strict=True):
        forwards += one
        backwards += other
    assert (forwards != backwards).any()


@pytest.mark.parametrize("form", EACH_FORM)
def test_a_killed_training_ends_with_the_same_bits(form, tmp_path):
    for moment in (7, 10, 1):
        assert run(form, tmp_path, moment) is None
    assert run(form, tmp_path) == undisturbed(form)


@pytest.mark.long
@pytest.mark.parametrize("number", range(50))
@pytest.mark.parametrize("form", EACH_FORM)
def test_a_training_killed_at_other_points_ends_with_the_same_bits(form, number, seed, tmp_path):
    draw = random.Random(seed)
    for _ in range(3):
        result = run(form, tmp_path, draw.randrange(1, 40), draw.uniform(0, 0.05))
        if result is not None:
            break
    assert (result or run(form, tmp_path)) == undisturbed(form)
