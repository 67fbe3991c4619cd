"""Tasks of `condacc launch --coordinator`: their places, their ends, and who is lost with whom."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from condacc.launch._command import main
from tests.processes.launched import task_command

CLUSTER = ["--coordinator", "--ps", "2", "--workers", "2"]
# Servers wait until they are ended, and the coordinator until there is a file.
CODE = (
    "print('serves' if job != 'chief' else 'leads')\nwait() if job != 'chief' else wait_for('done')"
)


def test_the_coordinator_has_a_place_of_its_own_and_servers_end_after_it(launch):
    code = "print(json.dumps([os.environ['TF_CONFIG'], *sys.argv[1:]]))\nif job != 'chief': wait()"
    command = ["{job}", "{index}", "{ps}", "{workers}", "{hosts:chief}"]
    launched = launch([*task_command(code), *command], *CLUSTER, "--end-secs", "0")
    assert launched.end() == 0
    lines = re.findall(r"^\[(\w+) (\d)\] (\[.*\])$", launched.output, re.MULTILINE)
    names = sorted(f"{job} {index}" for job, index, _ in lines)
    assert names == ["chief 0", "ps 0", "ps 1", "worker 0", "worker 1"]
    for job, index, line in lines:
        config, *found = json.loads(line)
        cluster = json.loads(config)["cluster"]
        assert json.loads(config)["task"] == {"type": job, "index": int(index)}
        sizes = {job: len(each) for job, each in cluster.items()}
        assert sizes == {"ps": 2, "worker": 2, "chief": 1}
        hosts = [",".join(cluster[each]) for each in ("ps", "worker", "chief")]
        assert found == [job, index, *hosts]
    for server in names[1:]:
        assert f"{server}: status 0 (ended by the launcher), 0 restarts" in launched.output


@pytest.mark.parametrize("name", ["chief 0", "ps 0"])
def test_a_coordinator_and_its_parameter_servers_are_started_again_together(launch, tmp_path, name):
    launched = launch(CODE, *CLUSTER, "--end-secs", "0", "--restarts", "1")
    launched.until("serves|leads", count=5)
    before = launched.processes()
    os.kill(before[name], signal.SIGKILL)
    others = [each for each in ("ps 0", "ps 1", "chief 0") if each != name]
    launched.until(f"{name} is lost: SIGKILL .* Started again with it: {', '.join(others)}\\.")
    launched.until("serves|leads", count=8)
    (tmp_path / "done").touch()
    assert launched.end() == 0
    after = launched.processes()
    assert {each for each in before if after[each] != before[each]} == {name, *others}
    summary = dict(re.findall(r"^\[launch\] (\w+ \d): .* (\d) restarts?,", launched.output, re.M))
    assert summary == {each: "1" if each == name else "0" for each in before}


def test_a_lost_worker_is_started_again_alone_or_missed(launch, tmp_path):
    launched = launch(CODE, *CLUSTER, "--end-secs", "0", "--restarts", "1")
    launched.until("serves|leads", count=5)
    for count in (6, 6):
        os.kill(launched.processes()["worker 0"], signal.SIGKILL)
        launched.until("serves|leads", count=count)
    launched.until("worker 0 is lost: .* No restarts are left")
    (tmp_path / "done").touch()
    assert launched.end() == 137  # The status of the worker that is not back.
    assert "Started again with it" not in launched.output
    assert "chief 0: status 0, 0 restarts" in launched.output


def test_without_restarts_the_loss_of_a_parameter_server_ends_all(launch):
    launched = launch(CODE, *CLUSTER, "--grace-secs", "0")
    launched.until("serves|leads", count=5)
    os.kill(launched.processes()["ps 1"], signal.SIGKILL)
    assert launched.end() == 143
    assert "Ps 1 is lost, and no worker can continue without it" in launched.output


def test_a_coordinator_is_not_started_again_without_a_worker(launch):
    code = "if (job, index) == ('worker', 1) and not once('worker'): sys.exit(4)\n" + CODE
    launched = launch(code, *CLUSTER, "--grace-secs", "0", "--restarts", "1")
    launched.until("serves|leads", count=5)
    os.kill(launched.processes()["worker 1"], signal.SIGKILL)
    launched.until("worker 1 is lost: status 4. No restarts are left.")
    os.kill(launched.processes()["chief 0"], signal.SIGKILL)
    assert launched.end() == 137
    reason = "It is not restarted: a coordinator cannot begin without worker 1."
    assert f"chief 0 is lost: SIGKILL (status 137). {reason}" in launched.output
    assert "to end by themselves" not in launched.output  # The servers that are left do not.


def test_a_coordinator_needs_a_parameter_server(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--coordinator", "--ps", "0", "--workers", "1", "true"])
    assert (
        "--coordinator: expected at least one parameter server, got --ps 0"
        in capsys.readouterr().err
    )
