"""The first difference of two setups that rounding errors do not explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tf_condacc.parity._tolerance import largest, wide

Weights = Sequence[Sequence[np.ndarray]]  # For each step, the values of the variables.
PROPORTIONAL = 0.01  # Updates are proportional if at most this part of them is left over.


@dataclass(frozen=True)
class Difference:
    """The first difference of two setups that exceeds the tolerance.

    Attributes:
        first: Name of one setup.
        second: Name of the other setup; if one of them is the baseline, it is this one.
        step: The first step after which the weights differ. 0 stands for the initial weights.
        variable: The variable that differs most after that step, relative to its tolerance.
        amount: The largest difference of its elements after that step; NaN if one is not finite.
        tolerance: The tolerance of that variable after that step.
        num_elements: Number of its elements that differ by more than the tolerance.
        size: Number of its elements.
        ratio: The update of `first` in that step divided by that of `second`, in the elements that
            differ. None if the updates are not proportional.
        largest: The largest difference of all variables after all steps.
        agreeing: Names of the variables that agree after that step.
        differing: Names of the variables that differ after that step, in their order.
    """

    first: str
    second: str
    step: int
    variable: str
    amount: float
    tolerance: float
    num_elements: int
    size: int
    ratio: float | None
    largest: float
    agreeing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"from step {self.step} on" if self.step else "before the first step"
        text = (
            f"{self.first} and {self.second} differ {where}, most in {self.variable}: by "
            f"{self.amount:.3g}, in {self.num_elements} of {self.size} elements (tolerance "
            f"{self.tolerance:.2g}). "
        )
        return text + self._updates() + self._others()

    def _updates(self) -> str:
        if not self.step:
            return "Their initial weights differ."
        if np.isnan(self.amount):
            return "A weight is not finite."
        if self.ratio is None:
            return (
                "Their updates are not proportional, as when the gradient of one replica is "
                "scaled, dropped or stale, or when examples differ."
            )
        if self.ratio == 0:
            return f"{self.first} does not update these elements."
        if np.isinf(self.ratio):
            return f"{self.second} does not update these elements."
        if abs(self.ratio - 1) < PROPORTIONAL:
            return "Their updates differ by less than 1%."
        return f"The update of {self.first} is {self.ratio:.2f} times that of {self.second}."

    def _others(self) -> str:
        """Returns a sentence about the variables that agree after the step, if there are others."""
        if self.agreeing:
            return f" Variables that agree: {listed(self.agreeing)}."
        return f" All {len(self.differing)} variables differ." if len(self.differing) > 1 else ""


def find(
    names: tuple[str, str],
    variables: Sequence[str],
    weights: tuple[Weights, Weights],
    limits: np.ndarray,
) -> Difference | None:
    """Returns the first difference of two setups that exceeds the tolerance, or None.

    Args:
        names: Names of the setups.
        variables: Names of the variables.
        weights: The weights of both setups before the first and after each step.
        limits: The tolerances, `[1 + steps, variables]`.
    """
    distances = between(*weights)
    exceeds = ~(distances <= limits)  # True for NaN as well.
    steps = np.flatnonzero(exceeds.any(axis=1))
    if not len(steps):
        return None
    step = int(steps[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(exceeds[step], distances[step] / limits[step], 0)
    index = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    one, other = (wide(run[step][index]) for run in weights)
    with np.errstate(invalid="ignore"):
        differs = ~(np.abs(one - other) <= limits[step, index])
    return Difference(
        *names,
        step,
        variables[index],
        float(distances[step, index]),
        float(limits[step, index]),
        int(differs.sum()),
        one.size,
        _ratio(weights, step, index, differs),
        float(np.max(distances)),
        tuple(name for name, each in zip(variables, exceeds[step], strict=True) if not each),
        tuple(name for name, each in zip(variables, exceeds[step], strict=True) if each),
    )


def listed(names: Sequence[str], most: int = 8) -> str:
    """Returns the names, of which the last are only counted if there are many."""
    shown, more = ", ".join(names[:most]), len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


def between(one: Weights, other: Weights) -> np.ndarray:
    """Returns the largest difference of each variable after each step: `[1 + steps, variables]`."""
    return np.array(
        [
            [largest(a, b) for a, b in zip(*values, strict=True)]
            for values in zip(one, other, strict=True)
        ]
    )


def _ratio(
    weights: tuple[Weights, Weights], step: int, index: int, differs: np.ndarray
) -> float | None:
    """Returns the ratio of the updates in a step, or None if they are not proportional."""
    if not step:
        return None
    one, other = (update_of(run, step, index)[differs] for run in weights)
    return ratio_of(one, other)


def update_of(weights: Weights, step: int, index: int) -> np.ndarray:
    """Returns the update of a variable in a step, from 1 on."""
    return wide(weights[step][index]) - wide(weights[step - 1][index])


def ratio_of(one: np.ndarray, other: np.ndarray) -> float | None:
    """Returns the ratio of two updates or gradients, or None if they are not proportional."""
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return None
    if not other.any():
        return float("inf")
    ratio = np.vdot(other, one).real / np.vdot(other, other).real
    left = np.linalg.norm(one - ratio * other)
    return float(ratio) if left <= PROPORTIONAL * np.linalg.norm(one) else None
