"""The checks of what a `GradientAccumulator`, and the accumulation of a model, are given."""

from __future__ import annotations

import contextlib
import functools
import numbers
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._sums import added_up
from tf_condacc._tensorflow import converted_as_caller, is_compiled
from tf_condacc._typing import Gradient, TensorLike, VariableLike

# The constant of a comparison with infinity would be an error where TensorFlow checks all numerics.
_LARGEST = sys.float_info.max


# A function from the number of updates so far to the number of micro-batches of the next one.
NumMicroBatches: TypeAlias = Callable[[Any], Any]

CLIPPINGS = ("clipnorm", "global_clipnorm", "clipvalue")  # The names of Keras.


class Clipping(NamedTuple):
    """One of `CLIPPINGS`, and its limit: `[] float64`."""

    kind: str
    limit: tf.Tensor


def checked_variables(title: str, variables: Iterable[VariableLike]) -> list[VariableLike]:
    """Returns variables as a list. Error messages begin with `title`.

    Raises:
        TypeError: They are not a list of variables.
        ValueError: There are none.
    """
    if _is_variable(variables) or not isinstance(variables, Iterable):
        raise TypeError(f"{title} expects a list of variables, got {type(variables).__name__}.")
    variables = list(variables)
    if not variables:
        raise ValueError(
            f"{title} expects at least one variable, got none. A Keras model has no variables "
            "before it is built."
        )
    for variable in variables:
        if not _is_variable(variable):
            raise TypeError(
                f"{title} expects a list of variables, got {type(variable).__name__} in it."
            )
    return variables


