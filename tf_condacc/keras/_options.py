"""What the accumulation of a model is asked for, and the checks that come before any change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import keras
import tensorflow as tf

from condacc import versions
from tf_condacc._micro_batches.checks import Checks, NumMicroBatches
from tf_condacc.keras import _weights

_LOG = logging.getLogger("tf_condacc")

Remainder = Literal["apply", "carry", "drop"]
Weight = Callable[[Any, Any, Any], Any]


@dataclass(eq=False)
class Options:
    """The arguments of `accumulate_gradients`, which are checked when the object is made.

    Attributes:
        given_optimizers: The argument `optimizers`. Others have the names of the arguments.
        title: What messages call the accumulation.
    """

    model: keras.Model
    num_micro_batches: int | NumMicroBatches
    remainder: Remainder
    skip_non_finite: bool
    weight: Weight | None
    given_optimizers: Sequence[keras.Optimizer] | None

    def __post_init__(self) -> None:
        model = self.model
        _check_model(model)
        self.title = f"The accumulation of model '{model.name}'"
        self._warnings: set[str] = set()
        self._checks = Checks(self.title)
        self.num_micro_batches = self._checks.number(self.num_micro_batches)
        if self.remainder not in get_args(Remainder):
            raise ValueError(
                f"{self.title} expects remainder 'apply', 'carry' or 'drop', got "
                f"{self.remainder!r}."
            )
        if self.weight is not None and not callable(self.weight):
            raise TypeError(
                f"{self.title} expects a function weight(x, y, sample_weight), got {self.weight!r}."
            )
        if self.skip_non_finite and len(self.given_optimizers or ()) > 1:
            raise ValueError(
                f"{self.title} with several optimizers could drop a part of a micro-batch. Leave "
                "out skip_non_finite."
            )
        for optimizer in self.given_optimizers or ():
            if not isinstance(optimizer, keras.Optimizer):
                raise TypeError(
                    f"{self.title} expects a list of optimizers of Keras 3, got "
                    f"{type(optimizer).__name__} in it."
                )
            self.check_optimizer(optimizer)
        if model.compiled:
            self.check_optimizer(model.optimizer)
            # On other devices, Keras may have chosen XLA by itself.
            devices = tf.config.list_physical_devices()
            self.check_jit_compile(
                model.jit_compile and all(each.device_type == "CPU" for each in devices)
            )
            _weights.reduction_type_of(model, self.title)

    @property
    def optimizers(self) -> list[keras.Optimizer]:
        """The optimizers that accumulate."""
        return list(self.given_optimizers or [self.model.optimizer])

    def check_optimizer(self, optimizer: Any) -> None:
        """Checks that an optimizer, if it is one, can make updates of micro-batches."""
        if isinstance(optimizer, keras.Optimizer):
            self._checks.optimizer(optimizer, self.skip_non_finite)

    def check_jit_compile(self, is_asked_for: bool) -> None:
        """Raises a ValueError if XLA is asked for."""
        if is_asked_for:
            raise ValueError(
                f"{self.title}: the model is compiled with jit_compile=True, but XLA has no "
                "accumulators. Leave out jit_compile=True."
            )

    def warn_once(self, text: str) -> None:
        """Logs a warning, whose %s is the title, unless it was logged before."""
        if text not in self._warnings:
            self._warnings.add(text)
            _LOG.warning(text, self.title)


def _check_model(model: Any) -> None:
    """Checks that a model is one of a Keras that can accumulate."""
    if versions.brings_keras2():
        raise RuntimeError(
            "accumulate_gradients() needs Keras 3, which TensorFlow has since 2.16, but the "
            "package keras is Keras 2. In a training loop of your own, "
            "tf_condacc.GradientAccumulator accumulates for the optimizers of Keras 2."
        )
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "accumulate_gradients() expects Keras on TensorFlow, but its backend is "
            f"'{keras.backend.backend()}'. Set KERAS_BACKEND=tensorflow."
        )
    if not isinstance(model, keras.Model):
        raise TypeError(
            "accumulate_gradients() expects a model of Keras 3, got "
            f"{type(model).__module__}.{type(model).__name__}. Train a model of Keras 2 in a loop "
            "of your own, with tf_condacc.GradientAccumulator."
        )
    if not hasattr(model, "_compile_loss"):
        raise RuntimeError(
            f"accumulate_gradients() does not know Keras {keras.__version__}: its models have no "
            "attribute '_compile_loss', whose calls tell by what a loss is divided, so the "
            "micro-batches cannot be weighted. Use an older Keras."
        )
