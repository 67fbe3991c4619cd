"""The variables that have no gradient in any micro-batch of an update, which leaves them out."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tf_condacc._micro_batches.checks import Checks, name_of

_LOG = logging.getLogger("tf_condacc")

Positions = frozenset[int]  # The positions of some of the variables of a GradientAccumulator.

# The update of a graph is built once for each set of variables that it may leave out.
_MOST_SETS = 16


class KnownAbsences:
    """The sets of variables whose gradients were None together in a micro-batch.

    An optimizer must be told in Python which variables it updates. In a graph it is known only
    when the graph runs for which of them all gradients were None, so the graph has a branch for
    each set that there may be: those of the known micro-batches and their intersections.

    Args:
        checks: The checks of the `GradientAccumulator`, which know its title and its variables.
    """

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._sets: set[Positions] = {frozenset()}  # Each intersection of two of them, too.
        self._in_graphs: list[tuple[Positions, set[Positions]]] = []
        self._has_warned = False

    def add(self, absent: Positions) -> None:
        """Adds the set of a micro-batch, and logs a warning once if a graph lacks a branch for it.

        Args:
            absent: The positions of the variables whose gradients are None.
        """
        if absent in self._sets:
            return
        self._sets |= {absent & known for known in self._sets} | {absent}
        for possible, branches in self._in_graphs:
            if not self._has_warned and not self._within(possible) <= branches:
                self._has_warned = True
                names = [name_of(self._checks.variables[position]) for position in absent]
                _LOG.warning(
                    "%s: the variables %s are the first to have the gradient None together after a "
                    "function that makes updates was traced. Where that function should leave out "
                    "only some of those whose gradients it does not have, it takes zeros for their "
                    "gradients, so that their momentum and weight decay go on. Trace it again, or "
                    "give zeros instead of None.",
                    self._checks.title,
                    names,
                )

    def branches(self, possible: Positions) -> list[Positions]:
        """Returns the sets that the update of a graph may leave out, the largest ones first.

        Args:
            possible: The positions of the variables whose gradients may all have been None.
        """
        largest_first = sorted(self._within(possible), key=len, reverse=True)
        branches = [*largest_first[: _MOST_SETS - 1], frozenset[int]()]
        branches = branches if len(largest_first) >= _MOST_SETS else largest_first
        self._in_graphs.append((possible, set(branches)))
        return branches

    def _within(self, possible: Positions) -> set[Positions]:
        return {known & possible for known in self._sets}


def positions_of(absent: Iterable[bool]) -> Positions:
    """Returns the positions at which an iterable is true."""
    return frozenset(position for position, is_absent in enumerate(absent) if is_absent)