class Checks:
    """Checks whose error messages begin with the title of an object.

    Attributes:
        title: What error messages call the object.
        given: The variables whose gradients it is given.
        variables: The same, each of them once.
    """

    def __init__(self, title: str, variables: Sequence[VariableLike] = ()) -> None:
        self.title = title
        self.given = variables
        self.variables = list({id(variable): variable for variable in variables}.values())

    def number(self, num_micro_batches: Any) -> int | NumMicroBatches:
        """Returns a number of micro-batches as an integer, or a function as it is.

        Raises:
            TypeError: It is neither an integer nor a function.
            ValueError: It is lower than 1.
        """
        return (
            num_micro_batches if callable(num_micro_batches) else self._integer(num_micro_batches)
        )

    def _integer(self, num_micro_batches: Any) -> int:
        try:
            number = operator.index(num_micro_batches)
        except TypeError:
            raise TypeError(
                f"{self.title} expects an integer num_micro_batches, got {num_micro_batches!r}."
            ) from None
        if number < 1:
            raise ValueError(f"{self.title} expects num_micro_batches of at least 1, got {number}.")
        return number

    def number_of(
        self, num_micro_batches: int | NumMicroBatches, update: Callable[[], Any]
    ) -> int | tf.Tensor:
        """Returns how many micro-batches the next update has: `[] int32`.

        Args:
            num_micro_batches: The number, or a function of the number of updates so far.
            update: Returns this number: `[]`, an integer.

        Raises:
            TypeError: The function returns something else than an integer.
            ValueError: It returns a number lower than 1.
            tf.errors.InvalidArgumentError: In a graph, the number is lower than 1.
        """
        if not callable(num_micro_batches):
            return num_micro_batches
        function = converted_as_caller(num_micro_batches)
        returned = function(int(update()) if tf.executing_eagerly() else update())
        if tf.executing_eagerly() and hasattr(returned, "numpy"):
            returned = returned.numpy()
        if not tf.is_tensor(returned) and not isinstance(returned, tf.Variable):
            return self._integer(returned)
        returned = tf.convert_to_tensor(returned)
        if not returned.dtype.is_integer or not returned.shape.is_compatible_with([]):
            raise TypeError(
                f"{self.title} expects an integer num_micro_batches of an update, got {returned}."
            )
        expected = f"{self.title} expects num_micro_batches of at least 1, got"
        check = tf.debugging.Assert(returned >= 1, [expected, returned])
        with tf.control_dependencies([check]):
            return tf.identity(tf.cast(returned, tf.int32))

    def has_enough(
        self, lowest: tf.Tensor, required: TensorLike
    ) -> contextlib.AbstractContextManager:
        """Returns a context whose operations fail if an accumulator has too few micro-batches.

        Args:
            lowest: The lowest number that an accumulator has: `[] int32`.
            required: Number of micro-batches that a take requires: `[] int32`.
        """
        enough = tf.debugging.assert_greater_equal(
            lowest,
            required,
            message=f"{self.title} has fewer micro-batches than a take requires. Take a remainder "
            "with num_required=1.",
        )
        return tf.control_dependencies([] if enough is None else [enough])

    def gradients(self, gradients: Iterable[Gradient | None]) -> list[Gradient | None]:
        """Converts gradients to tensors or ``tf.IndexedSlices``, and compares them with variables.

        Returns:
            A gradient for each of `variables`. Those of a variable that was given several times are
            added up.

        Raises:
            TypeError: They are not in a list.
            ValueError: Their number, or the shape or the data type of one, is wrong, or all are
                None.
        """
        if isinstance(gradients, Mapping):
            raise TypeError(
                f"{self.title} expects a list of gradients in the order of the variables, got "
                f"{type(gradients).__name__} with the keys {list(gradients)[:3]}. Pass a list of "
                "its values in that order."
            )
        if tf.is_tensor(gradients) or not isinstance(gradients, Iterable):
            raise TypeError(
                f"{self.title} expects a list of gradients, got {type(gradients).__name__}."
            )
        gradients = list(gradients)
        if any(isinstance(one, tuple) and any(map(_is_variable, one)) for one in gradients):
            raise ValueError(
                f"{self.title} got pairs of gradients and variables. It knows the variables: pass "
                "the gradients only."
            )
        if len(gradients) != len(self.given):
            raise ValueError(
                f"{self.title} expects {len(self.given)} gradients, one for each variable, got "
                f"{len(gradients)}. Pass the gradients of all variables, in their order. Was "
                "`trainable` of a Keras model changed after the accumulator was made?"
            )
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                f"{self.title} got None for each gradient: the loss depends on none of the "
                "variables, or these are gradients of other variables."
            )
        checked = [
            None
            if gradient is None
            else _checked_gradient(self.title_of(variable), gradient, variable)
            for gradient, variable in zip(gradients, self.given, strict=True)
        ]
        if len(self.variables) == len(self.given):
            return checked
        return [gradient for gradient, _ in added_up(zip(checked, self.given, strict=True))]

    def weight(self, weight: TensorLike | None) -> tf.Tensor | None:
        """Converts and checks the weight of a micro-batch: `[] float64`; None for no weight.

        Raises:
            TypeError: It is not a real number.
            ValueError: It is not a scalar, or a variable is of an integer type.
            tf.errors.InvalidArgumentError: It is negative, infinite or not a number. Raised at once
                if the value is known, and otherwise when the result is computed.
        """
        if weight is None:
            return None
        expected = f"{self.title} expects a weight that is a finite number of at least 0"
        number = _checked_scalar(expected, weight, lambda x: (x >= 0) & (x <= _LARGEST))
        for variable in self._integers:
            raise ValueError(
                f"{self.title_of(variable)} is of the integer type "
                f"{dtype_of(variable).name}, which has no weighted sums. Leave out the weight."
            )
        return number

    @functools.cached_property
    def _integers(self) -> list[VariableLike]:
        """The variables of integer types. With many variables, to look for them takes time."""
        return [each for each in self.variables if dtype_of(each).is_integer]

    def in_use(self, is_in_use: bool, method: str) -> None:
        """Checks that a function or graph that calls a method sees the accumulators.

        Raises:
            RuntimeError: There are no accumulators yet, and a function or graph is being made.
        """
        if not is_in_use and not tf.executing_eagerly():
            raise RuntimeError(
                f"{self.title}: {method}() is called in a function or graph that is made before "
                "the first accumulate(), so it would never see what is accumulated. Call "
                "accumulate() or apply_gradients() first."
            )

    def not_compiled(self) -> None:
        """Raises a RuntimeError if XLA compiles the function that is being traced."""
        if not tf.executing_eagerly() and is_compiled(v1.get_default_graph()):
            raise RuntimeError(
                f"{self.title} is used in a function that XLA compiles, but XLA has no "
                "accumulators. Leave out jit_compile=True of tf.function or of compile() of a "
                "Keras model. Without this argument, Keras may compile nevertheless: pass "
                "jit_compile=False, or set supports_jit = False in the class of the model. A "
                "function that only computes the gradients may be compiled."
            )

    def optimizer(self, optimizer: Any, skips_non_finite: bool) -> None:
        """Checks that an optimizer can make the updates of accumulated gradients.

        Raises:
            TypeError: It is not an optimizer.
            ValueError: It accumulates gradients itself; or it skips gradients that are not finite
                to adapt its loss scale, and the accumulator skips them, too.
        """
        kind = type(optimizer).__name__
        if not callable(getattr(optimizer, "apply_gradients", None)):
            raise TypeError(
                f"{self.title}: apply_gradients() expects an optimizer and a list of gradients, "
                f"got {kind} as the optimizer."
            )
        for part in parts_of(optimizer):
            steps = getattr(part, "gradient_accumulation_steps", None)
            if steps:
                raise ValueError(
                    f"{self.title} accumulates gradients, and so does the {type(part).__name__} "
                    f"with gradient_accumulation_steps={steps}, which would make one update of "
                    "several of its updates. Leave out gradient_accumulation_steps."
                )
        if skips_non_finite and is_loss_scaling(optimizer):
            raise ValueError(
                f"{self.title} with skip_non_finite=True would hide from the {kind} the gradients "
                "that are not finite, for which it skips the update and lowers its loss scale. "
                "Leave out skip_non_finite."
            )

    def clipping(
        self,
        clipnorm: TensorLike | None,
        global_clipnorm: TensorLike | None,
        clipvalue: TensorLike | None,
        others: Iterable[str],
    ) -> Clipping | None:
        """Returns the clipping that arguments ask for, or None.

        The limits are those of `GradientAccumulator.apply_gradients`. The others are the names of
        the arguments for the optimizer.

        Raises:
            TypeError: A limit is not a real number, or one of `others` is another name of a limit.
            ValueError: There are several limits, one is not a scalar, or a variable is complex and
                `clipvalue` is given.
            tf.errors.InvalidArgumentError: A limit is not above 0. Raised at once if the value is
                known, and otherwise when the gradients are clipped.
        """
        for kind in CLIPPINGS:
            # Optimizers of Keras 2 ignore arguments that they do not know.
            if (other := kind.replace("clip", "clip_")) in others:
                raise TypeError(f"{self.title} expects the argument {kind}, got {other}.")
        limits = zip(CLIPPINGS, (clipnorm, global_clipnorm, clipvalue), strict=True)
        given = {kind: limit for kind, limit in limits if limit is not None}
        if not given:
            return None
        if len(given) > 1:
            raise ValueError(
                f"{self.title} expects at most one of {', '.join(CLIPPINGS)}, as optimizers of "
                f"Keras do, got {' and '.join(given)}."
            )
        ((kind, limit),) = given.items()
        for variable in self.variables if kind == "clipvalue" else ():
            if dtype_of(variable).is_complex:
                raise ValueError(
                    f"{self.title_of(variable)} is complex, and complex numbers have no order. Use "
                    "clipnorm or global_clipnorm instead of clipvalue."
                )
        expected = f"{self.title} expects a {kind} that is a number above 0"
        return Clipping(kind, _checked_scalar(expected, limit, lambda x: x > 0))

    def title_of(self, variable: VariableLike) -> str:
        """Returns what error messages call the gradient of a variable."""
        return f"{self.title}: the gradient of variable '{name_of(variable)}'"


