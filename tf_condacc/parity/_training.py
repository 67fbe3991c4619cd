"""A training that can be run in several setups, and the construction of its model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._typing import GradientAndVariable, Nested
from tf_condacc.parity import _batches


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
    """The description of a training that can be run in several setups.

    Args:
        build: Function that makes the variables and returns the model: a Keras model, a
            ``tf.Module``, a dictionary, or whatever `loss` takes. It is called once for each setup,
            in eager mode, in the scope of a strategy or in a graph. Every call must make the same
            variables, in the same order. In later calls, trainable variables get the initial
            values of the first.
        loss: Function ``loss(model, features, labels)`` that returns the loss of the examples that
            it is given, `[] float`: those of a batch, or of a replica's part of it. It must not be
            divided by the number of replicas, unless `divided_by_replicas` is true.
        optimizer: Function that returns a new optimizer: one of ``tf.compat.v1.train`` or of Keras.
            Towers and synchronous replicas need the former.
        batches: A sequence or ``tf.data.Dataset`` with a pair ``(features, labels)`` for each step,
            both `[batch_size, …]`, possibly nested. Labels may be None. Their number must be
            finite.
        reduction: "mean" if the loss is a mean over examples, "sum" if it is a sum.
        v1_optimizer: Function that returns the equivalent optimizer of ``tf.compat.v1.train``, for
            towers and synchronous replicas, if `optimizer` returns one of Keras.
        divided_by_replicas: Whether `loss` divides a mean by the number of replicas of the current
            strategy, as the losses of ``keras.losses`` do.

    Raises:
        TypeError: `build`, `loss`, `optimizer` or `v1_optimizer` is not a function.
        ValueError: There are no batches, or infinitely many, or one of them has no pair or no
            common size, or `reduction` is neither "mean" nor "sum", or it is "sum" and
            `divided_by_replicas` is true.
    """

    build: Callable[[], Any]
    loss: Callable[[Any, Nested, Nested], tf.Tensor]
    optimizer: Callable[[], Any]
    batches: Iterable[tuple[Nested, Nested]]
    reduction: str = "mean"
    v1_optimizer: Callable[[], v1.train.Optimizer] | None = None
    divided_by_replicas: bool = False

    def __post_init__(self) -> None:
        for name in ("build", "loss", "optimizer", "v1_optimizer"):
            value = getattr(self, name)
            if not callable(value) and (name, value) != ("v1_optimizer", None):
                example = "lambda: …" if name != "loss" else "lambda model, features, labels: …"
                raise TypeError(
                    f"{name}: expected a function, such as `{example}`, got an object of "
                    f"{type(value)}"
                )
        if self.reduction not in ("mean", "sum"):
            raise ValueError(f'reduction: expected "mean" or "sum", got {self.reduction!r}')
        if self.divided_by_replicas and self.reduction == "sum":
            raise ValueError('divided_by_replicas: expected reduction="mean", got "sum"')
        object.__setattr__(self, "batches", _batches.checked(self.batches))

    @functools.cached_property
    def initial(self) -> list[np.ndarray]:
        """The initial values of the trainable variables, in the order in which they are made."""
        with tf.init_scope():
            return [variable.numpy() for variable in _record(self.build).variables]

    def adopt(self, initial: list[np.ndarray], batches: list[tuple[Nested, Nested]]) -> None:
        """Takes over the initial values and the batches of another process."""
        self.__dict__.update(initial=initial, batches=batches)

    def new_model(self) -> Model:
        """Builds the model, with the same initial values of its variables each time.

        Raises:
            ValueError: No trainable variable was made, or other variables than the first time.
        """
        built = _record(self.build, self.initial)
        as_of_keras = tf.executing_eagerly() and not self.is_of_v1
        variables = _trained(built, as_of_keras)
        if not variables:
            raise ValueError(
                "build: expected a function that makes trainable variables, got none. A Keras "
                "model makes its variables when it is built or first called: do so in `build`. "
                "It must make new variables on each call, not return a model that exists already."
            )
        return Model(built.value, variables)

    def new_v1_optimizer(self, setup: str) -> v1.train.Optimizer:
        """Returns a new optimizer of ``tf.compat.v1.train``.

        Raises:
            TypeError: The training has none. The error names the setup that needs it.
        """
        optimizer = (self.v1_optimizer or self.optimizer)()
        if not isinstance(optimizer, v1.train.Optimizer):
            raise TypeError(
                f"{setup}: expected an optimizer of tf.compat.v1.train, got {type(optimizer)}. "
                "Pass a function that returns the equivalent one as Training(v1_optimizer=…), or "
                "leave this setup out."
            )
        return optimizer

    @property
    def has_v1_optimizer(self) -> bool:
        """True if there is an optimizer for towers and synchronous replicas."""
        return self.v1_optimizer is not None or self.is_of_v1

    @functools.cached_property
    def is_of_v1(self) -> bool:
        """True if `optimizer` returns an optimizer of ``tf.compat.v1.train``."""
        first, second = self.optimizer(), self.optimizer()
        if first is second and hasattr(first, "iterations"):
            raise ValueError(
                "optimizer: expected a function that returns a new optimizer on each call, got the "
                f"same one twice, of {type(first)}"
            )
        return isinstance(first, v1.train.Optimizer)

    @functools.cached_property
    def sparse(self) -> set[int]:
        """The positions of the variables whose gradients were ``tf.IndexedSlices`` so far."""
        return set()

    @functools.cached_property
    def clipping(self) -> dict[str, float]:
        """How the optimizer clips gradients, if it is one of Keras: the limit for each setting."""
        optimizer = self.optimizer()
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        settings = ("clipnorm", "global_clipnorm", "clipvalue")
        found = {name: getattr(optimizer, name, None) for name in settings}
        return {name: limit for name, limit in found.items() if limit is not None}

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

        Args:
            model: The model, which `new_model` returned.
            features: The features of some examples.
            labels: Their labels.
            divisor: Number by which the loss is divided. Where an optimizer sums the gradients of
                replicas, it is the number of replicas, if the loss is a mean and does not divide
                by that number itself.

        Raises:
            ValueError: No variable has a gradient, or the loss uses a trainable variable that the
                model does not have.
        """
        with tf.GradientTape() as tape:
            loss = self.loss_of(model, features, labels)
            loss = loss / divisor if divisor > 1 else loss
        _check_used(tape.watched_variables(), model)
        gradients = tape.gradient(loss, model.variables)
        self.sparse.update(
            position
            for position, gradient in enumerate(gradients)
            if isinstance(gradient, tf.IndexedSlices)
        )
        pairs = zip(gradients, model.variables, strict=True)
        found = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not found:
            names = ", ".join(variable.name for variable in model.variables)
            raise ValueError(f"loss: expected it to depend on the variables, got none of {names}")
        return found


