"""The end of the launcher's tasks: after the training, by signals, and after errors of use."""

from __future__ import annotations

import os
import re
import select
import signal

import pytest

from condacc._times import Times
from condacc.launch._command import main
from tests.processes import terminal
from tests.processes.launched import (
    is_stopped,
    launch_arguments,
    task_command,
    wait_until_gone,
)
from tests.support.waiting import PATIENCE_SECS, until

STUBBORN = (
    "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
    "    signal.signal(number, lambda number, frame: print('ignores', number))\n"
    "print('ready')\n"
    "wait()"
)


def test_a_parameter_server_may_end_by_itself(launch):
    code = "if job == 'ps': wait_for('done')\nelif index == 1: once('done')"
    launched = launch(code, "--ps", "1", "--workers", "2")
    assert launched.end() == 0
    assert "[launch] ps 0: status 0, 0 restarts" in launched.output


def test_a_parameter_server_that_never_ends_is_ended(launch):
    code = "if job == 'worker':\n    wait_for('0'); wait_for('1')\n    sys.exit(0)\n"
    code += STUBBORN.replace("print('ready')", "once(str(index))")
    options = ["--ps", "2", "--workers", "1", "--end-secs", "5"]
    launched = launch(code, *options, sets_clock=True, kill_ended_secs=2)
    launched.until("worker 0 has finished")
    launched.set_clock(5)
    launched.until("ignores 15", count=2)
    launched.set_clock(7)
    assert launched.end() == 0
    for name in ("ps 0", "ps 1"):
        assert f"[{name}] ignores 15" in launched.output
        assert f"[launch] {name}: status 0 (ended by the launcher)" in launched.output
        wait_until_gone(launched.processes()[name])


def test_workers_that_do_not_end_after_the_chief_are_ended_and_have_failed(launch, tmp_path):
    code = (
        "def end(number, frame):\n"
        "    print('ends with 0'); sys.exit(0)\n"
        "if index == 1: signal.signal(signal.SIGTERM, end)\n"
        "if index in (1, 2): once(f'ready{index}') and wait()\n"
        "if index == 0: wait_for('done'); wait_for('ready1'); wait_for('ready2')"
    )
    launched = launch(code, "--ps", "0", "--workers", "4", "--grace-secs", "0.5")
    launched.until("worker 3 has finished")
    (tmp_path / "done").touch()
    assert launched.end() == 143
    told = "has not ended by itself within 0.5 s (worker 0, the chief, has finished), and is ended."
    assert f"worker 1 {told}" in launched.output and f"worker 2 {told}" in launched.output
    assert "[worker 1] ends with 0" in launched.output
    for index in (1, 2):
        assert re.search(rf"worker {index}: SIGTERM \(status 143\) \(ended by", launched.output)


@pytest.mark.parametrize(
    ("number", "status", "received"),
    [
        (signal.SIGINT, 130, {0: "2", 2: "15"}),
        (signal.SIGTERM, 143, {0: "15"}),
        (signal.SIGHUP, 129, {0: "15"}),
    ],
)
def test_a_signal_ends_even_stubborn_tasks(launch, number, status, received):
    options = ["--workers", "1", "--restarts", "9"]
    launched = launch(STUBBORN, *options, sets_clock=True, terminate_secs=2, kill_secs=4)
    launched.until("ready", count=2)
    launched.process.send_signal(number)
    for secs, each in received.items():
        launched.set_clock(secs)
        launched.until(f"ignores {each}$", count=2)
    launched.set_clock(4)
    assert launched.end() == status
    for name, pid in launched.processes().items():
        assert re.findall(rf"\[{name}\] ignores (\d+)", launched.output) == [*received.values()]
        assert f"[launch] {name}: SIGKILL (status 137), 0 restarts" in launched.output
        wait_until_gone(pid)


