"""The placeholders that examples are fed into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.digits.data import IMAGE_SHAPE, Examples


@dataclass(frozen=True)
class Inputs:
    """Placeholders for examples.

    Attributes:
        images: `[n, 8, 8, 1] float32`.
        labels: `[n] int64`.
    """

    images: tf.Tensor
    labels: tf.Tensor

    def feed(self, examples: Examples) -> dict[tf.Tensor, Any]:
        """Returns the feed dictionary of some examples."""
        return {self.images: examples.images, self.labels: examples.labels}


def placeholders() -> Inputs:
    """Makes placeholders for any number of examples."""
    return Inputs(
        images=v1.placeholder(tf.float32, [None, *IMAGE_SHAPE], name="images"),
        labels=v1.placeholder(tf.int64, [None], name="labels"),
    )
