"""Tests of the demo and the examples as programs: Ctrl-C ends them, wrong options are refused."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.processes.terminal import press_ctrl_c

# Each program and each backend is interrupted in `make test`, and all pairs in `make test-long`.
_long = pytest.mark.long
_LOSS = r"loss=\d"
_STEP = r"[1-9]\d*/\d+ \["  # The pattern matches a progress bar after the first step.
_STOPPED = "Interrupted: all workers have stopped."
_SHARED_WRONG_OPTIONS = [
    (["--steps", "0"], "must be at least"),
    (["--output", "no/such/folder/picture.png"], "there is no folder no/such/folder"),
]
_WRONG_OPTIONS = {
    "tf_condacc.demo": [
        (["--workers", "2", "--required", "3"], "--required 3, but there are 2 workers"),
    ],
    "tf_condacc.examples.digits": [
        (["--workers", "2", "--required", "3"], "--required 3, but there are 2 workers"),
    ],
    "tf_condacc.examples.word_vectors": [
        (["--workers", "2", "--required", "3"], "--required 3, but there are 2 workers"),
        (["--width", "0"], "must be at least 1, got 0"),
    ],
    "tf_condacc.examples.async_digits": [
        (["--staleness", "-1"], "must be at least 0, got -1"),
        (["--workers", "0"], "must be at least 1, got 0"),
    ],
    "tf_condacc.examples.towers": [
        (["--towers", "3"], "--batch-size has 64 digits: 3 towers cannot share them"),
        (["--towers", "1", "7", "--batch-size", "70"], "the test has 360 digits: 7 towers cannot"),
        (["--towers", "0"], "must be at least 1, got 0"),
    ],
}


@pytest.mark.parametrize(
    ("command", "when", "last_line"),
    [
        (["tf_condacc.demo", "--backend", "condacc"], _LOSS, _STOPPED),
        pytest.param(["tf_condacc.demo", "--backend", "tf"], _LOSS, _STOPPED, marks=_long),
        pytest.param(
            ["tf_condacc.examples.word_vectors", "--backend", "tf"], _LOSS, _STOPPED, marks=_long
        ),
        pytest.param(
            ["tf_condacc.examples.word_vectors", "--backend", "condacc"],
            _LOSS,
            _STOPPED,
            marks=_long,
        ),
        pytest.param(["tf_condacc.examples.async_digits"], _LOSS, _STOPPED, marks=_long),
        (["tf_condacc.examples.towers"], _STEP, "Interrupted"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_ctrl_c_ends_it_cleanly(command: list[str], when: str, last_line: str, tmp_path: Path):
    picture = tmp_path / "picture.png"
    ended = press_ctrl_c(["-m", *command, "--steps", "1000000", "--output", str(picture)], when)

    assert ended.status == 130, ended.output
    assert "Traceback" not in ended.output
    assert ended.output.rstrip().splitlines()[-1].startswith(last_line)
    assert ended.seconds < 30
    assert not picture.exists()


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        pytest.param(module, arguments, message, id=" ".join([module, *arguments]))
        for module, own in _WRONG_OPTIONS.items()
        for arguments, message in own + _SHARED_WRONG_OPTIONS
    ],
)
def test_a_wrong_option_is_refused_before_any_work(
    module: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    name = "tf_condacc.demo.__main__" if module == "tf_condacc.demo" else module
    main = importlib.import_module(name).main
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err
