"""The variables that have no gradient in any micro-batch of an update, which leaves them out."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tf_condacc._micro_batches.checks import Checks, name_of

_LOG = logging.getLogger("tf_condacc")

Positions = frozenset[int]  # The positions of some of the variables of a GradientAccumulator.

_MOST_BRANCHES = 8  # Each branch of a graph has a whole update.
_MOST_SETS = 64
_MOST_NAMES = 4


class KnownAbsences:
    """The sets of variables whose gradients were None together in a micro-batch.

    An optimizer is told in Python which variables it updates, but a graph learns only at run time
    which variables had no gradient. The graph therefore has one branch for each set that is
    possible: those of the micro-batches that are known when it is made, and their intersections.
    If other variables turn out to have no gradient, their gradients are zeros.

    Args:
        checks: The checks of the `GradientAccumulator`, which know its title and its variables.
    """

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._sets: set[Positions] = set()
        self._graphs: set[tuple[Positions, frozenset[Positions]]] = set()
        self._has_warned = self._has_warned_of_workers = False

    def add(self, absent: Positions) -> None:
        """Adds the set of a micro-batch, and logs a warning once if a graph lacks a branch for it.

        Args:
            absent: The positions of the variables whose gradients are None.
        """
        if absent in self._sets or len(self._sets) >= _MOST_SETS:
            return
        self._sets.add(absent)
        for possible, branches in self._graphs:
            if not {absent & branch for branch in (possible, *branches)} <= branches:
                self._warn(absent, "was traced before the gradients of")

    @property
    def sets(self) -> list[Positions]:
        """The known sets."""
        return list(self._sets)

    def branches(self, possible: Positions) -> list[Positions]:
        """Returns the sets that the update of a graph may leave out, the largest ones first.

        The last one is empty. A warning is logged once if there are too many.

        Args:
            possible: The positions of the variables whose gradients may all have been None.
        """
        found = {known & possible for known in self._sets} | {Positions()}
        new = found
        while new and len(found) <= _MOST_BRANCHES:
            new = {one & other for one in new for other in found} - found
            found = found | new
        branches = sorted(found, key=lambda each: (-len(each), sorted(each)))
        if len(branches) > _MOST_BRANCHES:
            self._warn(possible, "has too few branches for all sets of")
            branches = [*branches[: _MOST_BRANCHES - 1], Positions()]
        self._graphs.add((possible, frozenset(branches)))
        return branches

    def warn_of_workers(self) -> None:
        """Logs a warning once that several workers leave out no variables."""
        if not self._has_warned_of_workers:
            self._has_warned_of_workers = True
            _LOG.warning(
                "%s: a gradient is None. Under a strategy with several workers it counts as zeros, "
                "and the variable is updated even if all of its gradients are None, so that "
                "momentum and weight decay go on.",
                self._checks.title,
            )

    def _warn(self, positions: Positions, why: str) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        names = [name_of(self._checks.variables[each]) for each in sorted(positions)]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        _LOG.warning(
            "%s: a function %s the variables %s%s that are None in the same micro-batch. Where all "
            "gradients of some of them are None in an update, it may pass zeros to the optimizer "
            "instead of leaving them out, so that momentum and weight decay go on. Make the "
            "tf.function again, or pass zeros yourself.",
            self._checks.title,
            why,
            ", ".join(names[:_MOST_NAMES]),
            more,
        )


def positions_of(absent: Iterable[bool]) -> Positions:
    """Returns the positions at which an iterable is true."""
    return frozenset(position for position, is_absent in enumerate(absent) if is_absent)
