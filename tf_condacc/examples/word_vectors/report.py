"""The table of results, the nearest words, and the comparison of means."""

from __future__ import annotations

import statistics

from tf_condacc.examples.common import backends, report
from tf_condacc.examples.word_vectors import model
from tf_condacc.examples.word_vectors.comparison import Comparison, compare
from tf_condacc.examples.word_vectors.text import Text
from tf_condacc.examples.word_vectors.training import History, Learned, Settings

WORDS = ("list", "integer", "exception", "import", "string", "class", "function", "finally")
_NEIGHBOURS = 5
_AT_AN_END = 25  # Number of steps.


def table(history: History, settings: Settings, text: Text, accumulator: str) -> str:
    """Returns the table of results as lines of text."""
    words, neighbours = (
        f"{statistics.mean(rows):,.0f}" for rows in zip(*history.rows, strict=True)
    )
    size = f"{len(text.vocabulary):,}"
    return report.table(
        [
            ("accumulator", accumulator),
            ("text", f"{len(text):,} words, {size} different ones"),
            ("workers", f"{settings.num_workers}, the chief waits for {settings.num_required}"),
            ("steps", f"{len(history.losses):,}"),
            ("loss at first", f"{_mean(history.losses[:_AT_AN_END]):.4f}"),
            ("loss at the end", f"{_mean(history.losses[-_AT_AN_END:]):.4f}"),
            *report.gradients(history),
            ("rows updated per step", f"{words} of words, {neighbours} of neighbours, of {size}"),
            ("seconds", f"{history.seconds:.1f}"),
        ]
    )


def neighbours(learned: Learned, text: Text) -> str:
    """Returns the nearest words of some words as lines of text."""
    known = [word for word in WORDS if word in text.number_of]
    rows = []
    for word in known:
        near = model.nearest(learned.vectors, text.number_of[word], _NEIGHBOURS)
        rows.append((word, ", ".join(text.vocabulary[number] for number in near)))
    return "Nearest words\n" + report.table(rows)


def comparisons(learned: Learned) -> dict[str, Comparison]:
    """Returns the comparisons of both backends with NumPy, by the titles of the backends."""
    return {
        backend.title: sum(
            (compare(backend.sparse, gradients) for gradients in learned.probed),
            start=Comparison(0, 0, 0),
        )
        for backend in (backends.condacc(), backends.tensorflow())
    }


def correctness(results: dict[str, Comparison], learned: Learned, trained_with: str) -> str:
    """Returns the results of the comparisons as lines of text."""
    count, size = len(learned.probed[0]), len(learned.probed[0][0].indices)
    rows = [
        (title, f"{r.rows:,} rows, {r.repeated:,} given out twice or more, {r.wrong:,} wrong means")
        for title, r in results.items()
    ]
    text = f"The mean of {count} gradients of both embeddings, compared with numpy\n"
    text += report.table(rows)
    used = results[trained_with]
    if used.wrong or used.repeated:
        text += (
            "\n  This training used such means: TensorFlow's class assumes that the rows of a"
            "\n  gradient ascend and do not repeat. Those of tf.gather, one for each of the "
            f"{size:,}\n  words of a batch in its order, do neither. It gives out a row in several "
            "parts,\n  each divided by a count of its own, and an optimizer adds up the parts."
        )
    return text


def _mean(losses: list[float]) -> float:
    return statistics.fmean(losses)