def test_a_launcher_ends_within_five_seconds_after_a_signal():
    times = Times()
    assert times.terminate_secs < times.kill_secs < times.interrupted_secs
    assert times.interrupted_secs + times.rest_secs < 5


def test_ctrl_c_on_a_terminal_reaches_each_task_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    code = (
        "def end(number, frame):\n"
        "    print('received', number); sys.exit(0)\n"
        "signal.signal(signal.SIGINT, end)\n"
        "print('ready'); wait()"
    )
    options = ["--ps", "1", "--workers", "1", "--log-dir", str(tmp_path)]
    command = launch_arguments(*options, "--", *task_command(code))
    ended = terminal.press_ctrl_c(command, when=r"(?s)ready.*ready")
    assert ended.status == 130
    assert ended.output.count("received 2") == 2
    assert "Traceback" not in ended.output


def test_a_second_signal_kills_at_once_unless_it_was_sent_along_with_the_first(launch):
    code = f"signal.signal(signal.SIGUSR1, lambda *_: print('received'))\n{STUBBORN}"
    launched = launch(code, "--ps", "0", "--workers", "2", sets_clock=True, same_key_secs=0.3)
    launched.until("ready", count=2)
    launched.process.send_signal(signal.SIGINT)
    launched.until("ignores 2", count=2)
    launched.set_clock(0.2)
    launched.process.send_signal(signal.SIGINT)
    launched.process.send_signal(signal.SIGUSR1)  # It is forwarded after the other was handled.
    launched.until("received", count=2)
    assert "are killed" not in launched.output
    launched.set_clock(0.4)
    launched.process.send_signal(signal.SIGINT)
    assert launched.end() == 130
    assert "all tasks are killed" in launched.output
    assert "ignores 15" not in launched.output


