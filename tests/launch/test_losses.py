"""Tasks of the launcher that are lost or frozen."""

from __future__ import annotations

import os
import re
import signal

import pytest

from condacc.liveness import Answer
from tests.processes.launched import wait_until_gone


def test_a_lost_task_is_started_again_as_often_as_asked_for(launch, tmp_path):
    code = (
        "print('attempt')\n"
        "if (job, index) != ('worker', 1): wait() if not os.path.exists('go') else sys.exit(0)\n"
        "os.kill(os.getpid(), signal.SIGKILL) if once('first') else sys.exit(7)"
    )
    launched = launch(code, "--ps", "0", "--workers", "2", "--restarts", "2", sets_clock=True)
    launched.until("Restart 1 of 2")
    launched.set_clock(1)
    launched.until("Restart 2 of 2")
    launched.set_clock(3)
    launched.until("No restarts are left")
    told = re.findall(r"worker 1 is lost: .*", launched.output)
    assert told == [
        "worker 1 is lost: SIGKILL (status 137). Restart 1 of 2 follows in 1 s.",
        "worker 1 is lost: status 7. Restart 2 of 2 follows in 2 s.",
        "worker 1 is lost: status 7. No restarts are left.",
    ]
    assert launched.output.count("[worker 1] attempt") == 3
    assert launched.output.count("[worker 0] attempt") == 1  # The chief continues without worker 1.
    assert launched.process.poll() is None
    (tmp_path / "go").touch()
    os.kill(launched.processes()["worker 0"], signal.SIGKILL)
    launched.until("worker 0 is lost: .* follows in 1 s")
    launched.set_clock(4)
    assert launched.end() == 7
    assert "[launch] worker 1: status 7, 2 restarts, " in launched.output
    assert "[launch] worker 0: status 0, 1 restart, " in launched.output


def test_a_task_that_has_finished_is_not_started_again(launch):
    code = (
        "print('attempt')\n"
        "if index == 0 and once('first'):\n"
        "    wait_for('done'); sys.exit(1)\n"
        "if index == 1: once('done')"
    )
    launched = launch(code, "--ps", "0", "--workers", "2", "--restarts", "3")
    assert launched.end() == 0
    assert launched.output.count("[worker 1] attempt") == 1
    assert launched.output.count("[worker 0] attempt") == 2


def test_nothing_is_started_again_after_the_chief_has_finished(launch, tmp_path):
    code = (
        "if index == 1:\n"
        "    print('ready')\n"
        "    open('go').read()\n"
        "    sys.exit(6)\n"
        "wait_for('done')"
    )
    os.mkfifo(tmp_path / "go")
    launched = launch(code, "--ps", "0", "--workers", "2", "--restarts", "3")
    launched.until("ready")
    (tmp_path / "done").touch()
    launched.until("worker 0 has finished")
    (tmp_path / "go").write_text("")
    assert launched.end() == 6
    told = "worker 1 is lost: status 6. It is not restarted: worker 0, the chief, has finished."
    assert told in launched.output


@pytest.mark.parametrize("name", ["worker 0", "ps 0"])
def test_the_others_are_ended_when_nobody_can_go_on(launch, name):
    launched = launch("print('ready'); wait()", "--ps", "1", "--workers", "3", "--grace-secs", "1")
    launched.until("ready", count=4)
    os.kill(launched.processes()[name], signal.SIGKILL)
    assert launched.end() == 143  # The status of the ended workers, which is higher.
    assert f"{name} is lost: SIGKILL (status 137). No restarts are left." in launched.output
    assert f"{name} is lost, and no worker can continue without it" in launched.output.lower()
    others = [each for each in ("worker 0", "worker 1", "worker 2", "ps 0") if each != name]
    for other in others:
        assert f"{other} has not ended by itself within 1 s" in launched.output
    assert "[launch] worker 1: SIGTERM (status 143) (ended by the launcher), 0 restarts" in (
        launched.output
    )


def test_what_a_lost_task_leaves_behind_is_killed_before_the_restart(launch):
    child = "import signal; signal.pause()"
    code = (
        "import subprocess\n"
        "if not once('first'): sys.exit(0)\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {child!r}])\n"
        "print('child', child.pid)\n"
        "sys.exit(1)"
    )
    launched = launch(code, "--ps", "0", "--workers", "1", "--restarts", "1")
    child = int(launched.until(r"child (\d+)")[0])
    launched.until("is lost")
    wait_until_gone(child)
    assert launched.end() == 0


def test_a_task_that_waits_for_its_restart_stays_lost_when_the_chief_finishes(launch, tmp_path):
    code = "if index == 1: sys.exit(5)\nwait_for('done')"
    launched = launch(code, "--ps", "0", "--workers", "2", "--restarts", "9", sets_clock=True)
    launched.until("Restart 1 of 9 follows in 1 s")
    (tmp_path / "done").touch()
    assert launched.end() == 5
    assert "worker 1 is not restarted: worker 0, the chief, has finished." in launched.output


def test_a_frozen_task_is_reported_once_and_when_it_answers_again(launch):
    options = ["--ps", "0", "--workers", "1", "--frozen-secs", "0.5", "--lost-secs", "0"]
    launched = launch("wait()", *options, sets_answer=True, interval_secs=0.05, pause_secs=0.05)
    launched.set_answer(Answer.SILENT)
    launched.until(r"worker 0 has not answered for 0\.5 s\. Its process may be frozen\.")
    launched.set_answer(Answer.ANSWERED)
    launched.until("worker 0 answers again")
    launched.process.send_signal(signal.SIGTERM)
    assert launched.end() == 143
    assert launched.output.count("has not answered") == 1


def test_a_task_that_stays_frozen_is_killed_and_replaced(launch):
    code = "is_first = once('first')\nprint('ready')\nwait() if is_first else sys.exit(0)"
    options = ["--ps", "0", "--workers", "1", "--restarts", "1", "--lost-secs", "0.5"]
    quick = {"interval_secs": 0.05, "pause_secs": 0.05}
    launched = launch(code, *options, sets_clock=True, sets_answer=True, **quick)
    launched.until("ready")
    os.kill(launched.processes()["worker 0"], signal.SIGSTOP)
    launched.set_answer(Answer.SILENT)
    launched.until(r"worker 0 has not answered for 0\.5 s and is killed\.")
    launched.until("Restart 1 of 1")
    launched.set_answer(Answer.ANSWERED)
    launched.set_clock(1)
    assert launched.end() == 0
    assert "worker 0 is lost: SIGKILL (status 137). Restart 1 of 1 follows" in launched.output
    assert any("is killed" in line for line in launched.log("worker-0"))
