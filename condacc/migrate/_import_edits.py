"""Changes of the text of import statements. Their comments and their layout are kept."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from condacc.migrate._names import PACKAGE
from condacc.migrate._source import NEWLINE, Edit, Source

_COMMENT = re.compile(r"#[^\r\n]*")
# Comments for tools, which mean nothing without the import behind which they stand.
_FOR_TOOLS = re.compile(r"#\s*(noqa|pylint|type:|isort|flake8|pragma)")


@dataclasses.dataclass
class Change:
    """The change of one import statement.

    Attributes:
        node: The statement.
        adds_package: Whether this package must be imported behind it.
        moved: The imported names that this package provides, with their names there.
        dropped: The imported names that are no longer used.
    """

    node: cst.Import | cst.ImportFrom
    adds_package: bool
    moved: dict[cst.ImportAlias, str] = dataclasses.field(default_factory=dict)
    dropped: list[cst.ImportAlias] = dataclasses.field(default_factory=list)

    @property
    def aliases(self) -> Sequence[cst.ImportAlias]:
        """The imported names."""
        return () if isinstance(self.node.names, cst.ImportStar) else self.node.names

    @property
    def kept(self) -> list[cst.ImportAlias]:
        """The imported names that stay in the statement."""
        return [one for one in self.aliases if one not in self.moved and not _is_among(one, self)]

    @property
    def only_module(self) -> str | None:
        """The module of this package that provides all the names, if there is one."""
        modules = {target.rpartition(".")[0] for target in self.moved.values()}
        return modules.pop() if len(modules) == 1 and len(self.moved) == len(self.aliases) else None

    @property
    def vanishes(self) -> bool:
        """Whether nothing takes the place of the statement."""
        return bool(self.dropped) and not (self.kept or self.moved or self.adds_package)


def _is_among(alias: cst.ImportAlias, change: Change) -> bool:
    return any(alias is one for one in change.dropped)


def statement_edits(source: Source, changes: Iterable[Change]) -> list[Edit]:
    """Returns the changes of the text for all import statements of a program."""
    changes = list(changes)
    gone = {source.parents[change.node] for change in changes if change.vanishes}
    return [edit for change in changes for edit in _edits(source, change, gone)]


def _edits(source: Source, change: Change, gone: set[cst.CSTNode]) -> Iterator[Edit]:
    node, start_end = change.node, source.span(change.node)
    package = [f"import {PACKAGE}"] if change.adds_package else []
    if change.vanishes:
        yield from _removal(source, node, gone)
    elif change.only_module is not None:
        assert isinstance(node, cst.ImportFrom) and node.module is not None
        yield Edit(*source.span(node.module), change.only_module)
        yield from _addition(source, node, package)
    elif change.kept:
        removed = list(_removed_spans(source, change))
        yield from (Edit(start, end, "") for start, end in removed)
        comments = [c for start, end in removed for c in _COMMENT.findall(source.text[start:end])]
        yield from _addition(
            source, node, _with_comments(_moved(source, change), comments, package)
        )
    elif change.moved or change.dropped:
        comments = _COMMENT.findall(source.code(node))
        first, *others = _with_comments(_moved(source, change), comments, package)
        yield Edit(*start_end, first)
        yield from _addition(source, node, others)
    else:
        yield from _addition(source, node, package)


def _moved(source: Source, change: Change) -> list[str]:
    """Returns the statements that import the moved names from this package."""
    names: dict[str, list[str]] = {}
    for alias, target in change.moved.items():
        names.setdefault(target.rpartition(".")[0], []).append(source.code(alias))
    return [f"from {module} import {', '.join(imported)}" for module, imported in names.items()]


def _with_comments(moved: list[str], comments: list[str], package: list[str]) -> list[str]:
    """Returns the statements, the last of them with the comments of removed names."""
    statements = [*moved, *package]
    if comments:
        last = statements.pop() + "  " if statements else ""
        statements.append(last + "  ".join(comments))
    return statements


def _removed_spans(source: Source, change: Change) -> Iterator[tuple[int, int]]:
    """Yields what must be removed from a statement of which some names are kept."""
    kept = change.kept
    last_kept = max(i for i, one in enumerate(change.aliases) if any(one is k for k in kept))
    for i, alias in enumerate(change.aliases[:last_kept]):
        if not any(alias is one for one in kept):
            yield source.span(alias)[0], source.span(change.aliases[i + 1])[0]
    if last_kept < len(change.aliases) - 1:
        yield source.span(change.aliases[last_kept])[1], source.span(change.aliases[-1])[1]


def _stands_alone(source: Source, node: cst.CSTNode) -> bool:
    """Returns whether there is no other statement in the line."""
    line = source.parents[node]
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1


def _addition(source: Source, node: cst.CSTNode, statements: Sequence[str]) -> Iterator[Edit]:
    """Yields the change that adds statements behind another one."""
    if not statements:
        return
    start, end = source.span(node)
    if not _stands_alone(source, node):
        yield Edit(end, end, "".join(f"; {one}" for one in statements))
        return
    first, last = source.line_bounds(node)
    indent = source.text[first:start]
    ending = NEWLINE.search(source.text, end)
    newline = ending[0] if ending else (NEWLINE.search(source.text) or "\n")[0]
    if ending is None:
        yield Edit(last, last, "".join(f"{newline}{indent}{one}" for one in statements))
    else:
        yield Edit(last, last, "".join(f"{indent}{one}{newline}" for one in statements))


def _removal(source: Source, node: cst.CSTNode, gone: set[cst.CSTNode]) -> Iterator[Edit]:
    """Yields the change that removes a statement."""
    start, end = source.span(node)
    block = source.parents[source.parents[node]]
    is_whole = isinstance(block, cst.IndentedBlock) and all(one in gone for one in block.body)
    if is_whole or not _stands_alone(source, node):
        yield Edit(start, end, "pass")
        return
    first, last = source.line_bounds(node)
    comments = [c for c in _COMMENT.findall(source.text[start:last]) if not _FOR_TOOLS.match(c)]
    if comments:
        newline = NEWLINE.search(source.text, end)
        indent = source.text[first:start]
        yield Edit(first, last, f"{indent}{'  '.join(comments)}{newline[0] if newline else ''}")
    else:
        yield Edit(first, last, "")
