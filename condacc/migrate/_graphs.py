"""Programs that build a graph at the top level and do not turn eager execution off."""

from __future__ import annotations

import libcst as cst

from condacc.migrate._findings import Code, Finding
from condacc.migrate._resolving import is_chain, resolve
from condacc.migrate._source import Source

GRAPH_NAMES = (
    "InteractiveSession",
    "Session",
    "placeholder",
    "train.MonitoredSession",
    "train.MonitoredTrainingSession",
    "train.SingularMonitoredSession",
    "train.Supervisor",
)
# Threads of these read variables, and the graph of a context is not that of other threads.
_WITH_THREADS = ("train.Supervisor", "contrib.slim.learning.train")
_LAST_PARTS = {name.rpartition(".")[2] for name in (*GRAPH_NAMES, *_WITH_THREADS)}
_SWITCHES = ("disable_v2_behavior", "disable_eager_execution")
# Programs with one of these build their graphs in a context, or an Estimator does.
_OWN_GRAPHS = ("Graph", "estimator")
_IN_THREADS = (
    "Its threads fail in eager execution, also if the graph is built in `with "
    "tf.Graph().as_default()`: call tf.compat.v1.disable_v2_behavior() at the beginning of the "
    "program."
)


def eager_findings(source: Source) -> list[Finding]:
    """Returns a finding if a program needs a graph and neither makes one nor asks for one.

    If it has threads, one that it makes is not enough.
    """
    found = _Graphs(source)
    uses = found.in_threads or ([] if found.has_graph else found.uses)
    if found.is_switched or not uses:
        return []
    first = min(uses, key=source.span)
    message = f"{source.code(first)} is used without disable_v2_behavior()"
    remedy = _IN_THREADS if found.in_threads else ""
    return [Finding(source.place(first), Code.EAGER_PROGRAM, message, own_remedy=remedy)]


class _Graphs(cst.CSTVisitor):
    def __init__(self, source: Source) -> None:
        super().__init__()
        self.uses: list[cst.BaseExpression] = []
        self.in_threads: list[cst.BaseExpression] = []
        self.is_switched = False
        self.has_graph = False
        self._source = source
        source.module.visit(self)

    def visit_Call(self, node: cst.Call) -> None:
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        self.is_switched |= isinstance(name, cst.Name) and name.value in _SWITCHES

    def visit_Name(self, node: cst.Name) -> None:
        if node.value not in (*_OWN_GRAPHS, *_LAST_PARTS):
            return
        parent = self._source.parents[node]
        is_end = isinstance(parent, cst.Attribute) and parent.attr is node
        whole = parent if is_end and isinstance(parent, cst.Attribute) else node
        if node.value in _OWN_GRAPHS:
            # TensorFlow 2.15 has hooks in tf.estimator, and its tf_upgrade_v2 writes them so.
            outer = self._source.parents[whole]
            is_hook = isinstance(outer, cst.Attribute) and outer.attr.value.endswith("Hook")
            self.has_graph |= not is_hook
        if node.value not in _LAST_PARTS or isinstance(parent, cst.ImportAlias):
            return
        resolved = resolve(self._source, whole) if is_chain(whole) else None
        call = self._source.parents[whole]
        is_called = isinstance(call, cst.Call) and call.func is whole
        if is_called and resolved is not None and resolved.name in GRAPH_NAMES:
            self.uses.append(whole)
        if is_called and resolved is not None and resolved.name in _WITH_THREADS:
            self.in_threads.append(whole)
