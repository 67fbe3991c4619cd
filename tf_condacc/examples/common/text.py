"""The text, its vocabulary, and the batches of neighbouring words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pydoc_data.topics import topics

import numpy as np

_WORD = re.compile(r"[a-z_][a-z_0-9]+")
_MIN_COUNT = 5
_WINDOW = 4
_NEGATIVES = 5
_NOISE_POWER = 0.75
_FREQUENT = 1e-3  # Words with a higher share of the text are left out at random.


@dataclass(frozen=True)
class Batch:
    """A batch of words and candidates, as numbers in the vocabulary.

    Attributes:
        words: `[n] int64`.
        candidates: A neighbour of each word in the text, followed by random words:
            `[n, 1 + negatives] int64`.
    """

    words: np.ndarray
    candidates: np.ndarray


class Text:
    """The paragraphs of the language reference, as numbers of words.

    Attributes:
        vocabulary: The words, the most frequent first. Rare words are left out.
        number_of: The number of each word in the vocabulary.
    """

    def __init__(self) -> None:
        paragraphs = [_WORD.findall(paragraph.lower()) for paragraph in _paragraphs()]
        counts = Counter(word for paragraph in paragraphs for word in paragraph)
        common = [(word, count) for word, count in counts.most_common() if count >= _MIN_COUNT]
        self.vocabulary = [word for word, _ in common]
        self.number_of = {word: number for number, word in enumerate(self.vocabulary)}
        self._paragraphs = [
            np.array([self.number_of[word] for word in paragraph if word in self.number_of], int)
            for paragraph in paragraphs
        ]
        frequencies = np.array([count for _, count in common], float)
        shares = frequencies / frequencies.sum()
        self._keep = np.minimum(1, np.sqrt(_FREQUENT / shares) + _FREQUENT / shares)
        noise = np.cumsum(shares**_NOISE_POWER)
        self._noise = noise / noise[-1]

    def __len__(self) -> int:
        return sum(map(len, self._paragraphs))

    def batches(self, shard: int, num_shards: int, size: int, seed: int) -> Iterator[Batch]:
        """Yields batches without end, from every ``num_shards``-th paragraph.

        Args:
            shard: Index of the first paragraph.
            num_shards: Number of shards.
            size: Number of words in a batch.
            seed: Seed of the random words and the shuffles.
        """
        rng = np.random.default_rng([seed, shard])
        paragraphs = self._paragraphs[shard::num_shards]
        words = np.concatenate(paragraphs)
        paragraph_of = np.repeat(np.arange(len(paragraphs)), [len(p) for p in paragraphs])
        rest = np.empty((0, 2), int)
        while True:
            rest = np.concatenate([rest, self._pairs(words, paragraph_of, rng)])
            while len(rest) >= size:
                pairs, rest = rest[:size], rest[size:]
                negatives = np.searchsorted(self._noise, rng.random((size, _NEGATIVES)))
                yield Batch(pairs[:, 0], np.concatenate([pairs[:, 1:], negatives], axis=1))

    def _pairs(
        self, words: np.ndarray, paragraph_of: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Returns the shuffled pairs of a word and a neighbour of one pass over the text: `[n, 2]`.

        Near neighbours are chosen more often than distant ones.
        """
        kept = rng.random(len(words)) < self._keep[words]
        words, paragraph_of = words[kept], paragraph_of[kept]
        pairs = []
        for distance in range(1, _WINDOW + 1):
            left, right = words[:-distance], words[distance:]
            together = paragraph_of[:-distance] == paragraph_of[distance:]
            chosen = together & (rng.random(len(left)) < (_WINDOW + 1 - distance) / _WINDOW)
            pair = np.stack([left[chosen], right[chosen]], axis=1)
            pairs += [pair, pair[:, ::-1]]
        return rng.permutation(np.concatenate(pairs))


def _paragraphs() -> list[str]:
    """Returns each paragraph once. Some paragraphs are part of several topics."""
    return list(dict.fromkeys(p for text in topics.values() for p in re.split(r"\n\s*\n", text)))
