"""The names of TensorFlow that expressions of a program refer to."""

from __future__ import annotations

import dataclasses

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    GlobalScope,
    ImportAssignment,
    QualifiedNameSource,
    Scope,
)

from condacc.migrate._names import PACKAGE, plain
from condacc.migrate._source import Source

_MAX_ALIASES = 5  # The longest chain of assignments such as ``v1 = tf.compat.v1``.


@dataclasses.dataclass(frozen=True)
class Resolved:
    """The name in TensorFlow that an expression refers to.

    Attributes:
        name: The name in TensorFlow, without ``tensorflow`` and versions.
        imports: The imports that bind the first part of the expression.
        certain: False if the expression may also refer to something else.
    """

    name: str
    imports: tuple[ImportAssignment, ...]
    certain: bool

    def prefix(self, removed: int) -> str:
        """Returns the name without its last parts, as many as `removed` says."""
        parts = self.name.split(".")
        return ".".join(parts[: len(parts) - removed])


def is_chain(node: cst.CSTNode) -> bool:
    """Returns whether an expression consists of names and dots only."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def resolve(source: Source, node: cst.BaseExpression, depth: int = 0) -> Resolved | None:
    """Returns what a chain of names refers to, or None if this is not in TensorFlow."""
    root: cst.BaseExpression = node
    while isinstance(root, cst.Attribute):
        root = root.value
    scope = source.scope(root)
    if not isinstance(root, cst.Name) or scope is None:
        return None
    assignments = scope[root.value]
    alias = _alias(source, assignments) if depth < _MAX_ALIASES else None
    if alias is not None:
        return _through_alias(source, node, root, alias, depth)
    found = scope.get_qualified_names_for(node)
    imported = {q.name for q in found if q.source is QualifiedNameSource.IMPORT}
    names = {name for name in map(plain, imported) if name is not None}
    if not names:
        return None
    imports = tuple(one for one in assignments if isinstance(one, ImportAssignment))
    certain = len(names) == 1 and len(found) == len(imported) and _are_plain(source, imports)
    certain = certain and all(plain(name) is not None for name in imported)
    return Resolved(min(names), imports, certain)


def _alias(source: Source, assignments: set[BaseAssignment]) -> cst.BaseExpression | None:
    """Returns the value of a name that is assigned only once, if it consists of names and dots."""
    if len(assignments) != 1:
        return None
    (assignment,) = assignments
    if not isinstance(assignment, Assignment) or isinstance(assignment, ImportAssignment):
        return None
    target = source.parents.get(assignment.node)
    statement = source.parents.get(target) if isinstance(target, cst.AssignTarget) else None
    if isinstance(statement, cst.Assign) and is_chain(statement.value):
        return statement.value
    return None


def _through_alias(
    source: Source, node: cst.BaseExpression, root: cst.Name, alias: cst.BaseExpression, depth: int
) -> Resolved | None:
    module = resolve(source, alias, depth + 1)
    if module is None:
        return None
    rest = (get_full_name_for_node(node) or "")[len(root.value) :]
    name = plain(f"tensorflow.{module.name}{rest}" if module.name else f"tensorflow{rest}")
    return dataclasses.replace(module, name=name or "")


def _are_plain(source: Source, imports: tuple[ImportAssignment, ...]) -> bool:
    """Returns whether imports bind names of the scope that they are written in."""
    return all(
        not isinstance(one.scope, GlobalScope) or not _is_in_function(source, one.node)
        for one in imports
    )


def _is_in_function(source: Source, node: cst.CSTNode) -> bool:
    parent = source.parents.get(node)
    while parent is not None and not isinstance(parent, cst.FunctionDef):
        parent = source.parents.get(parent)
    return parent is not None


def imported_from(node: cst.ImportFrom, alias: cst.ImportAlias) -> str:
    """Returns the full name of what is imported; an empty string for relative imports."""
    module = get_full_name_for_node(node.module) if node.module is not None else None
    name = get_full_name_for_node(alias.name)
    return f"{module}.{name}" if module and not node.relative else ""


def imported_name(scope: Scope) -> bool | None:
    """Returns whether the name tf_condacc is the package there; None if it is not bound."""
    found = scope.get_qualified_names_for(PACKAGE)
    if not found:
        return None
    return all(q.source is QualifiedNameSource.IMPORT and q.name == PACKAGE for q in found)
