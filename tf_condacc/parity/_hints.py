"""Sentences about what the differences of setups, or their absence, may mean."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tf_condacc.parity import _difference
from tf_condacc.parity._difference import PROPORTIONAL, Difference, Weights, listed
from tf_condacc.parity._tolerance import largest, wide

if TYPE_CHECKING:
    from tf_condacc.parity._parts import Parts
    from tf_condacc.parity._report import Report

# A fault of this fraction of all updates of a variable must exceed the tolerance.
_RESOLUTION = 0.1


class Division(NamedTuple):
    """How a setup divides a batch.

    Attributes:
        num_replicas: Number of replicas of a strategy.
        num_micro_batches: Number of parts of a replica's part, or None if it is not known.
    """

    num_replicas: int = 1
    num_micro_batches: int | None = None

    @property
    def num_parts(self) -> int:
        """The number of parts, as far as it is known."""
        return self.num_replicas * (self.num_micro_batches or 1)


@dataclass(frozen=True)
class Facts:
    """What is known of a training and its setups, beside the weights.

    Attributes:
        divisions: How the setups that divide batches do so.
        reduction: "mean" or "sum": how the loss is said to be reduced over examples.
        clipping: The settings by which the optimizer clips gradients, and their limits.
        sparse: Names of the variables with sparse gradients.
        unsummed: The weights of the baseline whose optimizer gets repeated rows, if it was run.
        examine: Function of a step and numbers of parts that computes the gradients of parts.
        imitations: Function of a number of micro-batches and weights that yields what may be wrong
            in a loop, and the weights that it would have then.
    """

    divisions: Mapping[str, Division] = field(default_factory=dict)
    reduction: str = "mean"
    clipping: Mapping[str, float] = field(default_factory=dict)
    sparse: Sequence[str] = ()
    unsummed: Weights | None = None
    examine: Callable[[int, Collection[int]], Parts] | None = None
    imitations: Callable[[int, Weights], Iterable[tuple[str, Weights]]] | None = None


def hints(report: Report, facts: Facts) -> list[str]:
    """Returns sentences about what the differences, or their absence, may mean."""
    found = [*_diverging(report)]
    baseline, *others = report.setups
    if any(s not in report.groups[0] for s in others if s not in facts.divisions):
        found.append(
            "Setups that take the batch as a whole differ. The training uses random numbers, "
            "depends on the order of the examples or amplifies rounding errors, as Adam does, "
            "so that other differences mean little. Remove that for the comparison, or pass a "
            "tolerance."
        )
    else:
        left = {each.first: each for each in report.differences if each.second == baseline}
        found += _rows(report, facts, left)
        found += _divided(report, facts, left)
    return found + [*_coarse(report)]


def _diverging(report: Report) -> Iterator[str]:
    baseline = report.setups[0]
    for step, values in enumerate(report.weights[baseline]):
        if not all(np.isfinite(wide(value)).all() for value in values):
            yield f"{baseline} diverges: its weights are not finite at step {step}."
            return


def _rows(report: Report, facts: Facts, left: dict[str, Difference]) -> Iterator[str]:
    """Yields sentences about repeated rows, and removes the differences that these explain."""
    if facts.unsummed is None:
        return
    baseline = report.setups[0]

    def difference(weights: Weights, other: Weights) -> Difference | None:
        return _difference.find(("", ""), report.variables, (weights, other), report.limits)

    found = difference(facts.unsummed, report.weights[baseline])
    if found is None:
        return
    yield (
        f"Rows are repeated in the sparse gradients of {listed(facts.sparse)}. If they are not "
        f"summed first, the optimizer computes other weights ({found.variable} differs by "
        f"{found.amount:.3g} after step {found.step}), as optimizers of Keras do. The setups of "
        "this package sum them."
    )
    same = [s for s in left if difference(report.weights[s], facts.unsummed) is None]
    for setup in same:
        del left[setup]
    if same:
        yield (
            f"{', '.join(same)}: the weights are those of a big batch whose repeated rows are not "
            "summed. Nothing else is wrong. A GradientAccumulator sums them."
        )


def _divided(report: Report, facts: Facts, left: dict[str, Difference]) -> Iterator[str]:
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
    for each in differing:
        division = facts.divisions[each.first]
        clips = facts.clipping and division.num_replicas > 1 and (parts is None or parts.clips)
        cause = _imitated(report, each, division, facts) if kind == facts.reduction else None
        if cause is not None:
            yield f"{each.first}: {cause}. Weights that were computed with this fault are the same."
        elif clips:
            yield _clipped(each, division, facts)
        elif kind == facts.reduction or not _explained(each.ratio, division, kind):
            yield from _scaled(report, each, division, facts)


def _imitated(
    report: Report, difference: Difference, division: Division, facts: Facts
) -> str | None:
    """Returns what is wrong in a loop if weights that are computed with this fault are the same."""
    if facts.imitations is None or division.num_replicas > 1 or division.num_micro_batches == 1:
        return None
    weights = report.weights[difference.first]
    for cause, imitated in facts.imitations(division.num_micro_batches or 2, weights):
        pair = (weights, imitated)
        if _difference.find(("", ""), report.variables, pair, report.limits) is None:
            return cause
    return None


def _reduction_of(parts: Parts) -> str | None:
    """Returns "mean" or "sum", or None if the loss is neither."""
    if all(_is(ratio, 1) for ratio in parts.ratios.values()):
        return "mean"
    if all(_is(ratio, 1 / number) for number, ratio in parts.ratios.items()):
        return "sum"
    return None


def _explained(ratio: float | None, division: Division, kind: str | None) -> bool:
    """Returns whether the reduction of the loss explains the ratio of the updates."""
    if not ratio or kind is None:
        return True
    number = 1 / ratio if kind == "sum" else ratio
    if division.num_micro_batches is None:  # It may be any number.
        return _is(number, max(round(number / division.num_replicas), 1) * division.num_replicas)
    return _is(number, division.num_parts)


def _clipped(difference: Difference, division: Division, facts: Facts) -> str:
    how = ", ".join(f"{name}={limit:g}" for name, limit in facts.clipping.items())
    text = (
        f"{difference.first}: the optimizer clips gradients ({how}). Under a strategy, optimizers "
        "of Keras clip the part of each replica and add the clipped parts, which are not the "
        "clipped gradient of the batch."
    )
    if _is(difference.ratio, division.num_replicas):
        text += (
            f" A loss that is not divided by the number of replicas, {division.num_replicas}, "
            "has the same effect; a comparison without clipping tells them apart."
        )
    return text


def _scaled(
    report: Report, difference: Difference, division: Division, facts: Facts
) -> Iterator[str]:
    """Yields a sentence about an update that is wrong by a number of replicas or micro-batches."""
    ratio, setup = difference.ratio, difference.first
    if ratio is None or ratio <= 0 or not np.isfinite(ratio):
        return
    if not _holds_for(report, difference, difference.variable):
        if difference.variable in facts.sparse and ratio > 1:
            yield (
                f"{setup}: only some rows of {difference.variable} have this ratio, as when each "
                "row of a sparse gradient is divided by the number of gradients that contain it "
                '(reduction_type="MEAN" of sparse accumulators).'
            )
        return
    everywhere = all(_holds_for(report, difference, name) for name in report.variables)
    causes = [*_causes(ratio, division, facts.reduction, everywhere)]
    if causes:
        yield f"{setup}: the ratio is {_fraction(ratio)}. Probably {', or '.join(causes)}."


def _causes(ratio: float, division: Division, reduction: str, everywhere: bool) -> Iterator[str]:
    """Yields what may cause the ratio of all updates of a variable.

    A wrong loss has the same effect `everywhere`, that is, on all variables.
    """
    replicas, micro_batches = division
    too_large = (
        "the loss is not divided by the number of replicas, {} "
        "(Training(divided_by_replicas=True) is right only for a loss that divides by it)"
    )
    too_small = (
        "the loss is divided by the number of replicas, {}, twice (losses of keras.losses divide "
        "by it: pass Training(divided_by_replicas=True), or remove a division)"
    )
    if reduction == "sum":
        too_large = "the gradients of the {} replicas are added more than once"
        too_small = "the loss, a sum, is divided by the number of replicas, {}"
    summed = "the gradients of {} micro-batches are summed, not averaged"
    divided = "the gradients of {} micro-batches are divided by their number twice"
    if reduction == "sum":
        summed = "the gradients of {} micro-batches are added more than once"
        divided = "the gradients of {} micro-batches are averaged, not summed"
    own: list[tuple[float, str]] = []
    if replicas > 1 and everywhere:
        own += [(replicas, too_large.format(replicas)), (1 / replicas, too_small.format(replicas))]
    number = micro_batches
    if number is None:  # It may be any number.
        number = max(round(ratio), round(1 / ratio))
        told = f", if that is their number (give it as Run(num_micro_batches={number}))"
        summed, divided = summed + told, divided + told
    others = [(number, summed.format(number)), (1 / number, divided.format(number))]
    own += others if number > 1 else []
    single = [cause for value, cause in own if _is(ratio, value)]
    yield from single
    if single or not everywhere or micro_batches in (None, 1):
        return
    for (one, first), (other, second) in itertools.product(own[:2], own[2:]):
        if _is(ratio, one * other):
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
