"""The description of a training that can be run in several ways."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._typing import GradientAndVariable, Nested
from tf_condacc.testing import _batches, _building


class Model(NamedTuple):
    """A model and its trainable variables.

    Attributes:
        value: What the function `build` of the training returned.
        variables: The trainable variables that it made.
    """

    value: Any
    variables: list[Any]


@dataclass(frozen=True)
class Training:
    """The description of a training that can be run in several ways.

    Args:
        build: Function that makes the variables and returns the model: a Keras model, a
            ``tf.Module``, a dictionary, or whatever `loss` takes. It is called once for each way,
            in eager mode, in the scope of a strategy or in a graph. Every call must make the same
            variables, in the same order. In later calls, trainable variables get the initial
            values of the first.
        loss: Function ``loss(model, features, labels)`` that returns the loss of the examples that
            it is given, `[] float`: those of a batch, or of a replica's part of it.
        optimizer: Function that returns a new optimizer: one of ``tf.compat.v1.train`` or of Keras.
            Towers and synchronous replicas need the former.
        batches: A sequence or ``tf.data.Dataset`` with a pair ``(features, labels)`` for each step,
            both `[batch_size, …]`, possibly nested. Labels may be None.
        reduction: "mean" if the loss is a mean over examples, "sum" if it is a sum.
        v1_optimizer: Function that returns the equivalent optimizer of ``tf.compat.v1.train``, for
            towers and synchronous replicas, if `optimizer` returns one of Keras.

    Raises:
        ValueError: There are no batches, or one of them has no pair or no common size, or
            `reduction` is neither "mean" nor "sum".
    """

    build: Callable[[], Any]
    loss: Callable[[Any, Nested, Nested], tf.Tensor]
    optimizer: Callable[[], Any]
    batches: Iterable[tuple[Nested, Nested]]
    reduction: str = "mean"
    v1_optimizer: Callable[[], v1.train.Optimizer] | None = None

    def __post_init__(self) -> None:
        if self.reduction not in ("mean", "sum"):
            raise ValueError(f'reduction: expected "mean" or "sum", got {self.reduction!r}')
        object.__setattr__(self, "batches", _batches.checked(self.batches))

    @functools.cached_property
    def _initial(self) -> list[np.ndarray]:
        """The initial values of the trainable variables, in the order in which they are made."""
        with tf.init_scope():
            return [variable.numpy() for variable in _building.record(self.build).variables]

    def new_model(self) -> Model:
        """Builds the model, with the same initial values of its variables each time.

        Raises:
            ValueError: No trainable variable was made, or other variables than the first time.
        """
        built = _building.record(self.build, self._initial)
        as_of_keras = tf.executing_eagerly() and not self._is_of_v1
        variables = _building.trained(built, as_of_keras)
        if not variables:
            raise ValueError(
                "build: expected a function that makes trainable variables, got none. A Keras "
                "model makes its variables when it is built or first called: do so in `build`."
            )
        return Model(built.value, variables)

    def new_v1_optimizer(self, way: str) -> v1.train.Optimizer:
        """Returns a new optimizer of ``tf.compat.v1.train``.

        Raises:
            TypeError: The training has none. The error names the way that needs it.
        """
        optimizer = (self.v1_optimizer or self.optimizer)()
        if not isinstance(optimizer, v1.train.Optimizer):
            raise TypeError(
                f"{way}: expected an optimizer of tf.compat.v1.train, got {type(optimizer)}. Pass "
                "a function that returns the equivalent one as Training(v1_optimizer=…), or leave "
                "this way out."
            )
        return optimizer

    @property
    def has_v1_optimizer(self) -> bool:
        """True if there is an optimizer for towers and synchronous replicas."""
        return self.v1_optimizer is not None or self._is_of_v1

    @functools.cached_property
    def _is_of_v1(self) -> bool:
        return isinstance(self.optimizer(), v1.train.Optimizer)

    def loss_of(self, model: Model, features: Nested, labels: Nested) -> tf.Tensor:
        """Returns the loss of some examples, `[] float`.

        Raises:
            ValueError: The function `loss` did not return a scalar.
        """
        loss = tf.convert_to_tensor(self.loss(model.value, features, labels))
        if loss.shape.rank not in (0, None) or not loss.dtype.is_floating:
            raise ValueError(
                f"loss: expected a scalar of a floating-point type, got {loss.dtype.name} of shape "
                f"{loss.shape}. Reduce it over the examples, and tell Training(reduction=…) how."
            )
        return loss

    def gradients(
        self, model: Model, features: Nested, labels: Nested, divisor: int = 1
    ) -> list[GradientAndVariable]:
        """Returns the gradients of the loss, divided by a number, and their variables.

        Variables without a gradient are left out.

        Raises:
            ValueError: No variable has a gradient.
        """
        with tf.GradientTape() as tape:
            loss = self.loss_of(model, features, labels)
            loss = loss / divisor if divisor > 1 else loss
        gradients = tape.gradient(loss, model.variables)
        pairs = zip(gradients, model.variables, strict=True)
        found = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not found:
            names = ", ".join(variable.name for variable in model.variables)
            raise ValueError(f"loss: expected it to depend on the variables, got none of {names}")
        return found
