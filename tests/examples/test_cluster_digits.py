"""The example of training on a cluster, as processes that the launcher starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compat import v1
from tf_condacc.examples import cluster_digits
from tf_condacc.examples.common.network import Classifier

from tests.processes.forked_python import forked_python
from tests.processes.launched import wait_until

_EXAMPLE = "tf_condacc.examples.cluster_digits"
_LIMIT_SECS = 240


def launch(folder: Path, *options: str) -> dict[str, Any]:
    """Runs the example with two workers, and returns the record of the chief."""
    command = [sys.executable, "-m", "condacc", "launch", "--ps", "1", "--workers", "2"]
    command += ["--restarts", "1", "--grace-secs", "20", "--log-dir", str(folder / "logs")]
    done = subprocess.run(
        [*command, "--", *forked_python(), "-m", _EXAMPLE, *arguments(folder), *options],
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECS,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    return json.loads((folder / "record.json").read_text())


def alone(folder: Path, *options: str) -> dict[str, Any]:
    """Runs the example in one process, and returns its record."""
    subprocess.run(
        [*forked_python(), "-m", _EXAMPLE, *arguments(folder), *options],
        check=True,
        capture_output=True,
        timeout=_LIMIT_SECS,
    )
    return json.loads((folder / "record.json").read_text())


def arguments(folder: Path) -> list[str]:
    folder.mkdir()
    return [
        *("--folder", str(folder / "training"), "--output", str(folder / "picture.png")),
        *("--losses", str(folder / "record.json")),
    ]


@pytest.mark.timeout(2 * _LIMIT_SECS)
def test_synchronous_workers_learn_what_one_process_learns(tmp_path):
    options = ("--steps", "40", "--learning-rate", "0.02")
    together = launch(tmp_path / "cluster", *options)
    one = alone(tmp_path / "alone", *options)
    assert together["steps"] == one["steps"] == [0, 10, 20, 30, 40]
    np.testing.assert_allclose(together["losses"], one["losses"], rtol=1e-4)
    assert one["losses"][-1] < 0.8 * one["losses"][0]
    assert list((tmp_path / "cluster" / "training").glob("events.out.tfevents.*"))


@pytest.mark.timeout(2 * _LIMIT_SECS)
def test_asynchronous_training_goes_on_when_a_worker_is_killed(tmp_path):
    record = launch(tmp_path / "cluster", "--mode", "async", "--steps", "150", "--fault-at", "40")
    assert record["steps"][-1] >= 150
    assert record["losses"][-1] < record["losses"][0]
    assert record["faults"][0][0] == "killed"
    log = (tmp_path / "cluster" / "logs" / "launch.log").read_text()
    assert "worker 1 is lost: SIGKILL" in log


def test_asynchronous_training_is_measured_by_time(capsys):
    settings = cluster_digits.Settings(mode="async")
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        chief = cluster_digits.Chief(settings, Classifier(settings.seed), tf.constant(0), step)
        with v1.train.MonitoredSession(hooks=[chief]) as session:
            # The chief takes no turn of its own.
            wait_until(lambda: len(chief.history.moments) >= 3, "no three measurements")
            assert not session.should_stop()
    assert capsys.readouterr().out.count("step 0 of 300") == len(chief.history.moments)
