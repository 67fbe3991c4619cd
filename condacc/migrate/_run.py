"""Rewrites many files, in several processes if there are many."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TextIO

from condacc.migrate._files import FileResult, migrate_file

_FILES_FOR_PROCESSES = 32  # Fewer files are done before processes have started.
_SECS_BETWEEN_LINES = 0.1


def migrate_files(
    files: Sequence[str], with_estimator: bool, processes: int
) -> Iterator[FileResult]:
    """Yields the result for each file, in their order.

    Args:
        files: The paths.
        with_estimator: Whether to rewrite the names of tf.estimator that this package provides.
        processes: The highest number of processes.
    """
    if processes == 1 or len(files) < _FILES_FOR_PROCESSES:
        yield from (migrate_file(file, with_estimator) for file in files)
        return
    importlib.import_module("libcst.metadata")  # Imported once, before the processes are forked.
    with contextlib.ExitStack() as ending:
        pipes = []
        for first in range(processes):
            process, pipe = _start(files[first::processes], with_estimator)
            ending.callback(process.join)
            ending.callback(process.terminate)
            pipes.append(ending.enter_context(pipe))
        for number, file in enumerate(files):
            try:
                yield pipes[number % processes].recv()
            except (EOFError, OSError):
                yield FileResult(file, error="the process that looked at it has ended")


def _start(files: Sequence[str], with_estimator: bool) -> tuple[BaseProcess, Connection]:
    """Starts a process that rewrites files; returns the pipe that its results come through.

    A pool of processes would not do. Its threads import this package to pickle its objects, and
    would wait for the main thread, which runs this program while it imports the package.
    """
    context = multiprocessing.get_context("fork")
    results, target = context.Pipe(duplex=False)
    arguments = (files, with_estimator, target)
    process = context.Process(target=_send_results, args=arguments, daemon=True)
    process.start()
    target.close()
    return process, results


def _send_results(files: Sequence[str], with_estimator: bool, target: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the main process, and that this one.
    with contextlib.suppress(BrokenPipeError):  # The main process has ended.
        for file in files:
            target.send(migrate_file(file, with_estimator))


def with_progress(
    results: Iterable[FileResult], total: int, terminal: TextIO
) -> Iterator[FileResult]:
    """Yields the results, and shows on a terminal how many files are done."""
    if not terminal.isatty():
        yield from results
        return
    shown = time.monotonic()
    with contextlib.ExitStack() as clearing:
        clearing.callback(lambda: print(end="\r\033[K", file=terminal, flush=True))
        for number, result in enumerate(results, 1):
            if time.monotonic() - shown > _SECS_BETWEEN_LINES:
                shown = time.monotonic()
                print(end=f"\r{number} of {total} files", file=terminal, flush=True)
            yield result
