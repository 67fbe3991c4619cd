"""Aliases for arguments that TensorFlow accepts in many forms."""

from __future__ import annotations

from typing import Any, TypeAlias

# Anything that tf.convert_to_tensor accepts: a tensor, a variable, an array, a number or a list.
TensorLike: TypeAlias = Any

# Anything that tf.TensorShape accepts: a shape, a list of dimensions, or None for an unknown rank.
ShapeLike: TypeAlias = Any

# Anything that tf.as_dtype accepts: a tf.DType, a NumPy type or a name.
DTypeLike: TypeAlias = Any

# A tensor, or dictionaries, tuples and lists of tensors, nested in any way.
Nested: TypeAlias = Any

# A gradient, which is a tensor, tf.IndexedSlices or None, and its variable.
GradientAndVariable: TypeAlias = tuple[Any, Any]
