"""The example of TensorFlow 2's parameter servers, as processes that are lost."""

from __future__ import annotations

import os
import re
import signal
import sys

import keras
import pytest

from tests.examples.programs import ENVIRONMENT, path_of
from tests.processes.forked_python import forked_python
from tests.processes.launched import launch_arguments, launchers, task_command
from tests.support.waiting import run_program

pytestmark = pytest.mark.examples
EXAMPLE = path_of("parameter_servers")
STEPS = ["--steps", "400"]
KILL, STOP = signal.SIGKILL, signal.SIGSTOP
# The faults of each training: the step, the signal, and the task that gets it.
FAULTS = {
    "a parameter server, then a worker for good": [(20, KILL, "ps 1"), (150, KILL, "worker 1")],
    "nothing": [],
    "two workers": [(20, KILL, "worker 0"), (150, KILL, "worker 2")],
    "a frozen worker": [(20, STOP, "worker 2")],
    "the coordinator": [(20, KILL, "chief 0")],
    "a frozen coordinator": [(20, STOP, "chief 0")],
    "all in turn": [
        (20, KILL, "worker 0"),
        (60, KILL, "ps 0"),
        (150, STOP, "worker 2"),
        (220, KILL, "chief 0"),
        (300, KILL, "worker 1"),
    ],
}
# Worker 1 does not come back. All other tasks run the example.
CODE = """
if (job, index) == ("worker", 1) and not once("worker 1 was here"):
    sys.exit(3)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def launch(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    yield from launchers(tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[str]:
    """The digests of the training of one process.

    With Keras 2, which draws other initial values for pieces of a variable, those of a cluster.
    """
    folder = tmp_path_factory.mktemp("undisturbed")
    if keras.__version__.startswith("2"):
        options = ["--coordinator", "--workers", "1", "--ps", "2", "--end-secs", "0"]
        arguments = launch_arguments(*options, "--", sys.executable, EXAMPLE, *STEPS)
        command = [sys.executable, *arguments]
    else:
        command = [*forked_python(), EXAMPLE, *STEPS]
    done = run_program(command, cwd=folder, env=os.environ | ENVIRONMENT)
    found = digests(done.stdout)
    assert (done.returncode, len(found)) == (0, 2), done.stderr
    return found


def digests(output: str) -> list[str]:
    return re.findall(r"(?:weights|slots) \w{64}$", output, re.MULTILINE)


FIRST, *OTHERS = FAULTS


@pytest.mark.parametrize(
    "lost", [FIRST, *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_the_bits_are_those_of_one_process_whatever_is_lost(launch, undisturbed, lost):
    options = ["--coordinator", "--ps", "2", "--workers", "3", "--restarts", "1", "--end-secs", "0"]
    freezes = any(number == STOP for _, number, _ in FAULTS[lost])
    python = [sys.executable] if freezes else forked_python()  # Whose client would be frozen.
    command = [*task_command(CODE), *python, EXAMPLE, *STEPS]
    launched = launch(command, *options, "--lost-secs", "2")
    num_lost = 0
    for step, number, task in FAULTS[lost]:
        launched.until(rf"step {step} ")
        os.kill(launched.processes()[task], number)
        num_lost += 1
        launched.until(r"\w+ \d is lost: .* Restart \d", count=num_lost)
    is_for_good = any(task == "worker 1" for _, _, task in FAULTS[lost])
    assert launched.end() == (3 if is_for_good else 0)
    assert "chief 0: status 0, " in launched.output
    print(f"{lost}: {', '.join(digests(launched.output))}")
    assert digests(launched.output) == undisturbed
