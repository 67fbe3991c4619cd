"""The memory that the plugin holds, by its own count."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.eager import context

from tf_condacc._ops.native import ops

MEGABYTE = 2**20


class Memory(NamedTuple):
    """The bytes that the plugin holds in this process.

    Attributes:
        held: What gradients and sums take, and large results until they are freed. A tensor counts
            once for each reference to it.
        peak: The most that was held since the last call of `memory`.
        pooled: What free pages take that are kept for the next large results.
    """

    held: int
    peak: int
    pooled: int


def memory() -> Memory:
    with context.eager_mode(), tf.device("CPU:0"):
        return Memory(*map(int, ops.condacc_held_bytes()))
