"""Whose accumulators a program trains with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

v1 = tf.compat.v1

AccumulatorClass = Callable[..., v1.ConditionalAccumulatorBase]


@dataclass(frozen=True)
class Backend:
    """The two accumulator classes, and how to call them in what is shown."""

    title: str
    dense: AccumulatorClass
    sparse: AccumulatorClass


def condacc() -> Backend:
    """This project's."""
    import tf_condacc

    return Backend(
        f"tf_condacc {tf_condacc.__version__}",
        tf_condacc.ConditionalAccumulator,
        tf_condacc.SparseConditionalAccumulator,
    )


def tensorflow() -> Backend:
    """TensorFlow's own."""
    return Backend(
        f"TensorFlow {tf.__version__}", v1.ConditionalAccumulator, v1.SparseConditionalAccumulator
    )


def named(name: str) -> Backend:
    """The one that the option ``--backend`` calls by this name."""
    return {"condacc": condacc, "tf": tensorflow}[name]()
