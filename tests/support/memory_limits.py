"""Limits on the memory that a process of trials may allocate."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

MEGABYTE = 2**20
SPARE_BYTES = 96 * MEGABYTE  # for everything small


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Refuses the process any further address space but a little."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + SPARE_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def accepted_or_exhausted(call: Any) -> bool:
    """Runs the call; False if memory was refused, which must be told so."""
    try:
        call()
    except tf.errors.ResourceExhaustedError:
        return False
    return True
