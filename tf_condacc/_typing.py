"""Types of arguments that TensorFlow accepts in many forms.

TensorFlow comes without types. Type checkers that have no stubs take its classes for ``Any``, and a
union with one of them accepts every argument. The protocols below take the place of these classes
in unions. They have only members that the stubs types-tensorflow declare, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import tensorflow as tf


class Array(Protocol):
    """A tensor, variable or array of TensorFlow, Keras or NumPy, which may be sparse or ragged."""

    @property
    def dtype(self) -> Any:
        """The data type."""

    @property
    def shape(self) -> Any:
        """The shape."""


class VariableLike(Array, Protocol):
    """A variable of TensorFlow or of Keras."""

    @property
    def name(self) -> Any:
        """The name."""


class DType(Protocol):
    """A ``tf.DType``."""

    @property
    def as_numpy_dtype(self) -> Any:
        """The type of NumPy."""


class Shape(Protocol):
    """A ``tf.TensorShape``."""

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if unknown."""


# An argument of tf.convert_to_tensor is an array, a number, a string, or nested sequences of these.
# The type complex includes bool, int and float.
TensorLike: TypeAlias = Array | complex | str | bytes | Sequence["TensorLike"]

# An argument of tf.TensorShape is a shape, the sizes of its dimensions with None for unknown ones,
# or None if the rank is unknown.
ShapeLike: TypeAlias = Shape | Sequence[int | None] | None

# An argument of tf.as_dtype is a tf.DType, a type of NumPy or Python, or a name.
DTypeLike: TypeAlias = DType | np.dtype | type | str

# The inputs and outputs of a model are tensors, or nested mappings and sequences of tensors.
Nested: TypeAlias = Array | Mapping[Any, "Nested"] | Sequence["Nested"] | None

# A loss is a scalar tensor, or a function that returns one.
Loss: TypeAlias = tf.Tensor | Callable[[], tf.Tensor]

# A gradient that is not None.
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices

# A gradient, which is None for a variable that the loss does not depend on, and its variable.
GradientAndVariable: TypeAlias = tuple[Gradient | None, tf.Variable]
