"""Gradients that are made beforehand, so that a timed step only takes them out of a buffer."""

from __future__ import annotations

import tensorflow as tf

from condacc_bench import implementations


class Stage:
    """A staging buffer of gradients. The operation that takes one out is its only owner.

    The time to take gradients out is subtracted from that of a cycle that applies them. It depends
    on the accumulator whether the cycle also frees a gradient, in an apply, or whether it is freed
    when the take has returned. So the time that is subtracted must not include that. A gradient
    that is in a second buffer, too, is not freed when it is taken out, but by `free_kept`. The last
    gradient of a cycle is only in the first buffer, because the cycle frees its result, which is as
    large if gradients are dense, and at least as large if they are sparse.

    Args:
      values: The tensors of one gradient, with static shapes.
    """

    def __init__(self, values: list[tf.Tensor]):
        self._name = implementations.unique_name("stage")
        self.kept_name = implementations.unique_name("kept")
        self._dtypes = [value.dtype for value in values]
        self._shapes = [value.shape for value in values]
        self.fill = tf.raw_ops.Stage(values=values, shared_name=self._name)
        self.fill_and_keep = tf.group(
            self.fill, tf.raw_ops.Stage(values=values, shared_name=self.kept_name)
        )
        self.free_kept = tf.raw_ops.StageClear(dtypes=self._dtypes, shared_name=self.kept_name)

    def next(self) -> list[tf.Tensor]:
        """Returns the tensors of the next gradient in the buffer."""
        tensors = tf.raw_ops.Unstage(dtypes=self._dtypes, shared_name=self._name)
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(shape)
        return tensors
