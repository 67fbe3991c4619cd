"""The report of a comparison of several setups."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from tf_condacc.parity import _difference
from tf_condacc.parity._difference import Difference, Weights
from tf_condacc.parity._hints import Facts, hints


class ParityError(AssertionError):
    """Setups learned different weights. The message of the error is the report.

    Args:
        report: The report.

    Attributes:
        report: The `Report`.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


class Report:
    """The comparison of the weights of several setups after each step.

    The first setup is the baseline. Its weights determine the tolerance, which applies to all
    pairs.

    Args:
        facts: What else is known of the training and the setups, for hints.

    Attributes:
        setups: Names of the setups. The first is the baseline.
        variables: Names of the variables.
        weights: For each setup, the weights before the first and after each step.
        limits: The tolerances, `[1 + steps, variables] float64`.
        differences: The first `Difference` of each pair of setups that differ. Pairs with the
            baseline come first.
        groups: Lists of setups that agree with each other.
        hints: Sentences about what the differences, or their absence, may mean.
        left_out: The setups that were not run, and why.
    """

    def __init__(
        self,
        variables: Sequence[str],
        weights: Mapping[str, Weights],
        limits: np.ndarray,
        facts: Facts | None = None,
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        self.setups, self.variables, self.limits = list(weights), list(variables), limits
        self.weights, self.left_out = dict(weights), dict(left_out or {})
        found = [self._find(pair) for pair in itertools.combinations(self.setups, 2)]
        self.differences = [each for each in found if each is not None]
        self.groups = self._groups()
        self.hints = hints(self, facts or Facts())

    @property
    def num_steps(self) -> int:
        """Number of training steps."""
        return len(self.limits) - 1

    def distances(self, setup: str) -> np.ndarray:
        """Returns the largest difference of each variable from the baseline after each step.

        Returns:
            An array `[1 + steps, variables] float64`.
        """
        return _difference.between(self.weights[setup], self.weights[self.setups[0]])

    def check(self) -> None:
        """Raises an error if setups differ.

        Raises:
            ParityError: Two setups differ by more than the tolerance.
        """
        if self.differences:
            raise ParityError(self)

    def __str__(self) -> str:
        lines = [self._headline()]
        pairs = [each for each in self.differences if self.setups[0] in (each.first, each.second)]
        lines += [f"- {each}" for each in pairs or self.differences]
        if self.differences:
            agreeing = [" = ".join(group) for group in self.groups]
            lines.append("Setups that agree: " + "; ".join(agreeing) + ".")
        lines += self.hints
        lines += [f"Not run: {setup} ({reason})." for setup, reason in self.left_out.items()]
        return "\n".join(lines)

    def _headline(self) -> str:
        steps = f"{self.num_steps} step{'s' if self.num_steps != 1 else ''}"
        if not self.differences:
            return f"{len(self.setups)} setups agree after {steps}: {', '.join(self.setups)}."
        return f"{len(self.setups)} setups do not agree after {steps}:"

    def _find(self, pair: tuple[str, str]) -> Difference | None:
        other, setup = pair  # The baseline comes first. The other setup is compared with it.
        weights = self.weights[setup], self.weights[other]
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
