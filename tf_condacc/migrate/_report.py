"""The report: lines of text, JSON, or a unified diff."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from tf_condacc.migrate._files import FileResult
from tf_condacc.migrate._findings import Place

_JSON_VERSION = 1


def lines(result: FileResult) -> Iterator[str]:
    """Yields the lines of the report on a file, in the order of their places."""
    if result.outcome is None:
        yield f"{result.path}: skipped: {result.error}"
        return
    found = [
        (one.place.cell or 0, one.place, f"{one.old} -> {one.new}")
        for one in result.outcome.rewritings
    ]
    found += [
        (one.place.cell or 0, one.place, f"{one.code.code} {one.message}. {one.code.remedy}")
        for one in result.outcome.findings
    ]
    for _, place, text in sorted(found, key=lambda one: (one[0], one[1].line, one[1].column)):
        cell = f"cell {place.cell}:" if place.cell else ""
        yield f"{result.path}:{cell}{place.line}:{place.column}: {text}"


def as_json(results: Iterable[FileResult], is_written: bool) -> str:
    """Returns the report on all files as JSON. docs/migrate.md describes it."""
    results = list(results)
    report = {
        "version": _JSON_VERSION,
        "written": is_written,
        "changed": [result.path for result in results if result.is_changed],
        "rewritings": [
            {"file": result.path, **_place(one.place), "old": one.old, "new": one.new}
            for result in results
            if result.outcome
            for one in result.outcome.rewritings
        ],
        "findings": [
            {
                "file": result.path,
                **_place(one.place),
                "code": one.code.code,
                "message": one.message,
                "remedy": one.code.remedy,
            }
            for result in results
            if result.outcome
            for one in result.outcome.findings
        ],
        "skipped": [{"file": r.path, "error": r.error} for r in results if r.outcome is None],
    }
    return json.dumps(report, indent=2)


def _place(place: Place) -> dict[str, Any]:
    return {"cell": place.cell, "line": place.line, "column": place.column}


def diff(result: FileResult) -> str:
    """Returns a unified diff of a file, which is empty if nothing changes."""
    if result.outcome is None:
        return ""
    old, new = _split(result.old), _split(result.outcome.text)
    parts = []
    for line in difflib.unified_diff(old, new, result.path, result.path):
        parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _split(text: str) -> list[str]:
    """Returns the lines as ``patch`` sees them: a carriage return is part of a line."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])
