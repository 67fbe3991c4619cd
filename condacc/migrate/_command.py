"""The command line of the rewriting: ``condacc migrate``."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import io
import os
import sys
from collections.abc import Sequence

from condacc import extras
from condacc._interrupts import INTERRUPTED, exit_on_interrupt, raise_on_interrupt
from condacc.migrate import _report
from condacc.migrate._files import (
    FileResult,
    find_files,
    migrate_files,
    with_progress,
    write_file,
)

_WOULD_CHANGE = 1
_SKIPPED = 123
_DESCRIPTION = """\
Rewrites programs that use TensorFlow 1's accumulators, DropStaleGradientOptimizer,
SyncReplicasOptimizer, replica_device_setter, TowerOptimizer or replicate_model_fn, so that they
use tf_condacc, and reports what needs manual review. Without --write, nothing is changed. Run it
after TensorFlow's tf_upgrade_v2.
"""
_EPILOG = """\
Findings never change the exit status.
exit status: 0 on success, 1 with --check if a file would be rewritten, 2 for wrong arguments,
123 if a file was skipped because it could not be read, parsed or written
"""


def main(arguments: Sequence[str]) -> int:
    """Rewrites files and returns the exit status.

    Args:
        arguments: Command-line arguments.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.json and options.diff:
        parser.error("argument --json: not allowed with argument --diff")
    for path in options.paths:
        if not os.path.lexists(path):
            parser.error(f"no such file or folder: {path}")
    if importlib.util.find_spec("libcst") is None:
        parser.error(f"libcst is missing: {extras.INSTALL_LIBCST}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # File names may not be valid text.
            stream.reconfigure(errors="backslashreplace")
    raise_on_interrupt()
    try:
        return _run(options)
    except KeyboardInterrupt:
        exit_on_interrupt()  # A second Ctrl-C ends the process while this one ends the others.
        print("Interrupted. Each file is either unchanged or rewritten.", file=sys.stderr)
        return INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    results: list[FileResult] = []
    files = list(find_files(options.paths, lambda error: results.append(_unreadable(error))))
    found = migrate_files(files, options.estimator, options.jobs)
    for result in with_progress(found, len(files), sys.stderr):
        if options.write and result.is_changed:
            result = _written(result)
        results.append(result)
    if options.json:
        print(_report.as_json(results, options.write))
    for result in results if not options.json else ():
        if options.diff:
            print(end=_report.diff(result))
        for line in _report.lines(result):
            print(line, file=sys.stderr if options.diff else sys.stdout)
    sys.stdout.flush()
    _summarize(results, options.write)
    if any(result.outcome is None for result in results):
        return _SKIPPED
    return _WOULD_CHANGE if options.check and any(r.is_changed for r in results) else 0


def _unreadable(error: OSError) -> FileResult:
    return FileResult(str(error.filename), error=error.strerror or str(error))


def _written(result: FileResult) -> FileResult:
    """Writes a file. Returns its result, or that of a skipped file if it cannot be written."""
    try:
        write_file(result)
    except OSError as error:
        message = f"it could not be written: {error.strerror}"
        return dataclasses.replace(result, outcome=None, error=message)
    return result


def _summarize(results: list[FileResult], is_written: bool) -> None:
    outcomes = [result.outcome for result in results if result.outcome is not None]
    changed = sum(result.is_changed for result in results)
    names = sum(len(outcome.rewritings) for outcome in outcomes)
    findings = sum(len(outcome.findings) for outcome in outcomes)
    verb = "rewritten" if is_written else "to be rewritten"
    print(
        f"{_count(len(results), 'file')}, {changed} {verb} ({_count(names, 'name')}), "
        f"{len(results) - len(outcomes)} skipped; {_count(findings, 'finding')}",
        file=sys.stderr,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="condacc migrate",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="file, or folder of .py and .ipynb files")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--write", action="store_true", help="rewrite the files")
    mode.add_argument(
        "--check", action="store_true", help="exit with status 1 if a file would be rewritten"
    )
    add("--diff", action="store_true", help="print a diff; the report goes to standard error")
    add("--json", action="store_true", help="print the report as JSON")
    add(
        "--estimator",
        action="store_true",
        help="also rewrite names of tf.estimator, in files whose names of it are all in "
        "tf_condacc.estimator",
    )
    processes = len(os.sched_getaffinity(0))
    add(
        "--jobs",
        type=_positive,
        default=processes,
        help=f"number of processes for many files (default: {processes})",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number
