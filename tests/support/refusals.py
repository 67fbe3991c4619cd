"""Checks of bad input: a clear error, and an accumulator whose state is unchanged."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
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


def with_gradients(count: int, driver: Any, impl: Any, **kwargs: Any) -> Any:
    """Returns an accumulator of float32 that has `count` gradients [4, 8] of step 0."""
    acc = driver(impl, tf.float32, [2], **kwargs)
    for _ in range(count):
        acc.apply([4.0, 8.0])
    return acc


def assert_unharmed(acc: Any, count: int = 1) -> None:
    """Asserts that the accumulator still has `count` gradients [4, 8] of step 0, and works."""
    assert (acc.count(), acc.step(), acc.dropped()) == (count, 0, 0)
    acc.apply([4.0, 8.0])
    np.testing.assert_array_equal(acc.take(count + 1), [4.0, 8.0])
