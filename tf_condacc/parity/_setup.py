"""A setup in which a training can be run, and a run of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_condacc._typing import Nested

if TYPE_CHECKING:
    from tf_condacc.parity._training import Training


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Run:
    """A training that has begun.

    Args:
        variables: The trainable variables, in the order in which `Training.new_model` returns them.
        step: Function that makes one training step with a whole batch: ``step(features, labels)``.
        read: Function that returns the values of the variables. By default they are read eagerly.
        close: Function that is called at the end, also after an error.
        num_replicas: Number of replicas of the strategy under which it runs.
        num_micro_batches: Number of parts of a replica's batch whose gradients it accumulates, or
            None if unknown. If updates differ by this factor, or by the number of replicas, the
            report names possible causes.
        remarks: Function that returns what was observed beside the weights, as sentences. It is
            called after the last step.

    Raises:
        ValueError: A number is lower than 1.
    """

    variables: Sequence[Any]
    step: Callable[[Nested, Nested], Any]
    read: Callable[[], Sequence[np.ndarray]] | None = None
    close: Callable[[], Any] = _nothing
    num_replicas: int = 1
    num_micro_batches: int | None = None
    remarks: Callable[[], Sequence[str]] = tuple

    def __post_init__(self) -> None:
        for name in ("num_replicas", "num_micro_batches"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"Run: expected {name} of at least 1, got {number}")

    @property
    def num_parts(self) -> int:
        """The number of parts of a batch, as far as it is known."""
        return self.num_replicas * (self.num_micro_batches or 1)

    @property
    def is_in_session(self) -> bool:
        """True if the variables are those of a graph, which runs in a session."""
        return any(getattr(each, "graph", None) is not None for each in self.variables)

    def weights(self) -> list[np.ndarray]:
        """Returns copies of the current values of the variables."""
        if self.read is not None:
            return [np.array(value) for value in self.read()]
        return [np.array(variable.numpy()) for variable in self.variables]


@dataclass(frozen=True)
class Setup:
    """A setup in which a training can be run, such as towers or the user's own training loop.

    Args:
        name: Name of the setup in reports.
        begin: Function that builds the model and the optimizer of a `Training`, and returns a
            `Run`. `Training.new_model` makes the variables with the same initial values each time.
        divides: Whether it computes the gradients of parts of a batch, and joins them.
    """

    name: str
    begin: Callable[[Training], Run]
    divides: bool = True


def on_cpu(begin: Callable[[Training], Run]) -> Callable[[Training], Run]:
    """Returns a function like `begin` whose run is on the CPU, also on a machine with GPUs.

    GPUs multiply matrices of float32 with fewer digits by default.
    """

    def begin_on_cpu(training: Training) -> Run:
        with tf.device("/CPU:0"):
            run = begin(training)

        def step(features: Nested, labels: Nested) -> Any:
            with tf.device("/CPU:0"):
                return run.step(features, labels)

        return replace(run, step=step)

    return begin_on_cpu
