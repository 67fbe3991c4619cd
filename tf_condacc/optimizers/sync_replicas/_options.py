"""What users choose, and the checks of it."""

from __future__ import annotations

import numbers
from typing import Any

from tf_condacc.optimizers.sync_replicas._gate import GateOptions

_SPARSE_REDUCTIONS = ("MEAN", "GLOBAL_MEAN", "SUM")


def check_count(optimizer: str, argument: str, value: Any) -> int:
    """Returns a number of replicas as an int.

    Raises:
        ValueError: It is not an integer, or is lower than 1.
    """
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"Optimizer '{optimizer}' expects {argument} >= 1, got {value!r}.")
    return int(value)


def gate_options(
    optimizer: str,
    num_slots: int,
    num_workers: int,
    takeover_secs: float | None,
    report_secs: float | None,
) -> GateOptions:
    """Returns how a gate works.

    Raises:
        ValueError: A number of seconds is neither positive nor None.
    """
    for argument, seconds in (("takeover_secs", takeover_secs), ("report_secs", report_secs)):
        if seconds is not None and not 0 < seconds < 1e9:
            raise ValueError(
                f"Optimizer '{optimizer}' expects {argument} to be a positive number of seconds or "
                f"None, got {seconds!r}."
            )
    return GateOptions(num_slots, num_workers, float(takeover_secs or 0), float(report_secs or 0))


def check_sparse_reduction(optimizer: str, reduction: Any) -> str:
    """Returns how sparse gradients are reduced.

    Raises:
        ValueError: The reduction is not known.
    """
    if reduction not in _SPARSE_REDUCTIONS:
        raise ValueError(
            f"Optimizer '{optimizer}' expects sparse_reduction to be one of "
            f"{', '.join(_SPARSE_REDUCTIONS)}, got {reduction!r}."
        )
    return reduction
