"""Checks of bad input: a clear error, and an accumulator whose state is unchanged."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

InvalidArgument = tf.errors.InvalidArgumentError
# The kernel, the shape function or the conversion may refuse an argument.
BadArgument = (InvalidArgument, ValueError, TypeError)
# The resource of a handle does not exist, or has been destroyed.
Gone = (tf.errors.NotFoundError, tf.errors.FailedPreconditionError)


@contextlib.contextmanager
def refused(kinds: Any, *patterns: str) -> Iterator[None]:
    """Expects an error of one of `kinds` in whose text every pattern is found.

    No name of a resource stands there twice in a row.
    """
    try:
        yield
    except kinds as error:
        for pattern in patterns:
            assert re.search(pattern, str(error)), f"{pattern!r} is not in: {error}"
        assert not re.search(r"(\([a-z ]+ '[^']*'\)) \1", str(error)), error
        return
    raise AssertionError(f"not refused (expected {kinds})")


@contextlib.contextmanager
def noting(case: Any) -> Iterator[None]:
    """Says in a failure which case of a loop it is about."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"In the case {case}: {error}") from error
