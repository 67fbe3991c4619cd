"""Skip-gram with negative sampling: two vectors for each word, in the TensorFlow 1 style."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@dataclass(frozen=True)
class Embeddings:
    """A vector for each word as itself, and one for each as a neighbour of others."""

    of_words: tf.Variable
    of_neighbours: tf.Variable

    @property
    def every(self) -> list[tf.Variable]:
        return [self.of_words, self.of_neighbours]


def embeddings(num_words: int, width: int, seed: int) -> Embeddings:
    """Makes the variables, ``[num_words, width]`` each."""
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
    """Mean over the batch of how badly the neighbour is told from the words drawn at random.

    Args:
      variables: the embeddings.
      words: int64 ``[n]``.
      candidates: int64 ``[n, k]``: the first of each row is the neighbour.
    """
    word = tf.gather(variables.of_words, words)
    candidate = tf.gather(variables.of_neighbours, candidates)
    scores = tf.reduce_sum(word[:, tf.newaxis] * candidate, axis=-1)
    is_neighbour = tf.one_hot(tf.zeros_like(words), tf.shape(candidates)[1])
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=is_neighbour, logits=scores)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def nearest(vectors: np.ndarray, word: int, count: int) -> np.ndarray:
    """Numbers of the words whose vectors point most nearly where that of ``word`` does."""
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarities = directions @ directions[word]
    similarities[word] = -np.inf
    return np.argsort(-similarities)[:count]