def _check_used(used: Iterable[tf.Variable], model: Model) -> None:
    """Raises an error if a loss uses trainable variables that the model does not know.

    Under a strategy, variables have parts. The baseline, which runs under none, is checked first.
    """
    if tf.distribute.has_strategy():
        return
    others = getattr(model.value, "variables", ())  # Also those that are not trained.
    known = {
        id(each if isinstance(each, tf.Variable) else each.value)
        for each in (*model.variables, *(others if isinstance(others, Iterable) else ()))
    }
    strange = [variable.name for variable in used if id(variable) not in known]
    if strange:
        raise ValueError(
            "loss: expected it to use no trainable variables but those that `build` makes, got "
            f"also {', '.join(strange)}. They would not be trained: make them in `build`."
        )


class _Built(NamedTuple):
    """The result of a function, and the trainable variables that it made.

    Attributes:
        value: What the function returned.
        variables: The ``tf.Variable`` objects, in the order in which they were made.
    """

    value: Any
    variables: list[tf.Variable]


def _record(build: Callable[[], Any], initial: Sequence[np.ndarray] | None = None) -> _Built:
    """Calls a function, and records the trainable variables that it makes.

    Args:
        build: The function.
        initial: The initial values of these variables, instead of those that it gives.

    Raises:
        ValueError: The function made other variables than there are initial values.
    """
    made: list[tf.Variable] = []

    def creator(next_creator: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
        if not _is_trained(arguments):
            return next_creator(**arguments)
        number = len(made)
        if initial is not None and number < len(initial) and _fits(initial[number], arguments):
            arguments |= {"initial_value": initial[number], "dtype": initial[number].dtype}
        made.append(next_creator(**arguments))
        return made[-1]

    with tf.variable_creator_scope(creator):
        value = build()
    if initial is not None:
        shapes = [tuple(variable.shape) for variable in made]
        first = [value.shape for value in initial]
        if shapes != first:
            raise ValueError(
                f"build: expected new variables on each call, like those of the first, of shapes "
                f"{first}, got {shapes}"
            )
    return _Built(value, made)


def _is_trained(arguments: dict[str, Any]) -> bool:
    """Returns whether the arguments of a new variable are those of a variable to train.

    Counters, such as the ones that Keras models make, are trainable variables of an integer type.
    """
    if arguments.get("trainable") is False:
        return False
    dtype, value = arguments.get("dtype"), arguments.get("initial_value")
    if dtype is None:
        if callable(value):
            return True
        dtype = getattr(value, "dtype", None) or np.asarray(value).dtype
    return not tf.as_dtype(dtype).is_integer and not tf.as_dtype(dtype).is_bool


def _fits(value: np.ndarray, arguments: dict[str, Any]) -> bool:
    """Returns whether a value has the shape of a new variable, as far as its arguments tell."""
    shape: Any = arguments.get("shape")
    initial: Any = arguments.get("initial_value")
    if shape is None and not callable(initial):
        shape = initial.shape if hasattr(initial, "shape") else np.shape(initial)
    return tf.TensorShape(shape).is_compatible_with(value.shape)


def _trained(built: _Built, as_of_keras: bool) -> list[Any]:
    """Returns the variables to train, in the order in which they were made.

    If the model has ``trainable_variables``, variables that are not among these are left out.

    Args:
        built: The model and its variables.
        as_of_keras: Whether to return the variables of a Keras 3 model as its own objects, each of
            which contains a ``tf.Variable``, and which the optimizers of Keras 3 require.
    """
    if not hasattr(built.value, "trainable_variables"):
        return built.variables
    of_model = {
        id(each if isinstance(each, tf.Variable) else each.value): each
        for each in built.value.trainable_variables
    }
    found = [each for each in built.variables if id(each) in of_model]
    return [of_model[id(each)] for each in found] if as_of_keras else found
