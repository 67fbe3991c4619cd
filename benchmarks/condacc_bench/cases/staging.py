"""Gradients that are made beforehand, so that a timed step only takes them out of a buffer."""

from __future__ import annotations

import tensorflow as tf

from condacc_bench import implementations


class Stage:
    """A staging buffer of gradients. The operation that takes one out is its only owner.

    The time to take gradients out is subtracted from that of steps that apply them. It must not
    include the time to free all of them, which is longer than a cycle if they are large:
    TensorFlow's accumulator frees them in its applies, and ours frees most of them after the take.
    So they can be kept in a second buffer as well, until `free_kept` is run. The last one is not
    kept, because the steps that are timed free one buffer of this size as well, their result.

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
