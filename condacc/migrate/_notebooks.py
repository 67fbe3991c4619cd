"""Rewrites the Python cells of notebooks. A file that changes is written again with its indent.

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

_INDENT = re.compile(r"\s*\{\s*\n([ \t]+)")
_PYTHON_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
_MAGIC = re.compile(r"\s*[%!?]|.*\S\?\s*$|\s*[\w, ]+=\s*[!%]")


@dataclasses.dataclass
class _Cell:
    """A code cell.

    Attributes:
        number: The number of the cell, counted from 1 over all cells.
        data: The cell in the notebook.
        source: The text in the cell.
        program: The text and a newline. What is not Python is replaced by text of the same length.
        offset: The offset of the cell in the program of all cells.
    """

    number: int
    data: dict[str, Any]
    source: str
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
    cells = list(_code_cells(notebook["cells"]))
    findings = [bad for bad in map(_set_program, cells) if bad is not None]
    text = ""
    for cell in cells:
        cell.offset = len(text)
        text += cell.program
    edits, outcome = find_edits(text, with_estimator)
    changed = [_change(cell, edits) for cell in cells]
    place = _Places(cells, text)
    return Outcome(
        _as_json(notebook, raw) if any(changed) else raw,
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


def _code_cells(cells: list[Any]) -> Iterator[_Cell]:
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code" and "source" in cell:
            value = cell["source"]
            lines = [value] if isinstance(value, str) else value
            if not isinstance(lines, list) or not all(isinstance(x, str) for x in lines):
                raise ValueError(f"it is not a notebook: cell {number} has no text")
            yield _Cell(number, cell, "".join(lines))


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


def _change(cell: _Cell, edits: list[Edit]) -> bool:
    """Makes the changes in one cell of the notebook, and returns whether there are any."""
    own = []
    for edit in edits:
        start, end = edit.start - cell.offset, edit.end - cell.offset
        # Text that is inserted between two cells belongs to the first one, after its last line.
        is_behind = start == end == len(cell.program)
        if is_behind or (0 <= start < len(cell.program) and not start == end == 0):
            own.append(Edit(start, end, edit.text))
    if own:
        text = apply_edits(f"{cell.source}\n", own).removesuffix("\n")
        is_text = isinstance(cell.data["source"], str)
        cell.data["source"] = text if is_text else text.splitlines(keepends=True)
    return bool(own)


def _as_json(notebook: dict[str, Any], raw: str) -> str:
    """Returns a notebook as JSON with the indent, line ends and alphabet of its former text."""
    found = _INDENT.match(raw)
    text = json.dumps(notebook, indent=found[1] if found else None, ensure_ascii=raw.isascii())
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # A half of a surrogate pair can be written as an escape only.
            text = json.dumps(notebook, indent=found[1] if found else None)
    if "\r\n" in raw:
        text = text.replace("\n", "\r\n")
    return text + raw[len(raw.rstrip()) :]


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
