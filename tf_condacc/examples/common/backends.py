"""The accumulator classes that a program can train with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.compat import v1

AccumulatorClass = Callable[..., v1.ConditionalAccumulatorBase]


@dataclass(frozen=True)
class Backend:
    """The accumulator classes of one library.

    Attributes:
        title: Name of the library in the output.
        dense: Class of dense accumulators.
        sparse: Class of sparse accumulators.
    """

    title: str
    dense: AccumulatorClass
    sparse: AccumulatorClass


def condacc() -> Backend:
    """Returns the accumulator classes of tf_condacc."""
    import tf_condacc

    return Backend(
        f"tf_condacc {tf_condacc.__version__}",
        tf_condacc.ConditionalAccumulator,
        tf_condacc.SparseConditionalAccumulator,
    )


def tensorflow() -> Backend:
    """Returns TensorFlow's own accumulator classes."""
    return Backend(
        f"TensorFlow {tf.__version__}", v1.ConditionalAccumulator, v1.SparseConditionalAccumulator
    )


def named(name: str) -> Backend:
    """Returns the backend that a value of the option ``--backend`` names."""
    return {"condacc": condacc, "tf": tensorflow}[name]()
