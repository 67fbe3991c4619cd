"""Tests of the asynchronous example: it drops stale gradients, is repeatable, and ends cleanly."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tf_condacc.examples import async_digits
from tf_condacc.examples.async_digits import Settings
from tf_condacc.examples.common import machines

from tests.processes.programs import run_program


def _cells(table: str, row: str) -> list[str]:
    """Returns the values beside a row's name in the table."""
    line = re.search(rf"^ +{re.escape(row)}  +(.*)$", table, re.MULTILINE).group(1)
    return re.split(r"  +", line)


def _by_the_rule(num_workers: int, steps: int, seed: int, limit: int) -> list[tuple[Any, ...]]:
    """Returns (worker, local step, step, accepted) of each turn, computed by the rule alone."""
    turns = []
    step, local_steps = 0, [0] * num_workers
    for worker in islice(machines.finishes(num_workers, seed), steps):
        accepted = step - local_steps[worker] <= limit
        turns.append((worker, local_steps[worker], step, accepted))
        step += accepted
        local_steps[worker] = step
    return turns


def test_it_compares_dropping_with_not_dropping_and_says_what_happened(tmp_path: Path):
    picture, record = tmp_path / "picture.png", tmp_path / "record.json"
    options = ["--output", str(picture), "--losses", str(record)]
    run = run_program("examples.async_digits", "--steps", "120", "--staleness", "4", *options)

    assert run.returncode == 0, run.stderr
    written = json.loads(record.read_text())
    trainings = [written[name] for name in async_digits.NAMES]
    assert _cells(run.stdout, "gradients") == [
        f"{sum(a for a, _ in t['counts'])} applied, {sum(d for _, d in t['counts'])} dropped"
        for t in trainings
    ]
    assert _cells(run.stdout, "test accuracy") == [
        f"{t['accuracies'][-1][1]:.4f}" for t in trainings
    ]
    for each, limit in zip(trainings, (4, 120), strict=True):
        turns = [(t["worker"], t["local_step"], t["step"], t["accepted"]) for t in each["turns"]]
        assert turns == _by_the_rule(num_workers=4, steps=120, seed=1, limit=limit)
        kinds = Counter((worker, accepted) for worker, _, _, accepted in turns)
        assert each["counts"] == [[kinds[k, True], kinds[k, False]] for k in range(4)]
    assert sum(dropped for _, dropped in trainings[0]["counts"]) > 0
    assert sum(dropped for _, dropped in trainings[1]["counts"]) == 0
    losses = [turn["loss"] for turn in trainings[0]["turns"]]
    assert np.mean(losses[-20:]) < 0.75 * np.mean(losses[:10])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_same_seed_gives_the_same_training_to_the_last_bit():
    settings = Settings(workers=3, staleness=2, steps=60, batch_size=8)
    first, again = async_digits.train(settings), async_digits.train(settings)

    assert first.turns == again.turns
    assert first.accuracies == again.accuracies
    assert first.dropped[-1] > 0


def test_a_single_worker_is_never_stale():
    settings = Settings(workers=1, staleness=0, steps=30, batch_size=8)
    history = async_digits.train(settings)

    assert [turn.staleness for turn in history.turns] == [0] * 30
    assert history.counts == [(30, 0)]


def test_slower_workers_finish_as_much_less_often(seed: int):
    finished = Counter(islice(machines.finishes(num_workers=4, seed=seed), 15_000))

    for worker in range(4):
        share = 8_000 / machines.times_as_long(worker)
        assert finished[worker] == pytest.approx(share, rel=0.05)
