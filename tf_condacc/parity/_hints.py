"""Sentences about what the differences of setups, or their absence, may mean."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tf_condacc.parity import _difference
from tf_condacc.parity._difference import PROPORTIONAL, Difference, Weights, listed
from tf_condacc.parity._tolerance import largest, wide

if TYPE_CHECKING:
    from tf_condacc.parity._parts import Parts
    from tf_condacc.parity._report import Report
    from tf_condacc.parity._setup import Run

# A fault of this fraction of all updates of a variable must exceed the tolerance.
_RESOLUTION = 0.1


@dataclass(frozen=True)
class Facts:
    """What is known of a training and its setups, beside the weights.

    Attributes:
        divisions: The runs of the setups that divide batches.
        reduction: "mean" or "sum": how the loss is said to be reduced over examples.
        is_of_v1: Whether the optimizer is one of ``tf.compat.v1.train``.
        has_two_optimizers: Whether towers and synchronous replicas have an optimizer of their own.
        clipping: The settings by which the optimizer clips gradients, and their limits.
        sparse: Names of the variables with sparse gradients.
        unsummed: The weights of the baseline whose optimizer gets repeated rows, if it was run.
        examine: Function of a step and numbers of parts that computes the gradients of parts.
        remarks: What was observed beside the weights: in each setup, and in the optimizer ("").
    """

    divisions: Mapping[str, Run] = field(default_factory=dict)
    reduction: str = "mean"
    is_of_v1: bool = False
    has_two_optimizers: bool = False
    clipping: Mapping[str, float] = field(default_factory=dict)
    sparse: Sequence[str] = ()
    unsummed: Weights | None = None
    examine: Callable[[int, Collection[int]], Parts] | None = None
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict)


def hints(report: Report, facts: Facts) -> list[str]:
    """Returns sentences about what the differences, or their absence, may mean."""
    found = [*_diverging(report)]
    for setup, remarks in facts.remarks.items():
        found += [f"{setup}: {remark}" if setup else remark for remark in remarks]
    baseline, *others = report.setups
    left = {each.first: each for each in report.differences if each.second == baseline}
    rows = _difference_of_rows(report, facts)
    found += _rows(report, facts, rows, left)
    whole = [left[s] for s in others if s in left and s not in facts.divisions]
    if all(_is_of_rows(each, facts, rows) for each in whole):
        found += _divided(report, facts, left, rows)
    else:
        found.append(
            "Setups that take the batch as a whole differ. The training uses random numbers, "
            "depends on the order of the examples or amplifies rounding errors, as Adam does, "
            "so that other differences mean little. Remove that for the comparison, or pass a "
            "tolerance."
        )
    return found + [*_coarse(report)]


def _diverging(report: Report) -> Iterator[str]:
    baseline = report.setups[0]
    for step, values in enumerate(report.weights[baseline]):
        if not all(np.isfinite(wide(value)).all() for value in values):
            yield f"{baseline} diverges: its weights are not finite at step {step}."
            return


def _difference_of_rows(report: Report, facts: Facts) -> Difference | None:
    """Returns how the baseline differs if its optimizer gets repeated rows, or None."""
    if facts.unsummed is None:
        return None
    pair = facts.unsummed, report.weights[report.setups[0]]
    return _difference.find(("", ""), report.variables, pair, report.limits)


def _is_of_rows(difference: Difference, facts: Facts, rows: Difference | None) -> bool:
    """Returns whether a difference may be due to repeated rows."""
    return rows is not None and set(difference.differing) <= set(facts.sparse)


def _rows(
    report: Report, facts: Facts, rows: Difference | None, left: dict[str, Difference]
) -> Iterator[str]:
    """Yields sentences about repeated rows, and removes the differences that these explain."""
    if rows is None or facts.unsummed is None:
        return
    if facts.is_of_v1:
        who = "Optimizers of tf.compat.v1.train sum them, so this one loses or alters rows."
    else:
        who = "Optimizers of Keras do so, and the setups of this package sum the rows for them."
    yield (
        f"Rows are repeated in the sparse gradients of {listed(facts.sparse)}. If they are not "
        f"summed first, the optimizer computes other weights ({rows.variable} differs by "
        f"{rows.amount:.3g} after step {rows.step}). {who}"
    )
    same = [
        setup
        for setup in left
        if not _difference.find(
            ("", ""), report.variables, (report.weights[setup], facts.unsummed), report.limits
        )
    ]
    for setup in same:
        del left[setup]
    if same:
        yield (
            f"{', '.join(same)}: the weights are those of a big batch whose repeated rows are not "
            "summed. Nothing else is wrong. A GradientAccumulator sums them."
        )


def _divided(
    report: Report, facts: Facts, left: dict[str, Difference], rows: Difference | None
) -> Iterator[str]:
    """Yields sentences about setups that divide batches and differ from the baseline."""
    differing = [each for each in left.values() if each.first in facts.divisions and each.step > 0]
    if not differing:
        return
    parts: Parts | None = None
    kind: str | None = facts.reduction
    if facts.examine is not None:
        step = min(each.step for each in differing)
        numbers = {facts.divisions[each.first].num_parts for each in differing}
        parts = facts.examine(step, numbers)
        kind = _reduction_of(parts) if parts.ratios else kind
    if kind is None:
        yield (
            "The loss of a part of a batch depends on its other examples, as with batch "
            "statistics, or on random numbers: with equal weights, the gradients of parts do not "
            "add up to that of the batch. So no setup that divides a batch can agree with "
            f"{report.setups[0]}: {', '.join(each.first for each in differing)}. Those with parts "
            "of one size should agree with each other."
        )
    elif kind != facts.reduction:
        yield (
            f"The loss is a {kind} over examples, and not a {facts.reduction}, as its gradients "
            f'of parts of a batch show. Pass Training(reduction="{kind}"), or return a '
            f"{facts.reduction}."
        )
    found: dict[str, list[str]] = {}
    for each in differing:
        division = facts.divisions[each.first]
        clips = division.num_replicas > 1 and (parts is None or parts.clips)
        if kind == facts.reduction or (each.ratio and not _explained(each.ratio, division, kind)):
            more = _causes_of_clipping(facts) if clips else []
            names = [other.first for other in differing]
            if text := _observed(report, each, facts, rows, names, more):
                found.setdefault(text, []).append(each.first)
    for text, setups in found.items():
        yield f"{', '.join(setups)}: {text}"


def _observed(
    report: Report,
    difference: Difference,
    facts: Facts,
    rows: Difference | None,
    differing: Sequence[str],
    causes: list[str],
) -> str:
    """Returns what was observed of a setup, and at most three causes, or "" if none fits."""
    ratio, setup, division = difference.ratio, difference.first, facts.divisions[difference.first]
    is_scaled = ratio is not None and 0 < ratio < np.inf and not _is(ratio, 1)
    text = ""
    if is_scaled and ratio is not None:
        text = f"the ratio is {_fraction(ratio)}. "
        if _holds_for(report, difference, difference.variable):
            everywhere = all(_holds_for(report, difference, name) for name in report.variables)
            causes += _causes_of_scale(ratio, division, facts, everywhere)
        elif difference.variable in facts.sparse and ratio > 1:
            return (
                f"only some rows of {difference.variable} have this ratio, as when each "
                "row of a sparse gradient is divided by the number of gradients that contain it "
                '(reduction_type="MEAN" of sparse accumulators).'
            )
    in_sessions = {name for name, run in facts.divisions.items() if run.is_in_session}
    if set(differing) == in_sessions < set(facts.divisions):
        if facts.has_two_optimizers:
            causes.append("the optimizers of `optimizer` and `v1_optimizer` are not equivalent")
        causes.append(
            "an operation of the optimizer lacks a control dependency: sessions run only what the "
            "train operation depends on"
        )
    if not causes and _is_of_rows(difference, facts, rows):
        causes.append("the optimizer loses or alters rows that are repeated in a gradient")
    if not causes and division.num_replicas > 1 and not (ratio and _is(ratio, 1)):
        causes += _causes_of_replicas(setup, facts, differing)
    return f"{text}Probably {', or '.join(causes[:3])}." if causes else ""


def _causes_of_clipping(facts: Facts) -> list[str]:
    how = ", ".join(f"{name}={limit:g}" for name, limit in facts.clipping.items())
    text = (
        f"the optimizer clips the gradient of each replica ({how}), as those of Keras do under a "
        "strategy, and adds them up"
    )
    return [text] if facts.clipping else []


def _causes_of_replicas(setup: str, facts: Facts, differing: Sequence[str]) -> list[str]:
    """Returns what may be wrong if only setups with several replicas differ."""
    if facts.remarks.get(setup):
        return ["the state of the optimizer is not mirrored"]
    if any(facts.divisions[each].num_replicas == 1 for each in differing):
        return []
    return [
        "the optimizer uses the gradient or the state of one replica where it needs that of all, "
        "as for a norm (all_reduce it first)",
        "the loss depends on the replica",
        "the gradient of a replica is dropped or stale",
    ]


def _reduction_of(parts: Parts) -> str | None:
    """Returns "mean" or "sum", or None if the loss is neither."""
    if all(_is(ratio, 1) for ratio in parts.ratios.values()):
        return "mean"
    if all(_is(ratio, 1 / number) for number, ratio in parts.ratios.items()):
        return "sum"
    return None


def _explained(ratio: float, division: Run, kind: str | None) -> bool:
    """Returns whether the reduction of the loss explains the ratio of the updates."""
    if kind is None:
        return True
    number = 1 / ratio if kind == "sum" else ratio
    if division.num_micro_batches is None:  # It may be any number.
        return _is(number, max(round(number / division.num_replicas), 1) * division.num_replicas)
    return _is(number, division.num_parts)


def _causes_of_scale(ratio: float, division: Run, facts: Facts, everywhere: bool) -> Iterator[str]:
    """Yields what may cause the ratio of all updates of a variable.

    A wrong loss has the same effect `everywhere`, that is, on all variables.
    """
    replicas, micro_batches = division.num_replicas, division.num_micro_batches
    too_large = (
        "the loss is not divided by the number of replicas, {} "
        "(Training(divided_by_replicas=True) is right only for a loss that divides by it)"
    )
    too_small = (
        "the loss is divided by the number of replicas, {}, twice (losses of keras.losses divide "
        "by it: pass Training(divided_by_replicas=True), or remove a division)"
    )
    multiplied = "the optimizer sums over the replicas what is a mean, or multiplies by {}"
    averaged = "the optimizer averages over the replicas, or divides by {}, what it must sum"
    if facts.reduction == "sum":
        too_large = "the gradients of the {} replicas are added more than once"
        too_small = "the loss, a sum, is divided by the number of replicas, {}"
    summed = "the gradients of {} micro-batches are summed, not averaged"
    divided = "the gradients of {} micro-batches are divided by their number twice"
    if facts.reduction == "sum":
        summed = "the gradients of {} micro-batches are added more than once"
        divided = "the gradients of {} micro-batches are averaged, not summed"
    of_replicas: list[tuple[float, str]] = []
    if replicas > 1 and everywhere:
        of_replicas += [(replicas, too_large), (1 / replicas, too_small)]
        of_replicas += [(replicas, multiplied), (1 / replicas, averaged)]
    of_replicas = [(value, cause.format(replicas)) for value, cause in of_replicas]
    number = micro_batches
    if number is None:  # It may be any number.
        number = max(round(ratio), round(1 / ratio))
        told = f", if that is their number (give it as Run(num_micro_batches={number}))"
        summed, divided = summed + told, divided + told
    of_parts = [(number, summed.format(number)), (1 / number, divided.format(number))]
    of_parts = of_parts if number > 1 else []
    single = [cause for value, cause in of_replicas + of_parts if _is(ratio, value)]
    yield from single
    if single or not everywhere or micro_batches in (None, 1):
        return
    for (one, first), (other, second) in itertools.product(of_replicas[:2], of_parts):
        if _is(ratio, one * other) and (one > 1) == (other > 1):
            yield f"{first}, and {second}"


def _holds_for(report: Report, difference: Difference, variable: str) -> bool:
    """Returns whether a variable as a whole has the ratio of a difference, or hardly moves."""
    index, step = report.variables.index(variable), difference.step
    one, other = (
        _difference.update_of(report.weights[setup], step, index)
        for setup in (difference.first, difference.second)
    )
    if max(largest(one, 0 * one), largest(other, 0 * other)) <= report.limits[step, index]:
        return True
    ratio = _difference.ratio_of(one, other)
    return ratio is not None and difference.ratio is not None and _is(ratio, difference.ratio)


def _is(ratio: float | None, value: float) -> bool:
    return ratio is not None and abs(ratio / value - 1) < PROPORTIONAL


def _fraction(ratio: float) -> str:
    """Returns the ratio as text: an integer, 1 over an integer, or a decimal number."""
    if _is(ratio, round(ratio) or 1):
        return f"{round(ratio)}"
    return f"1/{round(1 / ratio)}" if _is(1 / ratio, round(1 / ratio) or 1) else f"{ratio:.2f}"


def _coarse(report: Report) -> Iterator[str]:
    """Yields sentences about variables whose tolerance is not small compared to their updates."""
    weights = report.weights[report.setups[0]]
    for index, name in enumerate(report.variables):
        values = [step[index] for step in weights]
        moved = sum(largest(a, b) for a, b in itertools.pairwise(values))
        limit = float(report.limits[-1, index])
        if 0 < _RESOLUTION * moved < limit:
            yield (
                f"The updates of {name} are {moved:.2g} in all, and its tolerance is "
                f"{limit:.2g}: smaller faults cannot be seen."
            )
