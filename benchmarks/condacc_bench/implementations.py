"""The accumulators under test, and the common parts of their graphs."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

# No accumulator in these graphs has a step as high as this local step.
NEVER_STALE = np.int64(1) << 60

_unique = itertools.count()


@dataclass(frozen=True)
class Implementation:
    """The classes of accumulators and a short name for them.

    Attributes:
      name: Short name.
      dense: Class of the accumulators of dense gradients.
      sparse: Class of the accumulators of sparse gradients.
      takes_any_rows: Whether ``sparse`` is right for rows that are not ascending or repeat.
      sync_replicas: Class of the optimizer for synchronous training with workers.
      sum_gradients: Function that sums a variable's gradients of all towers.
    """

    name: str
    dense: Callable[..., Any]
    sparse: Callable[..., Any]
    takes_any_rows: bool
    sync_replicas: Callable[..., Any]
    sum_gradients: Callable[[Sequence[tf.Tensor], tf.Variable], tf.Tensor] | None = None


def tensorflow(name: str = "tf") -> Implementation:
    """Returns TensorFlow's own classes. Compared with themselves, they show the machine's noise."""
    return Implementation(
        name,
        v1.ConditionalAccumulator,
        v1.SparseConditionalAccumulator,
        False,
        v1.train.SyncReplicasOptimizer,
        lambda gradients, variable: tf.add_n(gradients),
    )


def condacc() -> Implementation:
    """Returns this project's classes."""
    import tf_condacc
    from tf_condacc._towers.reduction import sum_gradients

    return Implementation(
        "condacc",
        tf_condacc.ConditionalAccumulator,
        tf_condacc.SparseConditionalAccumulator,
        True,
        tf_condacc.SyncReplicasOptimizer,
        sum_gradients,
    )


def measured_library(tree: Path) -> str:
    """Returns in words which library of this project is measured.

    Args:
        tree: A source tree, whose commit is named if the library has the same sources.
    """
    import tf_condacc
    from condacc import libraries

    found = libraries.find(tf.__version__)
    assert found is not None
    compiler = tf_condacc.build_info()["compiler"]
    same = libraries.digest_of(libraries.sources_folder()) == libraries.digest_of(tree)
    version = f"{tf_condacc.__version__}{_commit(tree) if same else ''}"
    return f"tf_condacc {version}, {found.file}, compiled by {compiler}"


def _commit(tree: Path) -> str:
    """Returns which commit a source tree is at, in words, if it is a clone."""
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        described = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return f" at commit {described.strip()}"
    return ""


def new_session(graph: tf.Graph) -> v1.Session:
    """Returns a session on the CPU, with the same options for every implementation."""
    config = v1.ConfigProto(device_count={"GPU": 0})
    # The optimizer removes stateless nodes that only control edges lead to. These are, for example,
    # the producers of gradients when they run alone.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return v1.Session(graph=graph, config=config)


def unique_name(stem: str) -> str:
    """Returns a name that no other call has returned."""
    return f"{stem}_{next(_unique)}"


def check_all(values: Any, shape: tuple[int, ...], expected: float) -> None:
    """Raises AssertionError unless the values have this shape and are all as expected."""
    values = np.array(values)
    if values.shape != shape or not np.all(values == expected):
        raise AssertionError(f"expected {expected} everywhere, got {values}")
