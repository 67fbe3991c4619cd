"""Handwritten digits, split into training and test examples and into batches.

The file ``digits.txt`` names the source of the images and their license.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

IMAGE_SHAPE = (8, 8, 1)
NUM_CLASSES = 10
NUM_TEST_EXAMPLES = 360
_MAX_PIXEL = 16.0
_FILE = Path(__file__).with_name("digits.npz")


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
        seed: Seed of the random split. Each class has its share of both parts.
    """
    with np.load(_FILE) as digits:
        images = (digits["images"] / _MAX_PIXEL).astype(np.float32).reshape(-1, *IMAGE_SHAPE)
        labels = digits["labels"].astype(np.int64)
    train, test = _split(labels, len(labels) - NUM_TEST_EXAMPLES, np.random.RandomState(seed))
    every = Examples(images, labels)
    return every[train], every[test]


def _split(
    labels: np.ndarray, num_train: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of the training examples and those of the other examples, shuffled."""
    sizes = np.bincount(labels)
    num_train_of = _shares(sizes, num_train, rng)
    train, test = [], []
    for label, count in enumerate(num_train_of):
        examples = rng.permutation(np.flatnonzero(labels == label))
        train.append(examples[:count])
        test.append(examples[count:])
    return rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(test))


def _shares(sizes: np.ndarray, total: int, rng: np.random.RandomState) -> np.ndarray:
    """Divides a total in proportion to sizes. The largest remainders are rounded up.

    Equal remainders are put into a random order.
    """
    exact = sizes / sizes.sum() * total
    shares = np.floor(exact).astype(np.int64)
    remainders = exact - shares
    for remainder in np.unique(remainders)[::-1]:
        missing = total - shares.sum()
        if missing == 0:
            break
        shares[rng.permutation(np.flatnonzero(remainders == remainder))[:missing]] += 1
    return shares


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
