"""Rewrites the Python cells of notebooks. Everything else in the file stays as it is.

The cells are read as one program, because a name that one cell imports is used in others.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

from condacc.migrate._findings import Code, Finding, Outcome, Position, Rewriting
from condacc.migrate._program import find_edits, is_concerned
from condacc.migrate._source import NEWLINE, Edit, apply_edits, check_syntax

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_PYTHON_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
_MAGIC = re.compile(r"\s*[%!?]|.*\S\?\s*$|\s*[\w, ]+=\s*[!%]")


@dataclasses.dataclass
class _Cell:
    """A code cell.

    Attributes:
        number: The number of the cell, counted from 1 over all cells.
        source: The text in the cell.
        start: The offset of the cell's ``source`` in the file.
        end: The offset of its end.
        program: The text and a newline. What is not Python is replaced by text of the same length.
        offset: The offset of the cell in the program of all cells.
    """

    number: int
    source: str
    start: int
    end: int
    program: str = ""
    offset: int = 0


def migrate_notebook(raw: str, with_estimator: bool = False) -> Outcome:
    """Rewrites a notebook.

    Args:
        raw: The text of the file.
        with_estimator: Whether to rewrite the names of tf.estimator that this package provides.

    Returns:
        The new text, and the report.

    Raises:
        ValueError: The text is no notebook.
        RecursionError: An expression is nested too deeply.
    """
    if not is_concerned(raw):
        return Outcome(raw)
    notebook = json.loads(raw)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise ValueError("it is not a notebook: it has no nbformat")
    if notebook["nbformat"] < 4:
        found = Finding(Position(1, 1), Code.OLD_NOTEBOOK, "the notebook has format 3 or older")
        return Outcome(raw, findings=(found,))
    if not isinstance(notebook.get("cells"), list):
        raise ValueError("it is not a notebook: it has no cells")
    if not _is_python(notebook.get("metadata", {})):
        return Outcome(raw)
    cells = list(_code_cells(raw))
    findings = [bad for bad in map(_set_program, cells) if bad is not None]
    text = ""
    for cell in cells:
        cell.offset = len(text)
        text += cell.program
    edits, outcome = find_edits(text, with_estimator)
    changed = [_cell_edit(raw, cell, edits) for cell in cells]
    place = _Places(cells, text)
    return Outcome(
        apply_edits(raw, [edit for edit in changed if edit is not None]),
        tuple(Rewriting(place(one.place), one.old, one.new) for one in outcome.rewritings),
        (*findings, *(dataclasses.replace(f, place=place(f.place)) for f in outcome.findings)),
    )


def _is_python(metadata: Any) -> bool:
    parts = metadata if isinstance(metadata, dict) else {}
    for part, key in (("kernelspec", "language"), ("language_info", "name")):
        named = parts.get(part)
        if isinstance(named, dict) and key in named:
            return named[key] == "python"
    return True


def _code_cells(raw: str) -> Iterator[_Cell]:
    top = {key: start for key, _, start, _ in _members(raw, _skip_space(raw, 0))}
    for number, (cell, start) in enumerate(_elements(raw, top["cells"]), 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            for key, value, begin, end in _members(raw, start):
                if key == "source":
                    lines = [value] if isinstance(value, str) else value
                    if not isinstance(lines, list) or not all(isinstance(x, str) for x in lines):
                        raise ValueError(f"it is not a notebook: cell {number} has no text")
                    yield _Cell(number, "".join(lines), begin, end)


def _set_program(cell: _Cell) -> Finding | None:
    """Sets the program of a cell; returns a finding if the cell is not Python."""
    text = cell.source
    first = text.lstrip().split("\n", 1)[0]
    blank = re.sub(r"[^\r\n]", " ", text) + "\n"
    if first.startswith("%%") and first.split()[0] not in _PYTHON_CELL_MAGICS:
        cell.program = blank
        return None
    for program in (text, _without_magics(text)):
        try:
            check_syntax(program + "\n")
        except (SyntaxError, ValueError, RecursionError) as error:
            reason = error
        else:
            cell.program = program + "\n"
            return None
    cell.program = blank
    line = getattr(reason, "lineno", None) or 1
    return Finding(Position(line, 1, cell.number), Code.BAD_CELL, f"the cell is skipped: {reason}")


def _without_magics(text: str) -> str:
    """Returns a text with IPython commands replaced by expressions of the same length."""
    lines, continued = [], False
    for line in text.splitlines(keepends=True):
        body = line.rstrip("\r\n")
        is_magic = not continued and _MAGIC.match(body) is not None
        if is_magic or continued:
            indent = body[: len(body) - len(body.lstrip())]
            code = indent + "0" if is_magic else ""
            line = code.ljust(len(body)) + line[len(body) :]
        continued = (is_magic or continued) and body.endswith("\\")
        lines.append(line)
    return "".join(lines)


def _cell_edit(raw: str, cell: _Cell, edits: list[Edit]) -> Edit | None:
    """Returns the change of the file for the changes in one cell."""
    own = []
    for edit in edits:
        start, end = edit.start - cell.offset, edit.end - cell.offset
        # Text that is inserted between two cells belongs to the first one, after its last line.
        is_behind = start == end == len(cell.program)
        if is_behind or (0 <= start < len(cell.program) and not start == end == 0):
            own.append(Edit(start, end, edit.text))
    if not own:
        return None
    text = apply_edits(f"{cell.source}\n", own).removesuffix("\n")
    return Edit(cell.start, cell.end, _as_json(raw[cell.start : cell.end], text))


def _as_json(old: str, text: str) -> str:
    """Returns a changed source as JSON in the layout of the old one."""
    ascii_only = old.isascii()
    if old.startswith('"'):
        return json.dumps(text, ensure_ascii=ascii_only)
    spans = list(_elements(old, 0))
    ends = [_DECODER.raw_decode(old, start)[1] for _, start in spans]
    written: dict[str, str] = {}
    for (value, start), end in zip(spans, ends, strict=True):
        written.setdefault(value, old[start:end])
    lines = [
        written.get(line, json.dumps(line, ensure_ascii=ascii_only))
        for line in text.splitlines(keepends=True)
    ]
    opening, closing = old[: spans[0][1]], old[ends[-1] :]
    between = old[ends[0] : spans[1][1]] if len(spans) > 1 else "," + opening[1:]
    return opening + between.join(lines) + closing


class _Places:
    """Converts places in the program of all cells to places in cells."""

    def __init__(self, cells: list[_Cell], text: str) -> None:
        self._cells = cells
        starts = [0, *(match.end() for match in NEWLINE.finditer(text))]
        self._first_lines = [bisect.bisect_left(starts, cell.offset) + 1 for cell in cells]

    def __call__(self, place: Position) -> Position:
        index = bisect.bisect_right(self._first_lines, place.line) - 1
        line = place.line - self._first_lines[index] + 1
        return Position(line, place.column, self._cells[index].number)


def _members(raw: str, start: int) -> Iterator[tuple[str, Any, int, int]]:
    """Yields the keys and values of a JSON object, and where the values begin and end."""
    at = _skip_space(raw, start + 1)
    while raw[at] != "}":
        key, at = _DECODER.raw_decode(raw, at)
        begin = _skip_space(raw, _skip_space(raw, at) + 1)
        value, end = _DECODER.raw_decode(raw, begin)
        yield key, value, begin, end
        at = _skip_space(raw, end)
        at = _skip_space(raw, at + 1) if raw[at] == "," else at


def _elements(raw: str, start: int) -> Iterator[tuple[Any, int]]:
    """Yields the values of a JSON array, and where they begin."""
    at = _skip_space(raw, start + 1)
    while raw[at] != "]":
        value, end = _DECODER.raw_decode(raw, at)
        yield value, at
        at = _skip_space(raw, end)
        at = _skip_space(raw, at + 1) if raw[at] == "," else at


def _skip_space(raw: str, at: int) -> int:
    match = _SPACE.match(raw, at)
    return match.end() if match else at
