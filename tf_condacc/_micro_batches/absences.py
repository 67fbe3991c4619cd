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

    Attributes:
        sets: The known sets.
    """

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self.sets: set[Positions] = set()
        self._graphs: set[tuple[Positions, frozenset[Positions]]] = set()
        self._warned: set[str] = set()

    def add(self, absent: Positions) -> None:
        """Adds the set of a micro-batch, and logs a warning once if a graph lacks a branch for it.

        Args:
            absent: The positions of the variables whose gradients are None.
        """
        if absent in self.sets or len(self.sets) >= _MOST_SETS:
            return
        self.sets.add(absent)
        for possible, branches in self._graphs:
            if not {absent & branch for branch in (possible, *branches)} <= branches:
                self.warn(absent, "in a function that was traced before (make it again)")

    def branches(self, possible: Positions) -> list[Positions]:
        """Returns the sets that the update of a graph may leave out, the largest ones first.

        The last one is empty. A warning is logged once if there are too many.

        Args:
            possible: The positions of the variables whose gradients may all have been None.
        """
        found = {known & possible for known in self.sets} | {Positions()}
        while len(found) <= _MOST_BRANCHES:
            if (more := {one & other for one in found for other in found}) == found:
                break
            found = more
        branches = sorted(found, key=lambda each: (-len(each), sorted(each)))
        if len(branches) > _MOST_BRANCHES:
            self.warn(possible, "in a function, which has no branch for each of so many sets")
            branches = [*branches[: _MOST_BRANCHES - 1], Positions()]
        self._graphs.add((possible, frozenset(branches)))
        return branches

    def warn(self, absent: Positions, where: str) -> None:
        """Logs a warning once that an update may not leave out variables, and where it does not."""
        if where not in self._warned:
            self._warned.add(where)
            names = [name_of(self._checks.variables[each]) for each in sorted(absent)]
            _LOG.warning(
                "%s: the gradients of the variables %s are None. They count as zeros %s. So "
                "momentum and weight decay go on in an update in which all of them are None.",
                self._checks.title,
                ", ".join(names[:_MOST_NAMES] + ["..."] * (len(names) > _MOST_NAMES)),
                where,
            )


def positions_of(absent: Iterable[bool]) -> Positions:
    """Returns the positions at which an iterable is true."""
    return frozenset(position for position, is_absent in enumerate(absent) if is_absent)
