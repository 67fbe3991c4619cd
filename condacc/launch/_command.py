"""The command line of the launcher: ``condacc launch``."""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Callable, Sequence

from condacc.launch._cluster import filled, local_cluster
from condacc.launch._launcher import Launcher
from condacc.launch._output import Output

_MAX_TASKS = 200
_NOT_FOUND = 127
_USAGE = "condacc launch --workers WORKERS [options] [--] COMMAND [ARGUMENT ...]"

_DESCRIPTION = """\
Starts the tasks of a TensorFlow cluster on this machine. Each runs COMMAND and finds its place in
the environment variable TF_CONFIG. In COMMAND, {job} and {index} stand for the task's own job and
index, and {ps}, {workers} and {hosts:JOB} for the addresses of a job, as in host:port,host:port.
"""
_EPILOG = """\
examples:
  condacc launch --ps 1 --workers 2 python train.py
  condacc launch --ps 1 --workers 2 python train.py \\
      --job_name={job} --task_index={index} --ps_hosts={ps} --worker_hosts={workers}
  condacc launch --coordinator --ps 1 --workers 2 python train.py
"""


def main(arguments: Sequence[str]) -> int:
    """Runs the launcher and returns its exit status.

    Args:
        arguments: Arguments of the launcher, and the command of the tasks, which may follow "--".
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("missing command, as in: condacc launch --workers 2 python train.py")
    num_tasks = options.ps + options.workers + options.coordinator
    if num_tasks > _MAX_TASKS:
        parser.error(f"at most {_MAX_TASKS} tasks, got {num_tasks}")
    if options.coordinator and not options.ps:
        parser.error("argument --coordinator: expected at least one parameter server, got --ps 0")
    if shutil.which(command[0]) is None:
        parser.exit(_NOT_FOUND, f"{parser.prog}: error: command not found: {command[0]}\n")
    try:
        cluster = local_cluster(
            options.ps, options.workers, options.ports, options.jobs, options.coordinator
        )
    except (OSError, ValueError) as error:
        parser.error(f"argument --ports: {error}" if options.ports else str(error))
    try:
        filled(command, cluster, cluster[0])
    except ValueError as error:
        parser.error(str(error))
    try:
        output = Output(options.log_dir, [str(place) for place in cluster])
    except OSError as error:
        parser.error(f"argument --log-dir: {error}")
    output.start()
    return Launcher(options, cluster, command, output).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="condacc launch",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--ps", type=_integer(0), default=1, help="number of parameter servers (default: 1)")
    add(
        "--workers",
        type=_integer(1),
        required=True,
        help="number of workers, of which worker 0 is the chief",
    )
    coordinator_help = "add the coordinator, chief 0, for which all workers are servers"
    add("--coordinator", action="store_true", help=coordinator_help)
    ports_help = (
        "ports of the parameter servers, then of the workers, then of the coordinator, as in "
        "2222,2230-2233 (default: free ports)"
    )
    add("--ports", type=_ports, default=(), metavar="PORTS", help=ports_help)
    jobs_help = "values of {job} for parameter servers and for workers (default: ps,worker)"
    add("--jobs", type=_jobs, default=("ps", "worker"), metavar="PS,WORKER", help=jobs_help)
    add(
        "--restarts",
        type=_integer(0),
        default=0,
        help="how many times a lost task is restarted (default: 0)",
    )
    add("--log-dir", default="launch_logs", help="folder of the logs (default: launch_logs)")
    hides = "hide the C++ log of TensorFlow in the tasks, unless TF_CPP_MIN_LOG_LEVEL is set"
    add("--hide-tensorflow-log", action="store_true", help=hides)
    times = (
        ("--end-secs", 5, "time that servers have to end after the last worker"),
        ("--grace-secs", 60, "time that tasks have to end after the chief, or after a loss"),
        ("--frozen-secs", 10, "report a server that is silent for this long; 0 for never"),
        ("--lost-secs", 300, "kill a server that is silent for this long; 0 for never"),
    )
    for name, default, text in times:
        help_text = f"{text} (default: {default})"
        add(name, type=_seconds, default=default, metavar="SECS", help=help_text)
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _integer(minimum: int) -> Callable[[str], int]:
    """Returns a function that converts the value of an option to an integer."""

    def integer(text: str) -> int:
        number = int(text)
        if number < minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {number}")
        return number

    return integer


def _ports(text: str) -> list[int]:
    """Converts the value of an option to ports: "2222,2230-2233"."""
    ports: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = int(first), int(last or first)
        if not 1 <= begin <= end <= 65_535:
            raise argparse.ArgumentTypeError(f"must be ports from 1 to 65535, got {part}")
        ports += range(begin, end + 1)
    return ports


def _jobs(text: str) -> list[str]:
    """Converts the value of an option to the names of two jobs: "parameter_server,worker"."""
    names = text.split(",")
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise argparse.ArgumentTypeError(f"must be two different names, got {text!r}")
    return names


def _seconds(text: str) -> float:
    """Converts the value of an option to a time."""
    number = float(text)
    if not (0 <= number < math.inf):
        raise argparse.ArgumentTypeError(f"must be at least 0 and finite, got {text}")
    return number
