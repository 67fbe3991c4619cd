"""Skip-gram with negative sampling, in the TensorFlow 1 style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.examples.common.text import Batch


class SkipGram:
    """The model on a batch that is fed. All models in a graph share the variables.

    Args:
        num_words: Size of the vocabulary.
        width: Size of a word's vector.
        seed: Seed of the initial vectors.
        after: Tensors to compute before the variables are read.

    Attributes:
        of_words: Vectors of the words themselves: `[num_words, width] float32`.
        of_neighbours: Vectors of the words as neighbours of others: `[num_words, width] float32`.
        loss: Mean cross entropy of telling the neighbours from random words: `[] float32`.
    """

    def __init__(self, num_words: int, width: int, seed: int, after: Sequence[tf.Tensor] = ()):
        shape, bound = [num_words, width], 0.5 / width
        uniform, zeros = v1.random_uniform_initializer(-bound, bound, seed), v1.zeros_initializer()
        with v1.variable_scope("embeddings", reuse=v1.AUTO_REUSE, use_resource=True):
            self.of_words = v1.get_variable("of_words", shape, initializer=uniform)
            self.of_neighbours = v1.get_variable("of_neighbours", shape, initializer=zeros)
        self._words = v1.placeholder(tf.int64, [None], name="words")
        self._candidates = v1.placeholder(tf.int64, [None, None], name="candidates")
        # The placeholders are made outside of this context. Inside, they would get the control
        # dependencies, and the operations that use them would not: TensorFlow leaves them out where
        # an input has them already. But a placeholder that is fed waits for nothing.
        with tf.control_dependencies(after):
            word = tf.gather(self.of_words, self._words)
            candidate = tf.gather(self.of_neighbours, self._candidates)
        scores = tf.reduce_sum(word[:, tf.newaxis] * candidate, axis=-1)
        # The first candidate of each word is its neighbour, and the others are random words.
        labels = tf.one_hot(tf.zeros_like(self._words), tf.shape(self._candidates)[1])
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores)
        self.loss = tf.reduce_mean(tf.reduce_sum(losses, axis=1))

    def feed(self, batch: Batch) -> dict[tf.Tensor, Any]:
        """Returns the feed dictionary of a batch."""
        return {self._words: batch.words, self._candidates: batch.candidates}


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
