"""Rewrites many files, in several processes if there are many."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from tf_condacc.migrate._files import FileResult, migrate_file

_FILES_FOR_PROCESSES = 32  # Fewer files are done before processes have started.
_CHUNK = 8
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
    migrate = functools.partial(migrate_file, with_estimator=with_estimator)
    if processes == 1 or len(files) < _FILES_FOR_PROCESSES:
        yield from map(migrate, files)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, _ignore_ctrl_c) as pool:
        yield from pool.imap(migrate, files, _CHUNK)


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
