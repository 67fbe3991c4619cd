"""Tests of the demo: it learns, drops stale gradients, ends cleanly, and names missing packages."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tf_condacc.examples import digits

from tests.processes.forked_python import forked_python
from tests.processes.programs import TIMEOUT_SECONDS, run_program


def _cell(table: str, row: str) -> str:
    """Returns the value beside a row's name in the table."""
    return re.search(rf"^  {row}  +(.*)$", table, re.MULTILINE).group(1)


def test_one_worker_gives_the_same_losses_as_tensorflow_to_the_last_bit():
    ours, theirs = (
        digits.train(digits.Settings(workers=1, required=1, steps=60, backend=backend))
        for backend in ("condacc", "tf")
    )

    assert len(ours.losses) == 60
    assert ours.losses == theirs.losses
    assert ours.accuracies == theirs.accuracies
    assert ours.losses[-1] < 0.5 * ours.losses[0]
    assert ours.accepted == [1] * 60
    assert ours.dropped_in_all == 0


def test_four_workers_learn_and_stale_gradients_are_dropped(tmp_path: Path):
    picture, record = tmp_path / "demo.png", tmp_path / "losses.json"
    options = ["--steps", "300", "--output", str(picture), "--losses", str(record)]
    demo = run_program("demo", *options)

    assert demo.returncode == 0, demo.stderr
    assert float(_cell(demo.stdout, "test accuracy")) >= 0.95
    assert _cell(demo.stdout, "steps") == "300"
    history = json.loads(record.read_text())
    assert len(history["losses"]) == 300
    assert min(history["accepted"]) >= 3
    assert history["dropped_in_all"] > 0
    assert _cell(demo.stdout, "gradients dropped") == f"{history['dropped_in_all']:,}"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_every_pushed_gradient_is_applied_dropped_or_still_pending():
    history = digits.train(digits.Settings(workers=4, required=2, steps=100, batch_size=8))

    assert history.pushed == sum(history.accepted) + history.dropped_in_all + history.pending
    assert history.dropped == sorted(history.dropped)
    assert len(history.dropped) == 100


def test_the_table_says_where_drops_are_not_counted(tmp_path: Path):
    options = ["--backend", "tf", "--steps", "20", "--output", str(tmp_path / "demo.png")]
    demo = run_program("demo", *options)

    assert demo.returncode == 0, demo.stderr
    assert "TensorFlow's class does not count them" in _cell(demo.stdout, "gradients dropped")


def test_a_missing_package_is_named_in_one_line():
    program = (
        "import sys; sys.modules['tqdm'] = None\n"
        "from tf_condacc.demo.__main__ import main\n"
        "sys.exit(main([]))"
    )
    demo = subprocess.run(
        [*forked_python(), "-c", program], capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )

    assert demo.returncode == 1
    assert "Traceback" not in demo.stderr
    assert demo.stderr.splitlines()[-1].startswith(
        "python -m tf_condacc.demo needs tqdm: pip install matplotlib tqdm"
    )
