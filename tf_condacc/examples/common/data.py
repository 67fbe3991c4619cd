"""The digit images of scikit-learn, split into training and test examples and into batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

IMAGE_SHAPE = (8, 8, 1)
NUM_CLASSES = 10
NUM_TEST_EXAMPLES = 360
_MAX_PIXEL = 16.0


@dataclass(frozen=True)
class Examples:
    """Images and their labels.

    Attributes:
        images: Grey values between 0 and 1: `[n, 8, 8, 1] float32`.
        labels: The digits: `[n] int64`.
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: slice | np.ndarray) -> Examples:
        return Examples(self.images[index], self.labels[index])


def load(seed: int) -> tuple[Examples, Examples]:
    """Returns 1,437 training examples and 360 test examples, out of 1,797 scanned digits.

    Args:
        seed: Seed of the random split.
    """
    # Imported here, because other programs do not need scikit-learn.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = (digits.images / _MAX_PIXEL).astype(np.float32).reshape(-1, *IMAGE_SHAPE)
    labels = digits.target.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=NUM_TEST_EXAMPLES, random_state=seed, stratify=labels
    )
    every = Examples(images, labels)
    return every[train], every[test]


def batches(examples: Examples, batch_size: int, seed: int) -> Iterator[Examples]:
    """Yields batches without end, and shuffles the examples before each pass over them.

    Args:
        examples: The examples.
        batch_size: Number of examples in a batch, at most that of the examples.
        seed: Seed of the shuffles.

    Raises:
        ValueError: There are fewer examples than a batch has.
    """
    if batch_size > len(examples):
        raise ValueError(f"batch size {batch_size}, but a shard has {len(examples)} examples")
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(examples))
        for start in range(0, len(order) - batch_size + 1, batch_size):
            yield examples[order[start : start + batch_size]]


def dataset(batches: Iterable[Examples]) -> tf.data.Dataset:
    """Returns batches as the input of an Estimator: pairs of features and labels."""
    features = {"image": tf.TensorSpec([None, *IMAGE_SHAPE], tf.float32)}
    return tf.data.Dataset.from_generator(
        lambda: (({"image": batch.images}, batch.labels) for batch in batches),
        output_signature=(features, tf.TensorSpec([None], tf.int64)),
    )
