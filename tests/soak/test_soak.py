"""Tests of the soak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.processes.forked_python import forked_python
from tests.soak.soak import Ledger
from tests.support.waiting import run_program

ROOT = Path(__file__).resolve().parents[2]


def test_a_ledger_finds_gradients_that_are_lost_taken_twice_or_miscounted():
    ledger = Ledger("accumulator")
    for number in (3, 4, 5):
        ledger.note_apply(np.array([1, number]), True)
    ledger.note_apply(np.array([1, 6]), False)
    ledger.note_take([[1.0, 3.0], [1.0, 4.0]])
    assert ledger.faults([1, 5], num_dropped=1) == []
    assert ledger.faults([1, 5], num_dropped=1)[0].startswith(
        "accumulator: accepted [ 3 12], taken"
    )
    lost = Ledger("accumulator")
    lost.note_apply(np.array([1, 3]), True)
    assert len(lost.faults([], num_dropped=1)) == 2
    assert Ledger("accumulator", loses=True, accepted=np.array([1, 3])).faults([], 0) == []


@pytest.mark.soak
@pytest.mark.parametrize("minutes", ["0.04", pytest.param("3", marks=pytest.mark.long)])
def test_no_gradient_is_lost(minutes):
    soak = run_program([*forked_python(), "-m", "tests.soak.soak", minutes], cwd=ROOT)
    assert soak.returncode == 0, soak.stdout + soak.stderr[-3000:]
