"""Tests of the example with towers: it learns, and towers learn the weights of one device."""

from __future__ import annotations

import re
from pathlib import Path

from tf_condacc.examples.common.tower_runs import TOLERANCE, Difference

from tests.processes.programs import run_program


def test_it_learns_and_towers_learn_what_one_device_learns(tmp_path: Path):
    picture = tmp_path / "picture.png"
    options = ["--steps", "60", "--compared-steps", "8", "--output", str(picture)]
    run = run_program("examples.towers", *options)

    assert run.returncode == 0, run.stderr
    trained = re.findall(
        r"^  (\d) towers? +loss (\S+), test accuracy (\S+) \(predicted classes: (\S+)\), "
        r"(\S+) ms a step$",
        run.stdout,
        re.MULTILINE,
    )
    assert [line[0] for line in trained] == ["1", "2", "4"]
    for _, loss, accuracy, predicted, milliseconds in trained:
        assert float(loss) < 0.5
        assert float(accuracy) > 0.9 and accuracy == predicted
        assert float(milliseconds) > 0
    same = re.findall(
        r"^  (.*\S) +(\S+) after the last step, (\S+) at most: the same$", run.stdout, re.MULTILINE
    )
    titles = ["2 towers", "MirroredStrategy, 2", "4 towers", "MirroredStrategy, 4"]
    assert [line[0] for line in same] == titles
    for _, last, most in same:
        assert 0 <= float(last) <= float(most) <= TOLERANCE
    (moved,) = re.findall(r"moves them by up to (\S+):", run.stdout)
    assert float(moved) > 100 * TOLERANCE
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_is_more_than_rounding_is_called_so():
    assert Difference("x", [0.0, 1e-6]).is_tolerable
    assert not Difference("x", [0.0, 1e-3, 0.0]).is_tolerable
