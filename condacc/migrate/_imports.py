"""Rewrites the import statements of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import ClassScope, ImportAssignment

from condacc.migrate._findings import Code, Finding, Rewriting
from condacc.migrate._import_edits import Change, statement_edits
from condacc.migrate._names import PACKAGE, WRONG_MODULES, is_in, plain
from condacc.migrate._resolving import imported_from
from condacc.migrate._source import Edit, Source
from condacc.migrate._uses import Use, reported_code

ImportNode = cst.Import | cst.ImportFrom


@dataclasses.dataclass
class Imports:
    """The changes of the import statements of a program.

    Attributes:
        edits: The changes of the text.
        rewritings: The names that are rewritten.
        findings: The imports that a person must look at.
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
        change = Change(node, adds_package=node in needed)
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
    result.edits = statement_edits(source, changes)
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
    """Tells which imports are no longer used once the uses have been rewritten."""

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
        if any(isinstance(one.scope, ClassScope) for one in mine):  # It is an attribute.
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
