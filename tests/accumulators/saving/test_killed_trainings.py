"""Trainings that are killed at random points end with the bits of an undisturbed one."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.accumulators.saving.killed_training import FORMS, gradients_of
from tests.processes.forked_python import forked_python
from tests.support.versions import needs_keras3

PROGRAM = "tests.accumulators.saving.killed_training"
EACH_FORM = [pytest.param(form, marks=[needs_keras3] * (form == "fit")) for form in FORMS]


def run(form: str, folder: Path, secs: float = 0.0, seed: str = "") -> tuple[str, float] | None:
    """Runs the training, and returns its digest and its time; None if it was killed."""
    arguments = ["-m", PROGRAM, form, str(folder), str(secs), seed]
    done = subprocess.run([*forked_python(), *arguments], capture_output=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("ended ")]
    if done.returncode == 0:
        ((_, digest, took),) = lines
        return digest, float(took)
    assert "Error" not in done.stderr, done.stderr
    return None


@functools.cache
def undisturbed(form: str) -> tuple[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        result = run(form, Path(folder))
    assert result is not None
    return result


def check(form: str, folder: Path, seed: int) -> int:
    """Runs a training that is killed up to three times. Returns how often it was killed."""
    digest, took = undisturbed(form)
    num_killed = 0
    for number in range(3):
        result = run(form, folder, took, f"{seed} {number}")
        num_killed += result is None
        if result is not None:
            break
    else:
        result = run(form, folder)
    assert result is not None
    assert result[0] == digest
    return num_killed


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
    # With this seed, each of three runs is killed after about a sixth of an undisturbed one.
    assert check(form, tmp_path, seed=1830) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 52))
@pytest.mark.parametrize("form", EACH_FORM)
def test_a_training_killed_at_other_points_ends_with_the_same_bits(form, seed, tmp_path):
    check(form, tmp_path, seed)
