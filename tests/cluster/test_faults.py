"""Real processes that are killed, frozen, late and started again, in training of each kind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster_trainings import TRAININGS
from tests.support.forked_python import forked_python
from tests.support.sync_replicas_log import PushLog

FAULTS = Path(__file__).resolve().parents[1] / "support" / "cluster_faults.py"
LONG_FROZEN_SECS = 30

BOTH = ["kill", "freeze"]
ALL = ["late worker 2", "kill worker 2", "freeze worker 2", "leave worker 2"]
ALL += [f"{fault} {task}" for task in ("worker 0", "ps 0", "ps 1") for fault in BOTH]
EXPECTED = {
    "backups": [*ALL, "end_late"],
    "drop_stale": [*ALL, "end_late"],
    "all_needed": [
        "late worker 2",
        *(f"{fault} worker 2" for fault in ("kill", "kill_idle", "fail", "freeze")),
        *("kill worker 0", "freeze worker 0", "kill ps 0", "end"),
    ],
    "unfiltered": ["late worker 2", "kill worker 2", "end"],
}


def run(folder: Path, frozen_secs: float) -> tuple[dict[str, list[str]], str]:
    """Returns the faults that each training went through, and the errors."""
    done = subprocess.run(
        [*forked_python(), str(FAULTS), str(folder), str(frozen_secs), *EXPECTED],
        capture_output=True,
        text=True,
        timeout=240 + 40 * frozen_secs,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    faults: dict[str, list[str]] = {name: [] for name in EXPECTED}
    for each in reports:
        faults[each["plan"]].append(each["fault"])
    return faults, done.stderr


@pytest.fixture(scope="module")
def survived(tmp_path_factory):
    return run(tmp_path_factory.mktemp("faults"), frozen_secs=3)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("training", EXPECTED)
def test_training_goes_on_and_nothing_counts_twice(survived, training):
    faults, errors = survived
    assert faults[training] == EXPECTED[training], errors[-6000:]


@pytest.mark.long
def test_training_goes_on_after_long_freezes(tmp_path):
    faults, errors = run(tmp_path, LONG_FROZEN_SECS)
    assert faults == EXPECTED, errors[-6000:]


def log_of(folder: Path, weights: dict[str, list[int]], accepted: bool = True) -> None:
    """Writes the log of a training with 30 gradients, the last of which may be dropped."""
    log = PushLog(str(folder / "log"))
    log.add("restored", weights={})
    for number in range(30):
        log.add("try", id=number)
        log.add("push", id=number, accepted=number < 29 or accepted)
    log.add("final", weights=weights)


@pytest.mark.parametrize(
    "applied, accepted",
    [(range(29), True), (range(30), False), (range(31), True)],
    ids=["a gradient is lost", "a dropped gradient was applied", "a gradient nobody made"],
)
def test_the_check_of_asynchronous_training_sees(tmp_path, applied, accepted):
    training = TRAININGS["drop_stale"](tmp_path)
    log_of(tmp_path, {"table_0": list(applied)}, accepted)
    with pytest.raises(AssertionError, match="gradient 29|were never made"):
        training.check()


def test_the_check_of_asynchronous_training_accepts_what_is_right(tmp_path):
    training = TRAININGS["drop_stale"](tmp_path)
    log_of(tmp_path, {"table_0": list(range(29))}, accepted=False)
    assert training.check()["openings"] == 1
