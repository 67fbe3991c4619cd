"""Rewrites the import statements of a program. Their comments and their layout are kept."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import ClassScope, ImportAssignment

from condacc.migrate import _installed
from condacc.migrate._findings import Code, Finding, Rewriting
from condacc.migrate._names import PACKAGE, WRONG_MODULES, is_in, plain
from condacc.migrate._resolving import imported_from
from condacc.migrate._source import NEWLINE, Edit, Source
from condacc.migrate._uses import Use, reported_code

ImportNode = cst.Import | cst.ImportFrom
_COMMENT = re.compile(r"#[^\r\n]*")
# Comments for tools, which mean nothing without the import that they follow.
_FOR_TOOLS = re.compile(r"#\s*(noqa|pylint|type:|isort|flake8|pragma)")


@dataclasses.dataclass
class Imports:
    """The changes of the import statements of a program.

    Attributes:
        edits: The changes of the text.
        rewritings: The names that are rewritten.
        findings: The imports that need manual review.
        binds_package: Whether the program imports this package once it is rewritten.
    """

    edits: list[Edit] = dataclasses.field(default_factory=list)
    rewritings: list[Rewriting] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    binds_package: bool = False


def rewrite_imports(
    source: Source,
    statements: Sequence[ImportNode],
    uses: Sequence[Use],
    needed: Collection[cst.CSTNode],
    provided: Mapping[str, str],
) -> Imports:
    """Returns the changes of the imports.

    Args:
        source: The program.
        statements: Its import statements.
        uses: The uses that are rewritten.
        needed: The statements behind which this package must be imported.
        provided: The names that this package provides, and their names in this package.
    """
    result = Imports()
    unused = _Unused(source, uses)
    changes = []
    for node in statements:
        if isinstance(node.names, cst.ImportStar):
            _report_star(source, node, result)
            continue
        change = _Change(node, adds_package=node in needed)
        for alias in node.names:
            name = _imported(node, alias)
            target = provided.get(plain(name) or "") if isinstance(node, cst.ImportFrom) else None
            if target is not None:
                change.moved[alias] = target
                result.rewritings.append(Rewriting(source.place(alias), name, target))
            elif plain(name) is not None and unused.is_unused(node, alias):
                change.dropped.append(alias)
            else:
                _report(source, alias, name, result)
            result.binds_package |= name.split(".")[0] == PACKAGE
        changes.append(change)
        result.binds_package |= bool(change.moved) or change.adds_package
    gone = {source.parents[change.node] for change in changes if change.vanishes}
    result.edits = [edit for change in changes for edit in _edits(source, change, gone)]
    return result


def _imported(node: ImportNode, alias: cst.ImportAlias) -> str:
    """Returns the full name of what is imported; an empty string for relative imports."""
    if isinstance(node, cst.Import):
        return get_full_name_for_node(alias.name) or ""
    return imported_from(node, alias)


def _report(source: Source, alias: cst.ImportAlias, name: str, result: Imports) -> None:
    code = reported_code(plain(name) or "")
    if code is not None:
        if code is Code.CONTRIB_NAME:
            code = Code.CONTRIB_IMPORT
        elif is_in(name, WRONG_MODULES):
            code = Code.WRONG_MODULE
        elif code is Code.PRIVATE_MODULE and _installed.has(name):
            return
        message = f"{name} is imported"
        result.findings.append(Finding(source.place(alias), code, message, plain(name) or ""))


def _report_star(source: Source, node: ImportNode, result: Imports) -> None:
    assert isinstance(node, cst.ImportFrom)
    module = get_full_name_for_node(node.module) if node.module is not None else None
    if module and not node.relative:
        result.binds_package |= module.split(".")[0] == PACKAGE
        if plain(module) is not None:
            message = f"all names of {module} are imported"
            result.findings.append(Finding(source.place(node), Code.STAR_IMPORT, message))


class _Unused:
    """Finds the imports that are no longer used once the uses have been rewritten."""

    def __init__(self, source: Source, uses: Sequence[Use]) -> None:
        self._source = source
        self._spans = sorted(source.span(use.node) for use in uses)
        self._exported = set(_exported(source.module))
        self._assignments: dict[cst.CSTNode, set[ImportAssignment]] = {}
        for use in uses:
            for one in use.resolved.imports:
                found = (a for a in one.scope.assignments if isinstance(a, ImportAssignment))
                self._assignments[one.node] = {a for a in found if a.node is one.node}

    def is_unused(self, node: ImportNode, alias: cst.ImportAlias) -> bool:
        """Returns whether an import was used, and all its uses are rewritten."""
        bound = alias.asname.name if alias.asname else alias.name
        full = get_full_name_for_node(bound) or ""
        names = {full} | {full[:i] for i, sign in enumerate(full) if sign == "."}
        if names & self._exported:
            return False
        mine = [one for one in self._assignments.get(node, ()) if one.name in names]
        if any(isinstance(one.scope, ClassScope) for one in mine):  # It is a class attribute.
            return False
        accesses = [access.node for one in mine for access in one.references]
        return bool(accesses) and all(map(self._is_rewritten, accesses))

    def _is_rewritten(self, node: cst.CSTNode) -> bool:
        start, end = self._source.span(node)
        return any(first <= start and end <= last for first, last in self._spans)


def _exported(module: cst.Module) -> Iterator[str]:
    """Yields the strings in statements about ``__all__``."""
    for statement in module.body:
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if "__all__" in module.code_for_node(small):
                yield from _strings(small)


def _strings(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.SimpleString):
        yield node.raw_value
    for child in node.children:
        yield from _strings(child)


@dataclasses.dataclass
class _Change:
    """The change of one import statement.

    Attributes:
        node: The statement.
        adds_package: Whether this package must be imported after it.
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
        return [one for one in self.aliases if one not in (*self.moved, *self.dropped)]

    @property
    def only_module(self) -> str | None:
        """The module of this package that provides all the names, if there is one."""
        modules = {target.rpartition(".")[0] for target in self.moved.values()}
        return modules.pop() if len(modules) == 1 and len(self.moved) == len(self.aliases) else None

    @property
    def vanishes(self) -> bool:
        """True if the statement is removed and nothing is written in its place."""
        return bool(self.dropped) and not (self.kept or self.moved or self.adds_package)


