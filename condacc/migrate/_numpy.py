"""Uses of names and arguments of NumPy 1 that NumPy 2 lacks."""

from __future__ import annotations

import re

import libcst as cst
from libcst.helpers import get_full_name_for_node

from condacc.migrate._findings import Code, Finding
from condacc.migrate._source import Source
from condacc.originals import NUMPY_REMOVED

_NAMES = {f"numpy.{name}" for name in (*NUMPY_REMOVED, "lib.pad")}
# Every program that uses such a name contains a match of this expression.
WORDS = re.compile(rf"\b({'|'.join(NUMPY_REMOVED)}|lib\.pad|newshape)\b")


class _Uses(cst.CSTVisitor):
    def __init__(self, source: Source) -> None:
        super().__init__()
        self.findings: list[Finding] = []
        self._source = source
        source.module.visit(self)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if get_full_name_for_node(node) is not None and self._names(node) & _NAMES:
            self._report(node, f"{self._source.code(node)} is used")

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        module = get_full_name_for_node(node.module) if node.module is not None else None
        for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
            name = f"{module}.{get_full_name_for_node(alias.name)}"
            if name in _NAMES and not node.relative:
                self._report(alias, f"{name} is imported")

    def visit_Call(self, node: cst.Call) -> None:
        for argument in node.args:
            if argument.keyword is not None and argument.keyword.value == "newshape":
                if self._names(node.func) & {"numpy.reshape"}:
                    self._report(node, "np.reshape is given newshape")

    def _names(self, node: cst.CSTNode) -> set[str]:
        scope = self._source.scope(node)
        return {each.name for each in scope.get_qualified_names_for(node)} if scope else set()

    def _report(self, node: cst.CSTNode, message: str) -> None:
        self.findings.append(Finding(self._source.place(node), Code.NUMPY_1, message))


def numpy_findings(source: Source) -> list[Finding]:
    """Returns a finding for each use of a name or an argument that NumPy 2 lacks."""
    return _Uses(source).findings if WORDS.search(source.text) else []
