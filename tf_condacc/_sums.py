"""Sums of the gradients of a variable that occurs several times in a list."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from tf_condacc._typing import Gradient, GradientAndVariable


def added_up(grads_and_vars: Iterable[GradientAndVariable]) -> list[GradientAndVariable]:
    """Adds up the gradients of each variable, so that it occurs once.

    A program that joins the lists of two losses has a gradient of each loss for a variable. Their
    sum is the gradient of the sum of the losses. An optimizer that applies a list without adding up
    makes two updates instead.

    Args:
        grads_and_vars: Pairs of a gradient and a variable. A gradient is a dense tensor
            `[d0, …] dtype`, ``tf.IndexedSlices`` of such a tensor, or None.

    Returns:
        A list of pairs in the order of the first occurrences. A sum is ``tf.IndexedSlices`` if all
        of its gradients are, and otherwise dense. The gradient of a variable that occurs once is
        unchanged; None stands for a variable without any gradient.
    """
    variables: dict[int, tf.Variable] = {}
    gradients: dict[int, list[Gradient]] = {}
    for gradient, variable in grads_and_vars:
        variables.setdefault(id(variable), variable)
        found = gradients.setdefault(id(variable), [])
        if gradient is not None:
            found.append(gradient)
    return [(_sum(gradients[key]), variable) for key, variable in variables.items()]


def _sum(gradients: list[Gradient]) -> Gradient | None:
    if len(gradients) <= 1:
        return gradients[0] if gradients else None
    sparse = [each for each in gradients if isinstance(each, tf.IndexedSlices)]
    dense = [each for each in gradients if not isinstance(each, tf.IndexedSlices)]
    if not dense:
        return _joined(sparse)
    dtype = dense[0].dtype.base_dtype
    # Like all sums of this package, those of float16 and bfloat16 are rounded once.
    wide = tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype
    total = tf.add_n([tf.cast(each, wide) for each in dense])
    if sparse:
        rows = _joined(sparse)
        indices = tf.expand_dims(rows.indices, 1)
        total = tf.tensor_scatter_nd_add(total, indices, tf.cast(rows.values, wide))
    return tf.cast(total, dtype)


def _joined(gradients: list[tf.IndexedSlices]) -> tf.IndexedSlices:
    """Returns the slices of all gradients. Repeated rows are added where they are applied."""
    shapes = [each.dense_shape for each in gradients if each.dense_shape is not None]
    indices = [tf.cast(each.indices, tf.int64) for each in gradients]
    return tf.IndexedSlices(
        tf.concat([each.values for each in gradients], 0),
        tf.concat(indices, 0),
        shapes[0] if shapes else None,
    )