def _checked_gradient(title: str, gradient: Gradient, variable: VariableLike) -> Gradient:
    is_sparse = isinstance(gradient, tf.IndexedSlices)
    values = gradient.values if is_sparse else tf.convert_to_tensor(gradient)
    dtype, shape = dtype_of(variable), tf.TensorShape(variable.shape)
    if values.dtype != dtype:
        raise ValueError(f"{title} has dtype {values.dtype.name}, expected {dtype.name}.")
    expected = tf.TensorShape([None]).concatenate(shape[1:]) if is_sparse else shape
    if not values.shape.is_compatible_with(expected):
        what = "values of shape" if is_sparse else "shape"
        raise ValueError(f"{title} has {what} {values.shape}, expected {expected}.")
    return gradient if is_sparse else values


def _checked_scalar(expected: str, value: TensorLike, is_right: Callable[[Any], Any]) -> tf.Tensor:
    """Converts and checks a number. A value that is unknown at tracing is checked at run time.

    Args:
        expected: The first part of error messages, which says what is expected.
        value: The number: `[]`.
        is_right: The condition on a number of NumPy, or on a tensor.

    Returns:
        The number: `[] float64`.

    Raises:
        TypeError: It is not a real number.
        ValueError: It is not a scalar.
        tf.errors.InvalidArgumentError: The condition does not hold.
    """
    try:
        if isinstance(value, numbers.Real) and not isinstance(value, bool):
            value = np.float64(value)  # TensorFlow would round it to float32.
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{expected}, got {value!r}.") from error
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise TypeError(f"{expected}, got dtype {tensor.dtype.name}.")
    if not tensor.shape.is_compatible_with([]):
        raise ValueError(f"{expected}, got shape {tensor.shape}.")
    known = tf.get_static_value(tensor)
    if known is not None:
        if not is_right(np.asarray(known, np.float64)):
            raise tf.errors.InvalidArgumentError(None, None, f"{expected}, got {known}.")
        return tf.cast(tensor, tf.float64)
    number = tf.reshape(tf.cast(tensor, tf.float64), [])
    # Unlike tf.debugging.Assert, it makes no tf.cond, which slows down the whole graph.
    check = tf.raw_ops.Assert(condition=is_right(number), data=[f"{expected}, got", number])
    with tf.control_dependencies([check]):
        return tf.identity(number)


