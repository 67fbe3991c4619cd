"""Finds the uses of TensorFlow's names in a program: those to rewrite, and those to report."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

import libcst as cst

from condacc.migrate._findings import Code, Finding
from condacc.migrate._names import (
    DEVICE_SETTER,
    KERAS_2,
    OP_TYPES,
    PACKAGE,
    PROVIDED_FOR_ESTIMATOR,
    SERVERS,
    estimator_lacks,
    is_in,
    plain,
)
from condacc.migrate._resolving import (
    Resolved,
    imported_from,
    imported_name,
    is_chain,
    resolve,
)
from condacc.migrate._source import Source

_MODULE_NAME = re.compile(r"tensorflow\.(contrib|python)(\.\w+)*")
_PS_OPS_POSITION = 5  # The position of `ps_ops` among the arguments of `replica_device_setter`.
# Arguments that classes of tf_condacc.estimator do not have. Both are the fifth one.
_LACKING_ARGUMENTS = {"Estimator": "warm_start_from", "EvalSpec": "exporters"}
_FIFTH = 4
_REPORTED = (
    (("contrib",), Code.CONTRIB_NAME),
    (("estimator",), Code.ESTIMATOR),
    (("examples",), Code.EXAMPLES),
    (("python",), Code.PRIVATE_MODULE),
    (KERAS_2, Code.KERAS_2),
)
_STORED = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.Del)


@dataclasses.dataclass(frozen=True)
class Use:
    """An expression that names something of TensorFlow and is to be rewritten.

    Attributes:
        node: The expression.
        target: The name in this package.
        resolved: The name that the expression refers to.
    """

    node: cst.Attribute
    target: str
    resolved: Resolved


def reported_code(name: str) -> Code | None:
    """Returns the code of the findings about a name; None if the name needs no finding."""
    return next((code for modules, code in _REPORTED if is_in(name, modules)), None)


class Uses(cst.CSTVisitor):
    """Collects the uses in a program.

    Attributes:
        to_rewrite: The uses to rewrite.
        findings: What needs manual review, except for imports.
        imports: The import statements.
        servers: The expressions that name a class of servers.
        lacking: The names of tf.estimator, and the arguments, that tf_condacc.estimator does not
            have.
    """

    def __init__(self, source: Source, provided: Mapping[str, str]) -> None:
        super().__init__()
        self.to_rewrite: list[Use] = []
        self.findings: list[Finding] = []
        self.imports: list[cst.Import | cst.ImportFrom] = []
        self.servers: list[cst.Attribute] = []
        self.lacking: set[str] = set()
        self._source = source
        self._provided = provided
        self._dynamic: set[cst.BaseExpression] = set()
        source.module.visit(self)

    def visit_Import(self, node: cst.Import) -> bool:
        self.imports.append(node)
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        self.imports.append(node)
        for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
            name = plain(imported_from(node, alias)) or ""
            if estimator_lacks(name):
                self.lacking.add(name)
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        if not is_chain(node):
            return True
        resolved = resolve(self._source, node)
        if resolved is not None and node not in self._dynamic:
            self._see_chain(node, resolved)
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        if isinstance(node.func, cst.Name) and node.func.value == "getattr" and len(node.args) > 1:
            self._see_getattr(node)
        ps_ops = [arg for arg in node.args if arg.keyword and arg.keyword.value == "ps_ops"]
        if ps_ops or len(node.args) > _PS_OPS_POSITION:
            setter = resolve(self._source, node.func) if is_chain(node.func) else None
            if setter and self._provided.get(setter.name) == DEVICE_SETTER:
                self._report(node, Code.OWN_PS_OPS, "the device setter is given ps_ops")
        self._see_lacking_argument(node)
        return True

    def visit_SimpleString(self, node: cst.SimpleString) -> bool:
        text = node.raw_value
        parent = self._source.parents[node]
        if isinstance(parent, cst.Arg) and _MODULE_NAME.fullmatch(text):
            self._report(node, Code.DYNAMIC_NAME, f"a module is named by the string {text!r}")
        elif text in OP_TYPES and self._is_compared(node):
            self._report(node, Code.OP_TYPE, f"{text!r} is the type of an operation of TensorFlow")
        return True

    def _see_chain(self, node: cst.Attribute, resolved: Resolved) -> None:
        for removed, part in enumerate(_prefixes(node)):
            target = self._provided.get(resolved.prefix(removed))
            if target is not None:
                self._see_provided(part, target, resolved, is_whole=removed == 0)
                return
            if resolved.prefix(removed) in SERVERS:
                self.servers.append(part)
        if estimator_lacks(resolved.name):
            self.lacking.add(resolved.name)
        code = reported_code(resolved.name)
        root = resolve(self._source, list(_prefixes(node))[-1].value)
        # If the first part alone is a reason, the statement that binds it is reported instead.
        if code is not None and root is not None and reported_code(root.name) is None:
            self._report(node, code, f"{self._name(node)} is used", resolved.name)

    def _see_provided(
        self, node: cst.Attribute, target: str, resolved: Resolved, is_whole: bool
    ) -> None:
        scope = self._source.scope(node)
        if is_whole and isinstance(self._source.parents[node], _STORED):
            parent = self._source.parents[node]
            if not isinstance(parent, cst.AnnAssign) or parent.target is node:
                self._report(node, Code.ASSIGNED_NAME, f"{self._name(node)} is replaced")
                return
        if not resolved.certain:
            self._report(node, Code.AMBIGUOUS_NAME, f"{self._name(node)} has several meanings")
        elif re.sub(r"[\s\\]", "", self._source.code(node)) != self._name(node):
            self._report(node, Code.SPLIT_NAME, f"{self._name(node)} is not rewritten")
        elif scope is not None and imported_name(scope) is False:
            self._report(node, Code.TAKEN_NAME, f"{self._name(node)} is not rewritten")
        else:
            self.to_rewrite.append(Use(node, target, resolved))

    def _see_getattr(self, node: cst.Call) -> None:
        module, name = node.args[0].value, node.args[1].value
        resolved = resolve(self._source, module) if is_chain(module) else None
        if resolved is None:
            return
        literal = name.raw_value if isinstance(name, cst.SimpleString) else ""
        if (
            is_in(resolved.name, ("contrib",))
            or f"{resolved.name}.{literal}".lstrip(".") in self._provided
        ):
            self._dynamic.add(module)
            self._report(
                node, Code.DYNAMIC_NAME, f"a name is looked up in {self._source.code(module)}"
            )

    def _see_lacking_argument(self, node: cst.Call) -> None:
        resolved = resolve(self._source, node.func) if is_chain(node.func) else None
        target = PROVIDED_FOR_ESTIMATOR.get(resolved.name, "") if resolved else ""
        owner = target.removeprefix(f"{PACKAGE}.estimator.")
        lacking = _LACKING_ARGUMENTS.get(owner)
        for position, arg in enumerate(node.args if lacking else ()):
            is_fifth = position == _FIFTH and not arg.star
            is_lacking = arg.keyword.value == lacking if arg.keyword else is_fifth
            if is_lacking and not (isinstance(arg.value, cst.Name) and arg.value.value == "None"):
                self.lacking.add(f"{owner}({lacking}=...)")

    def _is_compared(self, node: cst.CSTNode) -> bool:
        """Returns whether a string is compared, matched, or in a collection."""
        parent = self._source.parents[node]
        if isinstance(parent, cst.Comparison | cst.ComparisonTarget | cst.MatchValue):
            return True
        if isinstance(parent, cst.DictElement):
            return parent.key is node
        if not isinstance(parent, cst.Element):
            return False
        collection = self._source.parents[parent]
        assigned = self._source.parents[collection]
        targets = assigned.targets if isinstance(assigned, cst.Assign) else ()
        return not any(
            isinstance(one.target, cst.Name) and one.target.value == "__all__" for one in targets
        )

    def _name(self, node: cst.Attribute) -> str:
        parts = [part.attr.value for part in _prefixes(node)]
        first = list(_prefixes(node))[-1].value
        return ".".join([first.value if isinstance(first, cst.Name) else "", *reversed(parts)])

    def _report(self, node: cst.CSTNode, code: Code, message: str, name: str = "") -> None:
        self.findings.append(Finding(self._source.place(node), code, message, name))


def _prefixes(node: cst.Attribute) -> Iterator[cst.Attribute]:
    """Yields the chain itself, then without its last part, and so on."""
    part: cst.BaseExpression = node
    while isinstance(part, cst.Attribute):
        yield part
        part = part.value