def _edits(source: Source, change: _Change, gone: set[cst.CSTNode]) -> Iterator[Edit]:
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


def _moved(source: Source, change: _Change) -> list[str]:
    """Returns the statements that import the moved names from this package."""
    names: dict[str, list[str]] = {}
    for alias, target in change.moved.items():
        names.setdefault(target.rpartition(".")[0], []).append(source.code(alias))
    return [f"from {module} import {', '.join(imported)}" for module, imported in names.items()]


def _with_comments(moved: list[str], comments: list[str], package: list[str]) -> list[str]:
    """Returns the statements, the last one with the comments of removed names."""
    statements = [*moved, *package]
    if comments:
        last = statements.pop() + "  " if statements else ""
        statements.append(last + "  ".join(comments))
    return statements


def _removed_spans(source: Source, change: _Change) -> Iterator[tuple[int, int]]:
    """Yields what must be removed from a statement of which some names are kept."""
    kept = change.kept
    last_kept = change.aliases.index(kept[-1])
    for i, alias in enumerate(change.aliases[:last_kept]):
        if alias not in kept:
            yield source.span(alias)[0], source.span(change.aliases[i + 1])[0]
    if last_kept < len(change.aliases) - 1:
        yield source.span(change.aliases[last_kept])[1], source.span(change.aliases[-1])[1]


def _stands_alone(source: Source, node: cst.CSTNode) -> bool:
    """Returns whether there is no other statement on the line."""
    line = source.parents[node]
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1


def _addition(source: Source, node: cst.CSTNode, statements: Sequence[str]) -> Iterator[Edit]:
    """Yields the change that adds statements after another one."""
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
