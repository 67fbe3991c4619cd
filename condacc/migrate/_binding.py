"""Decides where a rewritten program imports this package, and under which name it uses it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from libcst.metadata import GlobalScope, ImportAssignment, Scope

from condacc.migrate._names import PACKAGE
from condacc.migrate._source import Source
from condacc.migrate._uses import Use


class Binding:
    """The imports of this package in a rewritten program.

    The package is imported behind an import of TensorFlow, in the same scope, so that it is bound
    wherever TensorFlow was. One import serves all that come after it in its scope or, if it is in
    the scope of the module, in any scope.

    Args:
        source: The program.
        uses: The uses that could be rewritten.

    Attributes:
        uses: The uses that can be rewritten.
        refused: Those that would use the package in a function before the function imports it.
        needed: The import statements behind which the package must be imported.
    """

    def __init__(self, source: Source, uses: Sequence[Use]) -> None:
        self._source = source
        self._top = source.global_scope()
        self._existing = list(self._imports_of_package())
        self.uses = list(uses)
        self.needed = self._places()
        self.refused = list(self._used_too_early())
        if self.refused:
            self.uses = [use for use in uses if use not in self.refused]
            self.needed = self._places()

    def name(self, use: Use) -> str:
        """Returns the name of this package for a use."""
        scope = self._source.scope(use.node)
        before = min(self._start(one.node) for one in use.resolved.imports)
        for one in self._existing:
            if one.name != PACKAGE and one.scope is self._top and self._start(one.node) < before:
                found = scope.get_qualified_names_for(one.name) if scope is not None else set()
                if {q.name for q in found} == {PACKAGE}:
                    return one.name
        return PACKAGE

    def _imports_of_package(self) -> Iterator[ImportAssignment]:
        for one in self._top.assignments if self._top is not None else ():
            if isinstance(one, ImportAssignment) and _is_direct(self._source, one.node, one.scope):
                found = one.get_qualified_names_for(one.name)
                if {q.name for q in found} == {PACKAGE}:
                    yield one

    def _places(self) -> dict[cst.CSTNode, Scope]:
        """Returns the statements after which the package is needed, and their scopes."""
        serving = [
            (one.scope, self._start(one.node)) for one in self._existing if one.name == PACKAGE
        ]
        bound = {
            one.node: one.scope
            for use in self.uses
            if self.name(use) == PACKAGE
            for one in use.resolved.imports
        }
        needed: dict[cst.CSTNode, Scope] = {}
        for node in sorted(bound, key=self._start):
            scope, start = bound[node], self._start(node)
            if any(at < start for served, at in serving if served in (scope, self._top)):
                continue
            needed[node] = scope
            if _is_direct(self._source, node, scope):
                serving.append((scope, start))
        return needed

    def _used_too_early(self) -> Iterator[Use]:
        """Yields the uses for which a function would import the package after another use of it.

        The import makes the name local to the whole function, so the earlier use would fail.
        """
        mentions = [self._start(use.node) for use in self.uses]
        mentions += [self._start(a.node) for one in self._existing for a in one.references]
        for node, scope in self.needed.items():
            function = self._source.parents[node]
            while not isinstance(function, cst.FunctionDef | cst.ClassDef | cst.Module):
                function = self._source.parents[function]
            if isinstance(scope, GlobalScope) or isinstance(function, cst.Module):
                continue
            first = self._start(function)
            if any(first < at < self._start(node) for at in mentions):
                yield from (
                    use
                    for use in self.uses
                    if any(one.scope is scope for one in use.resolved.imports)
                )

    def _start(self, node: cst.CSTNode) -> int:
        return self._source.span(node)[0]


def _is_direct(source: Source, node: cst.CSTNode, scope: Scope) -> bool:
    """Returns whether an import statement runs whenever the code of its scope runs."""
    block = source.parents[source.parents[node]]
    if isinstance(scope, GlobalScope):
        return isinstance(block, cst.Module)
    owner = source.parents.get(block)
    return isinstance(block, cst.IndentedBlock) and isinstance(
        owner, cst.FunctionDef | cst.ClassDef
    )
