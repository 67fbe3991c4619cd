"""Tracebacks of a program, without the functions of the runner."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable

from tf_condacc.compat._runner.hints import hint

_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_RUNPY = ("<frozen runpy>", "runpy.py")
ExceptHook = Callable[[type[BaseException], BaseException, types.TracebackType | None], object]


def show_as_program(excepthook: ExceptHook) -> ExceptHook:
    """Returns a function for ``sys.excepthook`` that shows the lines of the program.

    It adds a line that says what to do, if that is known.

    Args:
        excepthook: The function that shows an exception.
    """

    def show(
        kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None
    ) -> None:
        _strip_chain(error)
        excepthook(kind, error, error.__traceback__)
        text = hint(error)
        if text is not None:
            print(f"tf_condacc.compat: {text}", file=sys.stderr)

    return show


def _strip_chain(error: BaseException | None) -> None:
    """Removes the functions of the runner from an exception and from those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _strip(error.__traceback__)
        error = error.__cause__ or error.__context__


def _strip(traceback: types.TracebackType | None) -> types.TracebackType | None:
    entries: list[types.TracebackType] = []
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        is_start = not entries and os.path.basename(name) in _RUNPY
        if not is_start and not os.path.realpath(name).startswith(_OWN):
            entries.append(traceback)
        traceback = traceback.tb_next
    stripped = None
    for entry in reversed(entries):
        stripped = types.TracebackType(stripped, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return stripped
