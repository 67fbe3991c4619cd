"""The accumulators under test, and what their graphs have in common."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

# A local step that is never behind.
NEVER_STALE = np.int64(1) << 60

_unique = itertools.count()


@dataclass(frozen=True)
class Implementation:
    """A class of accumulators and a short name for it."""

    name: str
    dense: Callable[..., Any]


def tensorflow() -> Implementation:
    """TensorFlow's own."""
    return Implementation("tf", v1.ConditionalAccumulator)


def tensorflow_again() -> Implementation:
    """TensorFlow's own under another name: against itself it shows the noise of the machine."""
    return Implementation("tf again", v1.ConditionalAccumulator)


def condacc() -> Implementation:
    """This project's."""
    import tf_condacc

    return Implementation("condacc", tf_condacc.ConditionalAccumulator)


def new_session(graph: tf.Graph) -> v1.Session:
    """A session on the CPU, with the same options for every implementation."""
    config = v1.ConfigProto(device_count={"GPU": 0})
    # The optimizer drops stateless nodes that only control edges lead to, such as the producers
    # when they run alone.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return v1.Session(graph=graph, config=config)


def unique_name(stem: str) -> str:
    """A name that no other call has returned."""
    return f"{stem}_{next(_unique)}"
