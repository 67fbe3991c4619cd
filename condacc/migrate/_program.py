"""Rewrites the text of one program."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Iterator, Sequence

from condacc.migrate._binding import Binding
from condacc.migrate._findings import Code, Finding, Outcome, Rewriting
from condacc.migrate._graphs import GRAPH_NAMES, eager_findings
from condacc.migrate._imports import rewrite_imports
from condacc.migrate._names import PACKAGE, PROVIDED, PROVIDED_FOR_ESTIMATOR
from condacc.migrate._numpy import WORDS as WORDS_OF_NUMPY
from condacc.migrate._numpy import numpy_findings
from condacc.migrate._remedies import with_remedy
from condacc.migrate._source import Edit, Source, apply_edits, check_syntax
from condacc.migrate._uses import Use, Uses
from condacc.migrate._version_1 import Version1

_RECURSION_LIMIT = 5000
_SYNC = f"{PACKAGE}.SyncReplicasOptimizer"
_PREPARES = re.compile(
    r"\b(chief_init_op|get_chief_queue_runner|make_session_run_hook|sync_optimizer)\b"
)
_MENTIONS = re.compile(r"tensorflow|Accumulator")
_MODULES = ("contrib", "estimator", "examples", "layers", "python", "rnn_cell", "Server")
_UPGRADED = ("initializers", "regularizers", "summary")  # Written or left by tf_upgrade_v2.
_NAMES = sorted({name.rpartition(".")[2] for name in (*PROVIDED, *GRAPH_NAMES)} | {"device"})
# The analysis takes long, so programs without any of these words are left out.
_WORDS = re.compile(rf"Accumulator|import\s*\*|\b({'|'.join([*_MODULES, *_UPGRADED, *_NAMES])})\b")


def migrate_text(text: str, with_estimator: bool = False) -> Outcome:
    """Rewrites a program.

    Args:
        text: The program, without a byte order mark.
        with_estimator: Whether to rewrite the names of tf.estimator that this package provides.

    Returns:
        The new text, which is `text` itself if there is nothing to rewrite, and the report.

    Raises:
        SyntaxError, ValueError, RecursionError: The program is not valid Python.
    """
    if not is_concerned(text):
        return Outcome(text)
    check_syntax(text)
    edits, outcome = find_edits(text, with_estimator)
    return dataclasses.replace(outcome, text=apply_edits(text, edits))


def is_concerned(text: str) -> bool:
    """Returns whether a program may use TensorFlow."""
    return _MENTIONS.search(text) is not None


def find_edits(text: str, with_estimator: bool) -> tuple[list[Edit], Outcome]:
    """Returns what must be changed in a program, and the report, with the text as it is.

    Raises:
        SyntaxError, ValueError, RecursionError: The program is not valid Python.
    """
    if _WORDS.search(text) is None and WORDS_OF_NUMPY.search(text) is None:
        return [], Outcome(text)
    with _deep_recursion():
        return _found_edits(text, with_estimator)


@contextlib.contextmanager
def _deep_recursion() -> Iterator[None]:
    """Allows deep recursion in this context, because long sums are nested deeply."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _found_edits(text: str, with_estimator: bool) -> tuple[list[Edit], Outcome]:
    source = Source(text)
    provided = PROVIDED | (PROVIDED_FOR_ESTIMATOR if with_estimator else {})
    found = Uses(source, provided)
    if found.lacking and with_estimator:  # A program must not use two classes of Estimator.
        provided = PROVIDED
        found = Uses(source, provided)
    version_1 = Version1(source)
    binding = Binding(source, found.to_rewrite)
    imports = rewrite_imports(source, found.imports, binding.uses, binding.needed, provided)
    edits = [*imports.edits, *version_1.edits]
    rewritings = [*imports.rewritings, *version_1.rewritings]
    for use in binding.uses:
        target = binding.name(use) + use.target.removeprefix(PACKAGE)
        edits.append(Edit(*source.span(use.node), target))
        rewritings.append(Rewriting(source.place(use.node), source.code(use.node), target))
    findings = [*found.findings, *imports.findings, *version_1.findings, *eager_findings(source)]
    findings += [
        Finding(source.place(use.node), Code.LATE_IMPORT, f"{source.code(use.node)} is used")
        for use in binding.refused
    ]
    findings += [*_not_prepared(source, binding.uses), *numpy_findings(source)]
    if not imports.binds_package:
        findings += [
            Finding(source.place(node), Code.SERVER, f"{source.code(node)} starts a task")
            for node in found.servers
        ]
    findings = [with_remedy(finding, found.lacking) for finding in findings]
    check_syntax(apply_edits(text, edits))
    return edits, Outcome(
        text,
        tuple(sorted(rewritings, key=lambda one: one.place)),
        tuple(sorted(findings, key=lambda one: (one.place, one.code.code))),
    )


def _not_prepared(source: Source, uses: Sequence[Use]) -> list[Finding]:
    """Returns a finding if nothing prepares the chief for SyncReplicasOptimizer."""
    made = [use.node for use in uses if use.target == _SYNC]
    if not made or _PREPARES.search(source.module.code):
        return []
    first = min(made, key=source.span)
    message = f"{source.code(first)} is used without a chief that prepares it"
    return [Finding(source.place(first), Code.NOT_PREPARED, message)]