def is_full(pipe) -> bool:
    """Returns whether nothing more can be written to the other end of a pipe."""
    other = os.open(f"/proc/self/fd/{pipe.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        return not select.select([], [other], [], 0)[1]
    finally:
        os.close(other)


def test_a_signal_ends_tasks_although_nobody_reads_what_they_write(launch):
    code = "print('ready')\nwhile True: print('x' * 1000)"
    launched = launch(code, "--ps", "0", "--workers", "2", rest_secs=0)
    launched.until("ready", count=2)
    until(lambda: is_full(launched.process.stdout), "the pipe to this test is full")
    launched.process.send_signal(signal.SIGINT)
    assert launched.process.wait(PATIENCE_SECS) == 130


def test_time_to_end_after_a_signal_is_given_to_all_processes_of_a_task(launch):
    # A signal that comes during print() might be handled only after signal.pause(), so never.
    child = (
        "import signal, sys, time\n"
        "def end(number, frame): time.sleep(0.3); print('saved', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.01)"
    )
    code = f"import subprocess\nsubprocess.Popen([sys.executable, '-S', '-c', {child!r}])\nwait()"
    launched = launch(code, "--ps", "0", "--workers", "1")
    launched.until("ready")
    launched.process.send_signal(signal.SIGTERM)
    assert launched.end() == 143
    assert "[worker 0] saved" in launched.output


def test_signals_of_the_user_are_forwarded_and_change_nothing(launch):
    code = (
        "for number in (signal.SIGUSR1, signal.SIGUSR2):\n"
        "    signal.signal(number, lambda number, frame: print('received', number))\n"
        "print('ready')\n"
        "wait_for('done')"
    )
    launched = launch(code, "--ps", "1", "--workers", "1")
    launched.until("ready", count=2)
    launched.process.send_signal(signal.SIGUSR1)
    launched.until("received 10", count=2)
    launched.process.send_signal(signal.SIGUSR2)
    launched.until("received 12", count=2)
    (launched.logs.parent / "done").touch()
    assert launched.end() == 0


def test_a_stopped_launcher_stops_its_tasks_until_it_is_continued(launch):
    code = "print('ready'); wait_for('done')"
    launched = launch(code, "--ps", "0", "--workers", "2")
    launched.until("ready", count=2)
    launched.process.send_signal(signal.SIGTSTP)
    every = [launched.process.pid, *launched.processes().values()]
    until(lambda: all(map(is_stopped, every)), "all are stopped")
    launched.process.send_signal(signal.SIGCONT)
    until(lambda: not any(map(is_stopped, every)), "all are continued")
    (launched.logs.parent / "done").touch()
    assert launched.end() == 0


def test_a_frozen_task_is_ended_by_a_signal_too(launch):
    launched = launch("print('ready'); wait()", "--ps", "0", "--workers", "2")
    launched.until("ready", count=2)
    pid = launched.processes()["worker 1"]
    os.kill(pid, signal.SIGSTOP)
    launched.process.send_signal(signal.SIGTERM)
    assert launched.end() == 143
    assert "worker 1: SIGTERM (status 143)" in launched.output


def test_a_signal_that_was_ignored_at_the_start_stays_ignored(launch):
    code = "print('ready'); wait_for('done')"
    launched = launch(code, "--ps", "0", "--workers", "1", ignored=signal.SIGHUP)
    launched.until("ready")
    launched.process.send_signal(signal.SIGHUP)
    launched.process.send_signal(signal.SIGUSR2)  # It comes later, and ends the task.
    assert launched.end() == 128 + signal.SIGUSR2


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--workers", "2"], 2, "missing command, as in: condacc launch"),
        (["--workers", "2", "--"], 2, "missing command"),
        (["--workers", "0", "--", "true"], 2, "--workers: must be at least 1, got 0"),
        (["--ps", "-1", "--workers", "1", "--", "true"], 2, "--ps: must be at least 0, got -1"),
        (["--workers", "1", "--restarts", "-1", "--", "true"], 2, "--restarts: must be at least 0"),
        (["--workers", "1", "--lost-secs", "nan", "--", "true"], 2, "--lost-secs: must be at"),
        (["--workers", "200", "--", "true"], 2, "at most 200 tasks, got 201"),
        (["--", "true"], 2, "the following arguments are required: --workers"),
        (["--workers", "1", "--no-option", "true"], 2, "unrecognized arguments: --no-option"),
        (["--workers", "1", "--log-dir", "/dev/null", "--", "true"], 2, "--log-dir: "),
        (["--workers", "1", "--ports", "2222", "--", "true"], 2, "2 different ports.*got 2222"),
        (["--workers", "1", "--ports", "7,7", "--", "true"], 2, "2 different ports.*got 7, 7"),
        (["--workers", "1", "--ports", "0-9", "--", "true"], 2, "ports from 1 to 65535, got 0-9"),
        (["--workers", "1", "--ports", "9-8", "--", "true"], 2, "ports from 1 to 65535, got 9-8"),
        (["--workers", "1", "--jobs", "ps", "--", "true"], 2, "two different names, got 'ps'"),
        (["--workers", "1", "--jobs", "a,a", "--", "true"], 2, "two different names, got 'a,a'"),
        (["--workers", "1", "--", "true", "{hosts:chief}"], 2, "no job 'chief', only ps and wor"),
        (["--workers", "1", "--", "no-such-command", "x"], 127, "not found: no-such-command"),
        (["--workers", "1", "no-such-command", "--ps", "x"], 127, "not found: no-such-command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_of_use_starts_nothing(arguments, status, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == status
    output, errors = capsys.readouterr()
    assert output == ""
    assert re.search(message, errors, re.DOTALL)
    assert errors.startswith("usage: " if status == 2 else "condacc launch: ")
    assert not (tmp_path / "launch_logs").exists()


def test_a_command_that_cannot_be_executed_is_a_lost_task(launch, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    launched = launch([str(program)], "--ps", "0", "--workers", "1")
    assert launched.end() == 127
    assert "cannot be started: No such file or directory" in launched.output
