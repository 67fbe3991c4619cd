"""A program before and after it is rewritten by ``condacc migrate``."""

from __future__ import annotations

import dataclasses
import textwrap


@dataclasses.dataclass(frozen=True)
class Sample:
    """A program before and after the rewriting. If `after` is None, nothing changes."""

    name: str
    before: str
    after: str | None = None
    estimator: bool = False

    @property
    def expected(self) -> str:
        """The program that the rewriting must return."""
        return self.before if self.after is None else self.after


def sample(name: str, before: str, after: str | None = None, estimator: bool = False) -> Sample:
    after = None if after is None else textwrap.dedent(after)
    return Sample(name, textwrap.dedent(before), after, estimator)
