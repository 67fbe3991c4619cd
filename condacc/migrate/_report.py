"""The report: lines of text, JSON, or a unified diff."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from condacc.migrate._files import FileResult
from condacc.migrate._findings import Finding, Position, Rewriting

_JSON_VERSION = 1


def lines(result: FileResult) -> Iterator[str]:
    """Yields the lines of the report on a file, in the order of their places."""
    if result.outcome is None:
        yield f"{result.path}: skipped: {result.error}"
        return
    found: list[Rewriting | Finding] = [*result.outcome.rewritings, *result.outcome.findings]
    firsts: dict[str, Position] = {}
    for one in sorted(found, key=_order):
        place = one.place
        cell = f"cell {place.cell}:" if place.cell else ""
        text = _remedied(one, firsts) if isinstance(one, Finding) else f"{one.old} -> {one.new}"
        yield f"{result.path}:{cell}{place.line}:{place.column}: {text}"


def _order(one: Rewriting | Finding) -> tuple[int, int, int]:
    return one.place.cell or 0, one.place.line, one.place.column


def _remedied(finding: Finding, firsts: dict[str, Position]) -> str:
    """Returns the text of a finding. A remedy is written where a file needs it first.

    Args:
        finding: The finding.
        firsts: The remedies that are written, and where. The finding's is added.
    """
    first = firsts.setdefault(finding.remedy, finding.place)
    remedy = finding.remedy
    if first is not finding.place:
        cell = f"cell {first.cell}, " if first.cell else ""
        remedy = f"See {cell}line {first.line}."
    return f"{finding.code.code} {finding.message}. {remedy}"


def as_json(results: Iterable[FileResult], is_written: bool) -> str:
    """Returns the report on all files as JSON. docs/guides/migrate.md describes it."""
    results = list(results)
    outcomes = [(result.path, result.outcome) for result in results if result.outcome]
    report = {
        "version": _JSON_VERSION,
        "written": is_written,
        "changed": [result.path for result in results if result.is_changed],
        "rewritings": [
            {"file": path, **_place(one.place), "old": one.old, "new": one.new}
            for path, outcome in outcomes
            for one in outcome.rewritings
        ],
        "findings": [
            {
                "file": path,
                **_place(one.place),
                "code": one.code.code,
                "message": one.message,
                "remedy": one.remedy,
            }
            for path, outcome in outcomes
            for one in outcome.findings
        ],
        "skipped": [{"file": r.path, "error": r.error} for r in results if r.outcome is None],
    }
    return json.dumps(report, indent=2)


def _place(place: Position) -> dict[str, Any]:
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
