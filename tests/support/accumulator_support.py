"""What tests of accumulators and of other classes share."""

from __future__ import annotations

import itertools
import threading

import pytest
import tensorflow as tf

from tests.support.waiting import PATIENCE_SECS, until_set

v1 = tf.compat.v1

PATIENT = v1.RunOptions(timeout_in_ms=int(1000 * PATIENCE_SECS))
_unique = itertools.count()

# Marks tests that do not depend on the kind of the accumulator.
every_kind = pytest.mark.kinds("dense", "sparse")
# Marks tests that run in modes in which the original sparse accumulator does not work.
needs_resource = pytest.mark.needs_resource


def unique_name(prefix: str = "acc") -> str:
    """Returns a name that no other test in this process uses."""
    return f"{prefix}_{next(_unique)}"


class Announcement:
    """An operation that reports, when it runs, that its step has begun."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.op = v1.py_func(self._event.set, [], [], stateful=True)

    def clear(self) -> None:
        self._event.clear()

    def wait(self) -> None:
        until_set(self._event, "the step begins")
