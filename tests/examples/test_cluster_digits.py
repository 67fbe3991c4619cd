"""The example of training on a cluster, as processes that the launcher starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.examples.programs import ENVIRONMENT, output_of, path_of, run
from tests.processes.forked_python import forked_python
from tests.support.waiting import PATIENCE_SECS, run_program

pytestmark = pytest.mark.examples


def launch(folder: Path, *options: str) -> str:
    """Runs the example with two workers, and returns the output."""
    folder.mkdir()
    command = [sys.executable, "-m", "condacc", "launch", "--ps", "1", "--workers", "2"]
    command += ["--restarts", "1", "--grace-secs", str(PATIENCE_SECS)]
    done = run_program(
        [*command, "--", *forked_python(), path_of("cluster_digits"), *options],
        capture_output=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=os.environ | ENVIRONMENT,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert (folder / "cluster_digits.png").read_bytes().startswith(b"\x89PNG")
    return done.stdout


def measurements(output: str) -> tuple[list[int], list[float]]:
    """Returns the steps and the losses that the chief has printed."""
    found = re.findall(r"step (\d+) of \d+  loss (\S+)", output)
    return [int(step) for step, _ in found], [float(loss) for _, loss in found]


def test_synchronous_workers_learn_what_one_process_learns(tmp_path):
    together, losses = measurements(launch(tmp_path / "cluster", "--steps", "40"))
    (tmp_path / "alone").mkdir()
    one = output_of("cluster_digits", "--steps", "40", folder=tmp_path / "alone")
    steps, expected = measurements(one)
    assert together == steps == [0, 10, 20, 30, 40]
    np.testing.assert_allclose(losses, expected, rtol=1e-3)
    assert expected[-1] < 0.8 * expected[0]
    assert list((tmp_path / "cluster" / "cluster_digits").glob("events.out.tfevents.*"))


def test_asynchronous_training_goes_on_when_a_worker_is_killed(tmp_path):
    options = ("--mode", "async", "--steps", "150", "--fault-at", "40")
    output = launch(tmp_path / "cluster", *options)
    steps, losses = measurements(output)
    assert steps[-1] >= 150
    assert losses[-1] < losses[0]
    assert "worker 1 is lost: SIGKILL" in output
    assert (tmp_path / "cluster" / "cluster_digits" / "killed").exists()


def test_a_finished_training_is_not_begun_again(tmp_path):
    output_of("cluster_digits", "--steps", "10", folder=tmp_path)
    again = run("cluster_digits", "--steps", "10", folder=tmp_path)
    assert again.returncode == 1
    assert "cluster_digits holds a finished training: remove it" in again.stderr
