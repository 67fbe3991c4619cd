"""Checks of the arguments of the optimizer."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_condacc._ops.function_checks import is_function
from tf_condacc._optimizers.sync_replicas.gate import GateOptions
from tf_condacc._typing import GradientAndVariable

_TRANSPORT_DTYPES = (tf.bfloat16, tf.float16)
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
    wait_for_lost: bool,
) -> GateOptions:
    """Returns the options of a gate.

    Raises:
        ValueError: A number of seconds is neither positive nor None.
    """
    for argument, seconds in (("takeover_secs", takeover_secs), ("report_secs", report_secs)):
        if seconds is not None and not 0 < seconds < 1e9:
            raise ValueError(
                f"Optimizer '{optimizer}' expects {argument} to be a positive number of seconds or "
                f"None, got {seconds!r}."
            )
    return GateOptions(
        num_slots,
        num_workers,
        float(takeover_secs or 0),
        float(report_secs or 0),
        bool(wait_for_lost),
    )


class PushOptions(NamedTuple):
    """How gradients travel and are reduced.

    Attributes:
        sparse_reduction: How ``tf.IndexedSlices`` are reduced.
        transport_dtype: Data type in which gradients travel if theirs is wider; None for theirs.
    """

    sparse_reduction: str
    transport_dtype: tf.DType | None


def push_options(optimizer: str, sparse_reduction: Any, transport_dtype: Any) -> PushOptions:
    """Returns how gradients travel and are reduced.

    Raises:
        ValueError: The reduction is not known, or gradients cannot travel in the data type.
    """
    reduction = _check_sparse_reduction(optimizer, sparse_reduction)
    if transport_dtype is None:
        return PushOptions(reduction, None)
    try:
        dtype = tf.as_dtype(transport_dtype)
    except TypeError:
        dtype = None
    if dtype not in _TRANSPORT_DTYPES:
        raise ValueError(
            f"Optimizer '{optimizer}' expects transport_dtype to be one of "
            f"{', '.join(each.name for each in _TRANSPORT_DTYPES)} or None, got "
            f"{transport_dtype!r}."
        )
    return PushOptions(reduction, dtype)


def _check_sparse_reduction(optimizer: str, reduction: Any) -> str:
    """Returns a reduction of sparse gradients that is known.

    Raises:
        ValueError: The reduction is not known.
    """
    if reduction not in _SPARSE_REDUCTIONS:
        raise ValueError(
            f"Optimizer '{optimizer}' expects sparse_reduction to be one of "
            f"{', '.join(_SPARSE_REDUCTIONS)}, got {reduction!r}."
        )
    return reduction


def check_gradients(
    optimizer: str, grads_and_vars: Iterable[GradientAndVariable], global_step: Any
) -> tuple[GradientAndVariable, ...]:
    """Returns the pairs of gradients and variables of a step.

    Raises:
        ValueError: There are no pairs, `global_step` is None, or a gradient is of a type that is
            not known.
        RuntimeError: Eager execution is enabled, or this is called in a ``tf.function``.
    """
    check_is_graph(optimizer)
    pairs = tuple(grads_and_vars)
    if not pairs:
        raise ValueError("Must supply at least one variable")
    if global_step is None:
        raise ValueError("Global step is required to check staleness")
    for gradient, _ in pairs:
        if not isinstance(gradient, tf.Tensor | tf.IndexedSlices | None):
            raise ValueError("Unknown grad type!")
    return pairs


def check_is_graph(optimizer: str) -> None:
    """Raises a RuntimeError unless operations are added to a graph for sessions."""
    if tf.executing_eagerly():
        where = "eager execution is enabled"
    elif is_function(tf.compat.v1.get_default_graph()):
        where = "this is a tf.function, or code that a strategy runs on replicas"
    else:
        return
    raise RuntimeError(
        f"Optimizer '{optimizer}' works in graphs with sessions only, as "
        f"tf.compat.v1.train.SyncReplicasOptimizer does; {where}. Replicas of a strategy make each "
        "update together: there, use the optimizer that it wraps."
    )


def check_num_tokens(num_tokens: int, num_needed: int) -> None:
    """Checks the number of initial tokens.

    Raises:
        ValueError: It is neither -1 nor at least the number that the mirrored class needs.
    """
    if num_tokens != -1 and num_tokens < num_needed:
        raise ValueError(
            "Too few tokens to finish the first step: "
            f"{num_tokens} (given) vs {num_needed} (needed)"
        )
