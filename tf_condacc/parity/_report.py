"""The report of a comparison of several setups."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from tf_condacc.parity import _difference
from tf_condacc.parity._difference import PROPORTIONAL, Difference, Weights
from tf_condacc.parity._tolerance import largest, wide

# A fault of this part of all updates of a variable must exceed the tolerance.
_RESOLUTION = 0.1


class ParityError(AssertionError):
    """Setups learned different weights. The message of the error is the report.

    Args:
        report: The report.
        note: A line below it.

    Attributes:
        report: The `Report`.
    """

    def __init__(self, report: Report, note: str = "") -> None:
        super().__init__(f"{report}\n{note}".rstrip())
        self.report = report


class Report:
    """The comparison of the weights of several setups after each step.

    The first setup is the baseline. Its weights determine the tolerance, which applies to all
    pairs.

    Args:
        variables: Names of the variables.
        weights: For each setup, the weights before the first and after each step.
        limits: The tolerances, `[1 + steps, variables]`.
        dividing: The setups that compute the gradients of parts of a batch.
        left_out: The setups that were not run, and why.
        num_replicas: For each setup under a strategy, its number of replicas.

    Attributes:
        setups: Names of the setups. The first is the baseline.
        variables: Names of the variables.
        limits: The tolerances, `[1 + steps, variables] float64`.
        differences: The first `Difference` of each pair of setups that differ. Pairs with the
            baseline come first.
        groups: Lists of setups that agree with each other.
        left_out: The setups that were not run, and why.
    """

    def __init__(
        self,
        variables: Sequence[str],
        weights: Mapping[str, Weights],
        limits: np.ndarray,
        dividing: Collection[str] = (),
        left_out: Mapping[str, str] | None = None,
        num_replicas: Mapping[str, int] | None = None,
    ) -> None:
        self.setups, self.variables, self.limits = list(weights), list(variables), limits
        self.left_out, self._dividing = dict(left_out or {}), set(dividing)
        self._weights, self._num_replicas = dict(weights), dict(num_replicas or {})
        found = [self._find(pair) for pair in itertools.combinations(self.setups, 2)]
        self.differences = [each for each in found if each is not None]
        self.groups = self._groups()

    @property
    def num_steps(self) -> int:
        """Number of training steps."""
        return len(self.limits) - 1

    def distances(self, setup: str) -> np.ndarray:
        """Returns the largest difference of each variable from the baseline after each step.

        Returns:
            An array `[1 + steps, variables] float64`.
        """
        return _difference.between(self._weights[setup], self._weights[self.setups[0]])

    def check(self) -> None:
        """Raises an error if setups differ.

        Raises:
            ParityError: Two setups differ by more than the tolerance.
        """
        if self.differences:
            raise ParityError(self)

    def save_picture(self, path: str | Path) -> Path:
        """Draws the differences from the baseline over the steps, and returns the path.

        Raises:
            ImportError: matplotlib is not installed.
        """
        from tf_condacc.parity import _picture

        return _picture.save(self, Path(path))

    def __str__(self) -> str:
        lines = [self._headline()]
        pairs = [each for each in self.differences if self.setups[0] in (each.first, each.second)]
        lines += [f"- {each}" for each in pairs or self.differences]
        if self.differences:
            agreeing = [" = ".join(group) for group in self.groups]
            lines.append("Setups that agree: " + "; ".join(agreeing) + ".")
        lines += self._hints()
        lines += [f"Not run: {setup} ({reason})." for setup, reason in self.left_out.items()]
        return "\n".join(lines)

    def _headline(self) -> str:
        steps = f"{self.num_steps} step{'s' if self.num_steps != 1 else ''}"
        if not self.differences:
            return f"{len(self.setups)} setups agree after {steps}: {', '.join(self.setups)}."
        return f"{len(self.setups)} setups do not agree after {steps}:"

    def _find(self, pair: tuple[str, str]) -> Difference | None:
        other, setup = pair  # The baseline, which comes first, is what the other is compared with.
        weights = self._weights[setup], self._weights[other]
        return _difference.find((setup, other), self.variables, weights, self.limits)

    def _groups(self) -> list[list[str]]:
        differing = {frozenset((each.first, each.second)) for each in self.differences}
        groups: list[list[str]] = []
        for setup in self.setups:
            for group in groups:
                if not any(frozenset((setup, other)) in differing for other in group):
                    group.append(setup)
                    break
            else:
                groups.append([setup])
        return groups

    def _hints(self) -> list[str]:
        """Returns sentences about what the differences, or their absence, may mean."""
        hints = []
        for step, values in enumerate(self._weights[self.setups[0]]):
            if not all(np.isfinite(wide(value)).all() for value in values):
                hints.append(
                    f"{self.setups[0]} diverges: its weights are not finite at step {step}."
                )
                break
        whole = [setup for setup in self.setups if setup not in self._dividing]
        if any(setup not in self.groups[0] for setup in whole if setup != self.setups[0]):
            hints.append(
                "Setups that take the batch as a whole differ. The training uses random numbers, "
                "depends on the order of the examples or amplifies rounding errors, as Adam does, "
                "so that other differences mean little. Remove that for the comparison, or pass a "
                "tolerance."
            )
        elif len(self._dividing) > 1 and [set(g) for g in self.groups] == [
            set(whole),
            self._dividing,
        ]:
            hints.append(
                "All setups that divide the batch agree with each other. The loss of a part seems "
                "to depend on its other examples, as with batch statistics, or it is not reduced "
                "as Training(reduction=…) says."
            )
        return hints + self._scaled() + self._coarse()

    def _scaled(self) -> list[str]:
        """Returns sentences about setups whose updates are wrong by their number of replicas."""
        found = []
        for each in self.differences:
            number = self._num_replicas.get(each.first, 1)
            if each.second != self.setups[0] or number == 1 or not each.ratio:
                continue
            if abs(each.ratio * number - 1) < PROPORTIONAL:
                found.append(
                    f"{each.first}: the ratio is 1/{number}, and there are {number} replicas. The "
                    "loss is probably divided by their number twice. Losses of keras.losses divide "
                    "by it, for which Training has divided_by_replicas=True; remove a division in "
                    "`loss`, or in a training loop of your own."
                )
            elif abs(each.ratio / number - 1) < PROPORTIONAL:
                found.append(
                    f"{each.first}: the ratio is the number of replicas, {number}. The loss is "
                    "probably not divided by it. Training(divided_by_replicas=True) is right only "
                    "for a loss that divides by it."
                )
        return found

    def _coarse(self) -> list[str]:
        """Returns sentences about variables whose tolerance is not small against their updates."""
        weights = self._weights[self.setups[0]]
        found = []
        for index, name in enumerate(self.variables):
            values = [step[index] for step in weights]
            moved = sum(largest(a, b) for a, b in itertools.pairwise(values))
            limit = float(self.limits[-1, index])
            if 0 < _RESOLUTION * moved < limit:
                found.append(
                    f"The updates of {name} are {moved:.2g} in all, and its tolerance is "
                    f"{limit:.2g}: smaller faults cannot be seen."
                )
        return found
