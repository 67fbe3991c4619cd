"""Warnings about tasks that do not answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from condacc.liveness import Answer, Watch

_LOG = logging.getLogger("tf_condacc")
_REASONS = {
    Answer.SILENT: "its process is frozen, its machine cannot be reached, or another program has "
    "its port",
    Answer.REFUSED: "its process has ended, or has not started its server yet",
    Answer.UNRESOLVED: "its host name cannot be resolved",
}


def watch_with_warnings(addresses: Mapping[str, str], report_secs: float) -> Watch:
    """Returns a watch that warns once about a task that does not answer, and when it does again.

    Args:
        addresses: Addresses of the tasks, by their names.
        report_secs: After so many seconds without an answer a task is reported.
    """

    def warn(name: str, seconds: float, answer: Answer) -> None:
        _LOG.warning(
            "%s (%s) has not answered for %g s: %s. Steps that need it wait.",
            name,
            addresses[name],
            seconds,
            _REASONS[answer],
        )

    def warn_answers_again(name: str) -> None:
        _LOG.warning("%s (%s) answers again.", name, addresses[name])

    return Watch(addresses, [report_secs], warn, warn_answers_again, reports_refused=True)
