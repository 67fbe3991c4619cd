"""Skip-gram with negative sampling, in the TensorFlow 1 style."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1


@dataclass(frozen=True)
class Embeddings:
    """The variables of the model, which hold two vectors for each word.

    Attributes:
        of_words: Vectors of the words themselves: `[num_words, width] float32`.
        of_neighbours: Vectors of the words as neighbours of others: `[num_words, width] float32`.
    """

    of_words: tf.Variable
    of_neighbours: tf.Variable

    @property
    def every(self) -> list[tf.Variable]:
        """Both variables."""
        return [self.of_words, self.of_neighbours]


def embeddings(num_words: int, width: int, seed: int) -> Embeddings:
    """Makes the variables.

    Args:
        num_words: Size of the vocabulary.
        width: Size of a word's vector.
        seed: Seed of the initial vectors.
    """
    return Embeddings(
        of_words=v1.get_variable(
            "of_words",
            [num_words, width],
            initializer=v1.random_uniform_initializer(-0.5 / width, 0.5 / width, seed=seed),
            use_resource=True,
        ),
        of_neighbours=v1.get_variable(
            "of_neighbours",
            [num_words, width],
            initializer=v1.zeros_initializer(),
            use_resource=True,
        ),
    )


def loss(variables: Embeddings, words: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross entropy of telling the neighbours from random words: `[] float32`.

    Args:
        variables: The embeddings.
        words: Numbers of words: `[n] int64`.
        candidates: A neighbour of each word, followed by random words: `[n, k] int64`.
    """
    word = tf.gather(variables.of_words, words)
    candidate = tf.gather(variables.of_neighbours, candidates)
    scores = tf.reduce_sum(word[:, tf.newaxis] * candidate, axis=-1)
    is_neighbour = tf.one_hot(tf.zeros_like(words), tf.shape(candidates)[1])
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=is_neighbour, logits=scores)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def nearest(vectors: np.ndarray, word: int, count: int) -> np.ndarray:
    """Returns the words with the highest cosine similarity to a word: `[count] int64`.

    Args:
        vectors: Vectors of all words: `[num_words, width]`.
        word: Number of the word.
        count: Number of words to return.
    """
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarities = directions @ directions[word]
    similarities[word] = -np.inf
    return np.argsort(-similarities)[:count]
