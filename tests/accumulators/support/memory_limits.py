"""Limits on the memory of a process, and checks that must hold under them."""

from __future__ import annotations

import contextlib
import functools
import gc
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tf_condacc
from tests.support.gpus import skip_on_gpu
from tests.support.waiting import Background

MEGABYTE = 2**20
SPARE_BYTES = 96 * MEGABYTE  # For all small allocations.
PAGE_BYTES = 4096


def _pages(field: int) -> int:
    return int(Path("/proc/self/statm").read_text().split()[field])


@functools.cache
def _large_variable() -> tf.Variable:
    """Returns a variable of 384 MB, which is made once because touching new pages takes long."""
    return tf.Variable(tf.zeros([96 * MEGABYTE]))


def _use_of_kept_pages() -> tf.Tensor:
    """Returns a tensor whose memory is all that accumulators have kept of freed results."""
    acc = tf_condacc.ConditionalAccumulator(tf.float32, reduction_type="SUM")
    # The result is a copy, because the variable keeps its memory.
    acc.apply_grad(_large_variable())
    return acc.take_grad(1)


def resident_bytes() -> int:
    skip_on_gpu("gradients are not in the memory of the process")
    return _pages(1) * PAGE_BYTES


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Limits the address space of the process to little more than it has and uses."""
    skip_on_gpu("the limit is not that of the GPU's memory")
    gc.collect()  # Or results of earlier tests would be freed meanwhile.
    limits = resource.getrlimit(resource.RLIMIT_AS)
    in_use = _use_of_kept_pages()
    resource.setrlimit(resource.RLIMIT_AS, (_pages(0) * PAGE_BYTES + SPARE_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        del in_use


def accepted_or_exhausted(call: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Returns whether the call succeeded; it may fail only with ResourceExhaustedError."""
    try:
        call(*args, **kwargs)
    except tf.errors.ResourceExhaustedError:
        return False
    return True


def warm_up(acc: Any, times: int, *small: tf.Tensor) -> Any:
    """Sends small gradients through the accumulator, which is at step 0 afterwards."""
    for _ in range(times):
        acc.apply_grad(*small, local_step=10)
    acc.take_grad(1)
    acc.set_global_step(0)
    return acc


def state(acc: Any) -> tuple[int, int, int]:
    """Returns the number of accumulated gradients, the step, and the number of dropped ones."""
    return int(acc.num_accumulated()), int(acc.global_step()), int(acc.num_dropped())


def assert_all_equal(values: Any, value: float) -> None:
    low, high = np.min(values), np.max(values)
    assert (low, high) == (value, value), (low, high)


def num_accepted_later(acc: Any, gradient: tuple, attempts: int) -> int:
    """Applies one gradient and then others in little memory; returns how many were accepted."""
    acc.apply_grad(*gradient)
    accepted = 1
    with little_memory():
        for _ in range(attempts):
            accepted += accepted_or_exhausted(acc.apply_grad, *gradient)
            assert state(acc) == (accepted, 0, 0)
    return accepted


def take_that_waits(acc: Any, gradient: tuple) -> Any:
    """Returns the result of a take whose second gradient comes when there is little memory.

    A take that fails must leave the gradients where they are; the take that is made next returns
    them.
    """
    acc.apply_grad(*gradient)
    waiting = Background(lambda: acc.take_grad(2))
    waiting.wait_until_blocked()
    with little_memory():
        accepted = accepted_or_exhausted(acc.apply_grad, *gradient)
    if not accepted:
        assert not waiting.done and state(acc) == (1, 0, 0)
        acc.apply_grad(*gradient)
    if isinstance(waiting.error(), tf.errors.ResourceExhaustedError):
        assert state(acc) == (2, 0, 0), "a take that failed must leave the gradients"
        taken = acc.take_grad(2)
    else:
        taken = waiting.result()
    assert state(acc) == (0, 1, 0)
    return taken
