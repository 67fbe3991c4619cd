"""The text of a program, its syntax tree, and changes of the text by place.

Changes are made in the text and not in the tree, so that all else stays as it is.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import libcst as cst
from libcst.metadata import (
    CodeRange,
    MetadataWrapper,
    PositionProvider,
    Scope,
    ScopeProvider,
)

from condacc.migrate._findings import Position

NEWLINE = re.compile(r"\r\n?|\n")


@dataclasses.dataclass(frozen=True)
class Edit:
    """A replacement of the characters from `start` up to `end`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Returns the text with all edits applied. They must not overlap."""
    parts, end = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < end:
            raise AssertionError(f"two changes of the same text: {edit}")
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    return "".join([*parts, text[end:]])


def check_syntax(text: str) -> None:
    """Raises SyntaxError, ValueError or RecursionError if the text is not valid Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(text, "<text>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


class _Parents(cst.CSTVisitor):
    """Finds the parent of each node. libcst's own provider takes several times as long."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__()
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._path: list[cst.CSTNode] = []
        module.visit(self)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if self._path:
            self.parents[node] = self._path[-1]
        self._path.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._path.pop()


class Source:
    """A program that has been parsed.

    Args:
        text: The program, without a byte order mark. It must be valid Python.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in NEWLINE.finditer(text))]
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        found: Any = wrapper.resolve_many([PositionProvider, ScopeProvider])
        self.module = wrapper.module
        self.parents = _Parents(wrapper.module).parents
        self._positions: Mapping[cst.CSTNode, CodeRange] = found[PositionProvider]
        self._scopes: Mapping[cst.CSTNode, Scope | None] = found[ScopeProvider]

    def scope(self, node: cst.CSTNode) -> Scope | None:
        """Returns the scope in which a node is, or None for nodes that refer to nothing."""
        return self._scopes.get(node)

    def global_scope(self) -> Scope | None:
        """Returns the scope of the module, or None if the module is empty."""
        return next((scope.globals for scope in self._scopes.values() if scope), None)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Returns the offsets in the text at which a node begins and ends."""
        position = self._positions[node]
        start, end = position.start, position.end
        return (
            self._starts[start.line - 1] + start.column,
            self._starts[end.line - 1] + end.column,
        )

    def place(self, node: cst.CSTNode) -> Position:
        """Returns the line and column of a node."""
        start = self._positions[node].start
        return Position(start.line, start.column + 1)

    def code(self, node: cst.CSTNode) -> str:
        """Returns the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def line_bounds(self, node: cst.CSTNode) -> tuple[int, int]:
        """Returns the offsets at which a node's lines begin, and end after their newline."""
        position = self._positions[node]
        last = position.end.line
        end = self._starts[last] if last < len(self._starts) else len(self.text)
        return self._starts[position.start.line - 1], end
