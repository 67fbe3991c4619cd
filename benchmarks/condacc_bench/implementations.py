"""The accumulators under test, and what their graphs have in common."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
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
    """The classes of accumulators and a short name for them.

    Attributes:
      name: short.
      dense: class of the accumulators of whole gradients.
      sparse: class of the accumulators of rows.
      takes_any_rows: whether ``sparse`` is right where rows do not ascend, or repeat.
      sync_replicas: class of the optimizer for synchronous training with workers.
      sum_gradients: sums a variable's gradients of all towers.
    """

    name: str
    dense: Callable[..., Any]
    sparse: Callable[..., Any]
    takes_any_rows: bool
    sync_replicas: Callable[..., Any]
    sum_gradients: Callable[[Sequence[tf.Tensor], tf.Variable], tf.Tensor] | None = None


def tensorflow(name: str = "tf") -> Implementation:
    """TensorFlow's own; under another name, and against itself, it shows the machine's noise."""
    return Implementation(
        name,
        v1.ConditionalAccumulator,
        v1.SparseConditionalAccumulator,
        False,
        v1.train.SyncReplicasOptimizer,
        lambda gradients, variable: tf.add_n(gradients),
    )


def condacc() -> Implementation:
    """This project's."""
    import tf_condacc
    from tf_condacc.estimator.towers._reduction import sum_gradients

    return Implementation(
        "condacc",
        tf_condacc.ConditionalAccumulator,
        tf_condacc.SparseConditionalAccumulator,
        True,
        tf_condacc.SyncReplicasOptimizer,
        sum_gradients,
    )


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
