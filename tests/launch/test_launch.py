"""The launcher's tasks: their places, what they write, and their statuses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket

import pytest

from condacc.launch._cluster import free_ports
from condacc.launch._command import main
from tests.processes import terminal
from tests.processes.launched import launch_arguments, task_command, wait_until_gone
from tests.support.waiting import PATIENCE_SECS


def configs(launched):
    """The TF_CONFIG that each task has printed, by the prefix of the line."""
    lines = re.findall(r"^\[(\w+ \d)\] (\{.*\})$", launched.output, re.MULTILINE)
    return {name: json.loads(config) for name, config in lines}


def test_every_task_gets_its_place(launch):
    launched = launch("print(os.environ['TF_CONFIG'])", "--ps", "2", "--workers", "3")
    assert launched.end() == 0
    places = configs(launched)
    assert sorted(places) == ["ps 0", "ps 1", "worker 0", "worker 1", "worker 2"]
    for name, config in places.items():
        job, index = name.split()
        assert config["task"] == {"type": job, "index": int(index)}
        assert config["cluster"] == places["ps 0"]["cluster"]
    addresses = places["ps 0"]["cluster"]
    assert {job: len(each) for job, each in addresses.items()} == {"ps": 2, "worker": 3}
    every = [address for each in addresses.values() for address in each]
    assert len(set(every)) == 5
    assert all(re.fullmatch(r"localhost:\d+", address) for address in every)


def test_there_is_no_job_ps_without_parameter_servers(launch):
    launched = launch("print(os.environ['TF_CONFIG'])", "--ps", "0", "--workers", "1")
    assert launched.end() == 0
    assert list(configs(launched)["worker 0"]["cluster"]) == ["worker"]


@pytest.mark.parametrize("names", [("ps", "worker"), ("parameter_server", "Worker")])
def test_the_command_is_filled_with_the_place_of_each_task(launch, names):
    arguments = ["--job_name={job}", "-i", "{index}", "{ps}", "{workers}", "{hosts:worker};{{job}}"]
    others = ['{"a": {}}', "{jobs}", "${job}"]
    code = "print(json.dumps(sys.argv[1:] + [os.environ['TF_CONFIG']]))"
    command = [*task_command(code), *arguments, *others]
    jobs = [f"--jobs={','.join(names)}"] if names[0] != "ps" else []
    launched = launch(command, "--ps", "1", "--workers", "2", *jobs)
    assert launched.end() == 0
    lines = re.findall(r"^\[(\w+) (\d)\] (\[.*\])$", launched.output, re.MULTILINE)
    assert len(lines) == 3
    for job, index, line in lines:
        *found, config = json.loads(line)
        hosts = {job: ",".join(each) for job, each in json.loads(config)["cluster"].items()}
        name = dict(zip(("ps", "worker"), names, strict=True))[job]
        expected = [f"--job_name={name}", "-i", index, hosts["ps"], hosts["worker"]]
        expected += [f"{hosts['worker']};{{job}}", '{"a": {}}', "{jobs}", f"${name}"]
        assert found == expected


def test_ports_are_those_of_the_option(launch):
    first, second, third = sorted(free_ports(3))
    ports = ["--ports", f"{third},{first}-{first},{second}"]
    launched = launch("print(os.environ['TF_CONFIG'])", "--ps", "1", "--workers", "2", *ports)
    assert launched.end() == 0
    assert configs(launched)["ps 0"]["cluster"] == {
        "ps": [f"localhost:{third}"],
        "worker": [f"localhost:{first}", f"localhost:{second}"],
    }


def test_a_port_that_is_taken_is_an_error(launch):
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        launched = launch("", "--ps", "0", "--workers", "1", "--ports", str(port))
        assert launched.end() == 2
    assert f"argument --ports: port {port}: " in launched.output


def test_without_an_address_of_localhost_it_says_so(monkeypatch, capsys):
    def fail(address: tuple[str, int]) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_server", fail)
    with pytest.raises(SystemExit, match="2"):
        main(["--workers", "1", "true"])
    assert "error: no server can listen on localhost: [Errno -2] Name" in capsys.readouterr().err


def test_a_task_inherits_the_environment_but_not_the_terminal(launch, monkeypatch):
    monkeypatch.setenv("OF_THE_USER", "kept")
    monkeypatch.setenv("TF_CONFIG", "{}")
    code = (
        "names = sorted(os.listdir('/proc/self/fd'), key=int)\n"
        "print(*map(os.environ.get, ['OF_THE_USER', 'PYTHONUNBUFFERED', 'TF_CONDACC_LAUNCHED']), "
        "names, os.getsid(0) == "
        "os.getpid(), signal.getsignal(signal.SIGINT) is signal.default_int_handler, "
        "repr(sys.stdin.read()))"
    )
    launched = launch(code, "--ps", "0", "--workers", "1")
    assert launched.end() == 0
    # The fourth descriptor is that of the listed folder.
    expected = "kept 1 1 ['0', '1', '2', '3'] True True ''"
    assert launched.log("worker-0")[1] == expected


@pytest.mark.parametrize(
    ("options", "inherited", "level"),
    [
        ([], None, None),
        (["--hide-tensorflow-log"], None, "3"),
        (["--hide-tensorflow-log"], "1", "1"),
    ],
    ids=["shown", "hidden", "set by the user"],
)
def test_the_log_of_tensorflow_is_hidden_if_asked_for(
    launch, monkeypatch, options, inherited, level
):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    if inherited is not None:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", inherited)
    code = "print('level', os.environ.get('TF_CPP_MIN_LOG_LEVEL'))"
    launched = launch(code, "--ps", "1", "--workers", "1", *options)
    assert launched.end() == 0
    assert launched.output.count(f"level {level}\n") == 2


def test_whole_lines_are_copied_to_the_output_and_to_files(launch):
    code = (
        "for number in range(300):\n"
        "    for part in (f'{number} ', 'of ', job, '\\n'):\n"
        "        (sys.stderr if number % 3 == 0 else sys.stdout).write(part)\n"
        "sys.stdout.write('the end')"
    )
    launched = launch(code, "--ps", "1", "--workers", "3")
    assert launched.end() == 0
    for name in ("ps 0", "worker 0", "worker 1", "worker 2"):
        own = [f"{number} of {name.split()[0]}" for number in range(300)] + ["the end"]
        shown = [
            line.removeprefix(f"[{name}] ")
            for line in launched.output.splitlines()
            if line.startswith(f"[{name}] ")
        ]
        assert sorted(shown) == sorted(own)
        logged = [line for line in launched.log(name.replace(" ", "-")) if "[launch]" not in line]
        assert logged == shown
        assert [line for line in shown if line in own[1::3]] == own[1::3]


def test_bytes_of_any_kind_are_copied(launch):
    code = (
        "os.write(1, b'caf\\xc3\\xa9 \\xff\\x00 \\x1b[31mred\\x1b[2K\\n' + b'x' * 200000 + b'\\n')"
    )
    launched = launch(code, "--ps", "0", "--workers", "1")
    assert launched.end() == 0
    lines = [line for line in launched.log("worker-0") if "[launch]" not in line]
    assert lines[0] == "café \\xff\x00 \x1b[31mred\x1b[0m"
    assert "".join(lines[1:]) == "x" * 200_000
    assert max(map(len, lines[1:])) == 65_536


def test_files_are_emptied_and_tell_of_restarts(launch, tmp_path):
    folder = tmp_path / "launch_logs"
    folder.mkdir()
    (folder / "worker-0.log").write_text("of the last run\n")
    code = "first = once('lost')\nprint('attempt')\nsys.exit(3 if first else 0)"
    launched = launch(code, "--ps", "0", "--workers", "1", "--restarts", "2")
    assert launched.end() == 0
    lines = [re.sub(r" \(process.*", "", line) for line in launched.log("worker-0")]
    assert lines == [
        "[launch] worker 0 is started",
        "attempt",
        "[launch] worker 0 is lost: status 3. Restart 1 of 2 follows in 1 s.",
        "[launch] worker 0 is started again: restart 1 of 2",
        "attempt",
        "[launch] worker 0 has finished.",
    ]
    messages = [line for line in launched.output.splitlines() if line.startswith("[launch] ")]
    assert launched.log("launch") == messages
    assert re.fullmatch(r"\[launch\] worker 0: status 0, 1 restart, \d+\.\d s", messages[-1])


def test_messages_of_the_launcher_have_the_time_of_day(launch):
    launched = launch("", "--ps", "0", "--workers", "1")
    assert launched.end() == 0
    for name in ("launch", "worker-0"):
        lines = (launched.logs / f"{name}.log").read_text().splitlines()
        assert lines and all(
            re.match(r"\[launch\] \d\d:\d\d:\d\d worker 0\b", each) for each in lines
        )


def test_lines_have_colours_on_a_terminal_unless_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    code = "print('here', flush=True); wait()"
    options = ["--ps", "0", "--workers", "1", "--log-dir", str(tmp_path)]
    command = launch_arguments(*options, "--", *task_command(code))
    coloured = terminal.press_ctrl_c(command, when="here")
    assert "\x1b[36m[worker 0]\x1b[0m here" in coloured.output
    monkeypatch.setenv("NO_COLOR", "1")
    plain = terminal.press_ctrl_c(command, when="here")
    assert "\n[worker 0] here" in plain.output
    assert (coloured.status, plain.status) == (130, 130)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("sys.exit(index * 3)", 6),
        ("sys.exit(5 if index == 1 else 0)", 5),
        ("os.kill(os.getpid(), signal.SIGKILL) if index == 2 else sys.exit(9 * index)", 137),
        ("sys.exit(4 if job == 'ps' else 0)", 4),
    ],
)
def test_the_status_is_the_highest_of_all_tasks(launch, code, status):
    launched = launch(code, "--ps", "1", "--workers", "3")
    assert launched.end() == status
    assert re.search(rf"\[launch\] \w+ \d: .*status {status}\b", launched.output)


def test_a_reader_that_goes_away_does_not_end_the_training(launch):
    code = "print('first'); wait_for('go'); print('last')"
    launched = launch(code, "--ps", "0", "--workers", "1")
    launched.until("first")
    launched.process.stdout.close()
    (launched.logs.parent / "go").touch()
    assert launched.process.wait(PATIENCE_SECS) == 0
    assert "last" in launched.log("worker-0")
    assert any(
        "the standard output cannot be written to" in each for each in launched.log("launch")
    )


def test_what_a_finished_task_leaves_behind_is_ended(launch):
    code = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import signal; signal.pause()'])\n"
        "print('child', child.pid)"
    )
    launched = launch(code, "--ps", "0", "--workers", "1")
    assert launched.end() == 0
    wait_until_gone(int(launched.until(r"child (\d+)")[0]))


def test_a_launcher_that_is_killed_leaves_nobody(launch):
    child = "import signal\nprint('ready', flush=True)\nsignal.pause()"
    code = (
        "import subprocess\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {child!r}])\n"
        "sys.stdout.write(f'child {child.pid}\\n')\n"  # As a whole: the child prints, too.
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "wait()"
    )
    launched = launch(code, "--ps", "1", "--workers", "1")
    launched.until("ready", count=2)
    children = [int(child) for child in launched.until(r"child (\d+)", count=2)]
    launched.process.send_signal(signal.SIGKILL)
    for pid in (*launched.processes().values(), *children):
        wait_until_gone(pid)
    assert launched.end() == -signal.SIGKILL
