"""Tests of refused memory for the small outputs of an op, which must not lose a gradient."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

from tests.accumulators.support.outcomes import ADDED, DUPLICATE
from tests.accumulators.support.stand_ins import needs_stand_ins, stand_ins
from tests.processes.isolated import isolated

pytestmark = [pytest.mark.kinds("sparse"), isolated(stand_ins), needs_stand_ins]
# The bytes of a bool, of a shape of rank 2, and of a shape of the maximum rank.
SIZES = (1, 16, 8 * 254)


@contextlib.contextmanager
def refused(size: int) -> Iterator[None]:
    """Refuses TensorFlow all allocations of exactly this size."""
    library = ctypes.CDLL(None)
    library.refuse_allocations_of(ctypes.c_size_t(size))
    try:
        yield
    finally:
        library.refuse_allocations_of(ctypes.c_size_t(0))


def accepted_or_exhausted(call: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Returns whether the call succeeded; it may fail only with ResourceExhaustedError."""
    try:
        call(*args, **kwargs)
    except tf.errors.ResourceExhaustedError:
        return False
    return True


def _gradient(acc: Any) -> tuple[tf.Tensor, ...]:
    values = tf.ones([3, 2])
    is_sparse = hasattr(acc, "take_indexed_slices_grad")
    return (tf.constant([5, 1, 3]), values) if is_sparse else (values,)


def _accumulators(impl: Any) -> list[Any]:
    return [impl.sparse(tf.float32, [7, 2]), impl.module.ConditionalAccumulator(tf.float32, [3, 2])]


def test_apply_counts_what_it_says(ours):
    failures = 0
    for acc in _accumulators(ours):
        gradient, step = _gradient(acc), tf.constant(0, tf.int64)
        for size in (*SIZES, 4):
            before = int(acc.num_accumulated())
            with refused(size):
                succeeded = accepted_or_exhausted(acc.apply_grad, *gradient, local_step=step)
            failures += not succeeded
            assert int(acc.num_accumulated()) == before + succeeded
    assert failures >= 2, "the output, an int32, was refused to both"


def test_contribution_counts_what_it_says(ours):
    failures = 0
    for acc in _accumulators(ours):
        gradient, step = _gradient(acc), tf.constant(0, tf.int64)
        for contributor, size in enumerate((*SIZES, 4)):
            before = int(acc.num_accumulated())
            number = tf.constant(contributor, tf.int64)
            with refused(size):
                succeeded = accepted_or_exhausted(
                    acc.apply_contribution, *gradient, number, local_step=step
                )
            failures += not succeeded
            assert int(acc.num_accumulated()) == before + succeeded
            again = int(acc.apply_contribution(*gradient, number))
            assert again == (DUPLICATE if succeeded else ADDED)
    assert failures >= 2, "the output, an int32, was refused to both"


def test_reset_without_memory_discards_nothing(ours):
    for acc in _accumulators(ours):
        acc.apply_grad(*_gradient(acc), local_step=tf.constant(0, tf.int64))
        step = tf.constant(7, tf.int64)
        with refused(8):
            assert not accepted_or_exhausted(acc.reset, step)
        assert (int(acc.num_accumulated()), int(acc.global_step())) == (1, 0)
        assert int(acc.reset(step)) == 1
        assert int(acc.global_step()) == 7


def test_take_loses_nothing(ours):
    failures = 0
    for acc in _accumulators(ours):
        gradient, step, count = _gradient(acc), tf.constant(9, tf.int64), tf.constant(1)
        for method in ("take_grad", "try_take_grad"):
            for size in SIZES:
                for _ in range(int(acc.num_accumulated()), 1):
                    acc.apply_grad(*gradient, local_step=step)
                before = int(acc.global_step())
                with refused(size):
                    succeeded = accepted_or_exhausted(getattr(acc, method), count)
                failures += not succeeded
                assert int(acc.num_accumulated()) == (0 if succeeded else 1)
                assert int(acc.global_step()) == before + succeeded
    assert failures >= 2
