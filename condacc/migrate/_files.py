"""Finds, reads, rewrites and writes files, in several processes if there are many."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import io
import multiprocessing
import os
import stat
import tempfile
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from condacc import _python2
from condacc._interrupts import held_back
from condacc.migrate._findings import Outcome

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_SUFFIXES = (".py", ".ipynb")
_SKIPPED = ("__pycache__", "node_modules", "site-packages")
_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
_FILES_FOR_PROCESSES = 32  # Fewer files take less time than starting processes.
_MOST_PROCESSES = 64


@dataclasses.dataclass(frozen=True)
class FileResult:
    """The result for one file.

    Attributes:
        path: The path of the file.
        old: The text of the file; empty if nothing changes.
        outcome: The new text, which is empty if nothing changes, and the report; None if the file
            was skipped.
        error: Why the file was skipped.
        encoding: The encoding of the file.
    """

    path: str
    old: str = ""
    outcome: Outcome | None = None
    error: str = ""
    encoding: str = "utf-8"

    @property
    def is_changed(self) -> bool:
        """Whether the new text differs from the old one."""
        return self.outcome is not None and self.outcome.text != self.old


def find_files(paths: Iterable[str], report: Callable[[OSError], None]) -> Iterator[str]:
    """Yields the files among paths, and the Python files and notebooks in folders among them.

    Hidden folders, virtual environments, ``node_modules`` and links in folders are left out. No
    file is yielded twice.

    Args:
        paths: Paths that exist.
        report: Called with the error for each folder that cannot be read.
    """
    seen: set[str] = set()
    for path in paths:
        found = _walk(path, report) if os.path.isdir(path) else iter([path])
        for file in found:
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield file


def _walk(top: str, report: Callable[[OSError], None]) -> Iterator[str]:
    for folder, folders, files in os.walk(top, onerror=report):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not _is_environment(folder, name)
        )
        for name in sorted(files):
            file = os.path.join(folder, name)
            if name.endswith(_SUFFIXES) and stat.S_ISREG(os.lstat(file).st_mode):
                yield file


def _is_environment(folder: str, name: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name, mark)) for mark in _OF_ENVIRONMENTS)


def migrate_file(path: str, with_estimator: bool) -> FileResult:
    """Rewrites a file in memory. An error is part of the result."""
    from condacc.migrate._notebooks import migrate_notebook
    from condacc.migrate._program import migrate_text

    is_notebook = path.endswith(".ipynb")
    try:
        if not os.path.isfile(path):
            raise OSError("it is not a regular file")
        data = Path(path).read_bytes()
        detect = tokenize.detect_encoding
        encoding = "utf-8" if is_notebook else detect(io.BytesIO(data).readline)[0]
        old = data.decode(encoding)
        if old.encode(encoding) != data:
            raise ValueError(f"its text cannot be written as {encoding} without other changes")
        migrate = migrate_notebook if is_notebook else migrate_text
        outcome = migrate(old, with_estimator)
        if outcome.text == old:  # All results are kept, so unchanged texts are dropped.
            old, outcome = "", dataclasses.replace(outcome, text="")
        return FileResult(path, old, outcome, encoding=encoding)
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        error.filename = None if is_notebook else path
        advice = f"; {found}" if (found := _python2.advice(error)) else ""
        return FileResult(path, error=f"it is not valid Python: {error.msg}{line}{advice}")
    except UnicodeDecodeError as error:
        return FileResult(path, error=f"it is not {error.encoding}: {error.reason}")
    except RecursionError:
        return FileResult(path, error="an expression in it is nested too deeply")
    except OSError as error:
        return FileResult(path, error=error.strerror or str(error))
    except ValueError as error:
        return FileResult(path, error=str(error))
    except Exception as error:  # One file must not stop the others.
        return FileResult(path, error=f"it was not understood: {type(error).__name__}: {error}")


def write_file(result: FileResult) -> None:
    """Replaces a file by its new text in one step, with the same mode and owner.

    Raises:
        OSError: The file cannot be written. It is left as it was.
    """
    assert result.outcome is not None
    path = os.path.realpath(result.path)
    status = os.stat(path)
    descriptor, fresh = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".tf_condacc-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(result.outcome.text.encode(result.encoding))
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def migrate_files(
    files: Sequence[str], with_estimator: bool, processes: int
) -> Iterator[FileResult]:
    """Yields the result for each file, in their order.

    Each of n processes has every n-th file. A process that dies costs the files that it had left.

    Args:
        files: The paths.
        with_estimator: Whether to rewrite the names of tf.estimator that this package provides.
        processes: The highest number of processes.
    """
    migrate = functools.partial(migrate_file, with_estimator=with_estimator)
    if processes == 1 or len(files) < _FILES_FOR_PROCESSES:
        yield from map(migrate, files)
        return
    importlib.import_module("libcst.metadata")  # Imported once, before the processes are forked.
    context = multiprocessing.get_context("fork")
    number = min(processes, len(files), _MOST_PROCESSES)
    pipes = [context.Pipe(duplex=False) for _ in range(number)]
    # Nothing here has a lock that an interrupt could leave locked, unlike concurrent.futures.
    children = [
        context.Process(target=_send_results, args=(pipes, first, migrate, files), daemon=True)
        for first in range(number)
    ]
    try:
        with held_back():
            for child, (_, writer) in zip(children, pipes, strict=True):
                child.start()
                writer.close()
        for at, file in enumerate(files):
            try:
                result = pipes[at % number][0].recv()
            except (EOFError, OSError):  # It has ended between two results, or in one.
                result = FileResult(file, error="the process that was to read it has ended")
            yield result
    finally:
        for child in children:
            if child.pid is not None:
                child.kill()


def _send_results(
    pipes: list[tuple[Connection, Connection]],
    first: int,
    migrate: Callable[[str], FileResult],
    files: Sequence[str],
) -> None:
    """Sends the results for every n-th file, in a process of its own, as long as they are read."""
    own = pipes[first][1]
    # Otherwise this process would not see the end of its parent, nor the parent that of others.
    for reader, writer in pipes:
        reader.close()
        if writer is not own:
            writer.close()
    with contextlib.suppress(BrokenPipeError):
        for file in files[first :: len(pipes)]:
            own.send(migrate(file))


def with_progress(
    results: Iterable[FileResult], total: int, terminal: TextIO
) -> Iterator[FileResult]:
    """Yields the results, and shows on a terminal how many files are done."""
    if not terminal.isatty():
        yield from results
        return
    try:
        for number, result in enumerate(results, 1):
            print(end=f"\r{number} of {total} files", file=terminal, flush=True)
            yield result
    finally:
        print(end="\r\033[K", file=terminal, flush=True)
