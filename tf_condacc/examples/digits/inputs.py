"""Where examples are fed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_condacc.examples.digits.data import IMAGE_SHAPE, Examples

v1 = tf.compat.v1


@dataclass(frozen=True)
class Inputs:
    """Where examples are fed."""

    images: tf.Tensor
    labels: tf.Tensor

    def feed(self, examples: Examples) -> dict[tf.Tensor, Any]:
        """What a session is to be fed."""
        return {self.images: examples.images, self.labels: examples.labels}


def placeholders() -> Inputs:
    """Makes inputs for any number of examples."""
    return Inputs(
        images=v1.placeholder(tf.float32, [None, *IMAGE_SHAPE], name="images"),
        labels=v1.placeholder(tf.int64, [None], name="labels"),
    )