def parts_of(optimizer: Any) -> Iterator[Any]:
    """Yields an optimizer and those that it consists of.

    They are the inner one of a LossScaleOptimizer of Keras, and those of a MultiOptimizer, each of
    which updates a part of the variables.
    """
    yield optimizer
    inner = getattr(optimizer, "inner_optimizer", None)
    others = getattr(optimizer, "optimizers", None)
    for part in [inner, *(others if isinstance(others, (list, tuple)) else [])]:
        if part is not None and part is not optimizer:
            yield from parts_of(part)


def is_loss_scaling(optimizer: Any) -> bool:
    """Returns whether an optimizer is one like the LossScaleOptimizer of Keras."""
    return hasattr(optimizer, "inner_optimizer")


def name_of(variable: Any) -> str:
    """Returns the name of a variable of TensorFlow, or the path of one of Keras."""
    return getattr(variable, "path", None) or variable.name


def dtype_of(variable: Any) -> tf.DType:
    """Returns the data type of a variable's values, which a reference variable has as well."""
    return tf.as_dtype(variable.dtype).base_dtype


def of_tensorflow(variable: Any) -> tf.Variable:
    """Returns a variable of TensorFlow, or the one inside a variable of Keras."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def _is_variable(value: Any) -> bool:
    return all(hasattr(value, attribute) for attribute in ("assign", "dtype", "shape"))
