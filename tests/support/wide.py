"""Parameters that `make test` leaves out, and `make test-wide` runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def all_but_wide(cases: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """Returns the cases as parameters, all of which are wide but those that are kept."""
    return [pytest.param(case, marks=[] if case in kept else pytest.mark.wide) for case in cases]
