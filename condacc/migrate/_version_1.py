"""Uses of what only ``tf.compat.v1`` has: ``tf.layers``, old summaries, functions for devices."""

from __future__ import annotations

import re

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import Assignment

from condacc.migrate._findings import Code, Finding, Rewriting
from condacc.migrate._names import DEVICE_SETTER, PROVIDED, plain
from condacc.migrate._source import Edit, Source

_LAYERS = "tensorflow.layers"
_SUMMARY = "tensorflow.summary"
_SUMMARIES = ("audio", "histogram", "image", "scalar", "text")  # tf_upgrade_v2 leaves these.
_NEW_SUMMARIES = re.compile(r"\bcreate_file_writer\b|\bset_step\b")
_STEP_IS_THIRD = ("histogram", "scalar", "text")
_NEW = "tensorflow.device"
_NAMES = {_NEW, "tensorflow.compat.v2.device"}
_FUNCTION = re.compile(r"setter|func|fn\b|fn_", re.IGNORECASE)
# A specification of a device, the device of a tensor, and a formatted name.
_IS_NO_FUNCTION = re.compile(r"^[\w.]*\bDeviceSpec\b|^[^()]*\.device$|^['\"].*\.format\(|^str\(")


class Version1(cst.CSTVisitor):
    """Finds the uses of TensorFlow 2's ``tf.layers``, ``tf.summary`` and ``tf.device``.

    tf_upgrade_v2 leaves these names as they are. ``tf.layers`` is rewritten to
    ``tf.compat.v1.layers``. Functions of ``tf.summary`` that are used without a step are rewritten
    to those of ``tf.compat.v1.summary``. A use of ``tf.device`` with a device setter or another
    function is rewritten to ``tf.compat.v1.device``, which also accepts names of devices. A use
    with a value that may be a function is reported.

    Attributes:
        edits: The changes of the text.
        rewritings: The names that are rewritten.
        findings: The uses that need manual review.
    """

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.edits: list[Edit] = []
        self.rewritings: list[Rewriting] = []
        self.findings: list[Finding] = []
        self._source = source
        self._unknown: list[cst.Call] = []
        self._has_setter = False
        source.module.visit(self)
        for call in self._unknown:
            value = call.args[0].value
            is_function = self._is_function(value)
            if is_function or self._has_setter or _FUNCTION.search(source.code(value)):
                message = f"{source.code(call)} may be given a function"
                self.findings.append(Finding(source.place(call), Code.DEVICE_FUNCTION, message))

    def visit_Call(self, node: cst.Call) -> None:
        self._has_setter |= self._is_setter(node)
        names = self._names(node.func) & _NAMES
        if len(node.args) != 1 or not names:
            return
        value = node.args[0].value
        is_function = self._is_function(value)
        can_move = _NEW in names and node.args[0].keyword is None
        if is_function and can_move and isinstance(node.func, cst.Attribute):
            self._move(node.func)
        elif is_function or isinstance(value, cst.Name | cst.Attribute | cst.Subscript | cst.Call):
            if not _IS_NO_FUNCTION.search(self._source.code(value)):
                self._unknown.append(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if node.attr.value == "layers" and self._names(node) == {_LAYERS}:
            self._move(node)
        elif node.attr.value == "summary" and self._is_old_summary(node):
            self._move(node)

    def _is_old_summary(self, node: cst.Attribute) -> bool:
        """Returns whether ``tf.summary`` is that of a function for graphs, without a step."""
        function = self._source.parents[node]
        if not isinstance(function, cst.Attribute) or function.attr.value not in _SUMMARIES:
            return False
        call = self._source.parents[function]
        args = call.args if isinstance(call, cst.Call) and call.func is function else ()
        has_step = any(arg.keyword is not None and arg.keyword.value == "step" for arg in args)
        if function.attr.value in _STEP_IS_THIRD:
            has_step |= len(args) > 2 and args[2].keyword is None
        is_new = has_step or _NEW_SUMMARIES.search(self._source.module.code)
        return not is_new and self._names(node) == {_SUMMARY}

    def _move(self, node: cst.Attribute) -> None:
        """Rewrites a name of TensorFlow to that of ``tf.compat.v1``."""
        new = f"compat.v1.{node.attr.value}"
        self.edits.append(Edit(*self._source.span(node.attr), new))
        old, root = self._source.code(node), self._source.code(node.value)
        self.rewritings.append(Rewriting(self._source.place(node), old, f"{root}.{new}"))

    def _names(self, node: cst.BaseExpression) -> set[str]:
        """Returns the full names that an expression may have."""
        if get_full_name_for_node(node) is None or isinstance(node, cst.Call):
            return set()
        scope = self._source.scope(node)
        return {found.name for found in scope.get_qualified_names_for(node)} if scope else set()

    def _is_setter(self, node: cst.BaseExpression) -> bool:
        """Returns whether an expression is a call that makes a device setter."""
        names = self._names(node.func) if isinstance(node, cst.Call) else set()
        return any(DEVICE_SETTER in (name, PROVIDED.get(plain(name) or "")) for name in names)

    def _is_function(self, node: cst.BaseExpression) -> bool:
        """Returns whether an expression is a function, in at least one run of the program."""
        if not isinstance(node, cst.Name):
            return self._makes_function(node)
        scope = self._source.scope(node)
        for one in scope[node.value] if scope is not None else ():
            place = one.node if isinstance(one, Assignment) else None
            if isinstance(place, cst.FunctionDef):
                return True
            target = self._source.parents.get(place) if place is not None else None
            statement = self._source.parents.get(target) if target is not None else None
            if isinstance(statement, cst.Assign) and self._makes_function(statement.value):
                return True
        return False

    def _makes_function(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.IfExp):
            return self._makes_function(node.body) or self._makes_function(node.orelse)
        return isinstance(node, cst.Lambda) or self._is_setter(node)
