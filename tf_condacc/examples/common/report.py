"""The progress bar of a training, and the tables and the JSON file at its end."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1
from tqdm import tqdm

import tf_condacc
from tf_condacc.examples.common import command_line, machines, rounds, skip_gram, sparse_means
from tf_condacc.examples.common.records import AsyncHistory, ClusterHistory, History, Run
from tf_condacc.examples.common.text import Text
from tf_condacc.examples.common.tower_runs import TOLERANCE, Comparison

_WORDS = ("list", "integer", "exception", "import", "string", "class", "function", "finally")
_NEIGHBOURS = 5
_AT_AN_END = 25  # Number of steps or gradients.
_COLUMN = 30


class ProgressBar:
    """A progress bar on the terminal, with the step, the loss and the number of dropped gradients.

    Args:
        steps: Total number of steps.
        title: Text in front of the bar.
    """

    def __init__(self, steps: int, title: str | None = None):
        self._bar = tqdm(total=steps, desc=title, unit="step", dynamic_ncols=True, disable=None)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.close()

    def advance(self) -> None:
        """Moves the bar on by a step."""
        self._bar.update()

    def show(self, history: History | AsyncHistory) -> None:
        """Shows the record of a training so far."""
        if not history.losses:
            return
        fields = {"loss": f"{history.losses[-1]:.4f}"}
        if history.accuracies:
            fields["accuracy"] = f"{history.accuracies[-1][1]:.3f}"
        fields["dropped"] = str(history.dropped[-1]) if history.dropped else "?"
        self._bar.set_postfix(fields, refresh=False)
        self._bar.update(len(history.losses) - self._bar.n)


def save(record: object, settings: command_line.Settings) -> None:
    """Writes the settings and the record of a training as JSON, if the settings say so.

    Reading the losses back gives exactly the same numbers.
    """
    if settings.losses is not None:
        values = record if isinstance(record, dict) else vars(record)
        everything = {"settings": settings, **values}
        settings.losses.write_text(json.dumps(everything, indent=1, default=_as_json) + "\n")


def digits(history: History, settings: rounds.Settings) -> str:
    """Returns the results of a training with dense accumulators, as lines of text."""
    accuracy, loss = history.accuracies[-1][1], history.losses[-1]
    rows = [("test accuracy", f"{accuracy:.4f}"), ("final loss", f"{loss:.4f}")]
    return _rounds(history, settings, rows)


def word_vectors(history: History, settings: rounds.Settings, text: Text) -> str:
    """Returns the results of a training with sparse accumulators, as lines of text."""
    words, neighbours = (f"{mean:,.0f}" for mean in np.mean(history.rows, axis=0))
    first, last = history.losses[:_AT_AN_END], history.losses[-_AT_AN_END:]
    size = f"{len(text.vocabulary):,}"
    rows = [
        ("text", f"{len(text):,} words, {size} different ones"),
        ("loss at first", f"{statistics.fmean(first):.4f}"),
        ("loss at the end", f"{statistics.fmean(last):.4f}"),
        ("rows updated per step", f"{words} of words, {neighbours} of neighbours, of {size}"),
    ]
    return _rounds(history, settings, rows)


def nearest_words(vectors: np.ndarray, text: Text) -> str:
    """Returns the nearest words of some words, as lines of text."""
    rows = []
    for word in filter(text.number_of.__contains__, _WORDS):
        near = skip_gram.nearest(vectors, text.number_of[word], _NEIGHBOURS)
        rows.append((word, ", ".join(text.vocabulary[number] for number in near)))
    return "Nearest words\n" + _table(rows)


def sparse_comparison(gradients: Sequence[Sequence[tf.IndexedSlices]], trained_with: str) -> str:
    """Compares both libraries' means with those of NumPy, and returns the results as text.

    Args:
        gradients: Some gradients of each embedding.
        trained_with: The value of ``--backend``.
    """
    rows, results = [], {}
    for backend, library in (("condacc", tf_condacc), ("tf", v1)):
        every = [sparse_means.compare(library.SparseConditionalAccumulator, g) for g in gradients]
        result = sparse_means.Comparison(*map(sum, zip(*every, strict=True)))
        found = f"{result.repeated:,} given out twice or more, {result.wrong:,} wrong means"
        rows.append((rounds.title(backend), f"{result.rows:,} rows, {found}"))
        results[backend] = result
    head = f"The mean of {len(gradients[0])} gradients of both embeddings, compared with numpy"
    lines = f"{head}\n{_table(rows)}"
    used = results[trained_with]
    if used.wrong or used.repeated:
        lines += (
            "\n  This training used such means: TensorFlow's class assumes that the rows of a"
            "\n  gradient ascend and do not repeat. Those of tf.gather, one for each of the "
            f"{len(gradients[0][0].indices):,}\n  words of a batch in its order, do neither. It "
            "gives out a row in several parts,\n  each divided by a count of its own, and an "
            "optimizer adds up the parts."
        )
    return lines


def async_digits(histories: Mapping[str, AsyncHistory], staleness: int) -> str:
    """Returns the results of trainings without a chief side by side, as lines of text.

    Args:
        histories: The records by the trainings' names. The first is the one that drops gradients.
        staleness: The limit of that training.
    """

    def row(name: str, value: Callable[[AsyncHistory], str]) -> tuple[str, str]:
        return name, _columns(map(value, histories.values()))

    def of_worker(worker: int) -> tuple[str, str]:
        times = machines.times_as_long(worker)
        slow = "" if times == 1 else f", {times} times as slow"
        return row(f"  of worker {worker + 1}{slow}", lambda h: _counts([h.counts[worker]]))

    num_workers = len(next(iter(histories.values())).counts)
    return _table(
        [
            ("", _columns([f"staleness at most {staleness}", "any staleness"])),
            row("test accuracy", lambda h: f"{h.accuracies[-1][1]:.4f}"),
            row("loss at the end", lambda h: f"{statistics.fmean(h.losses[-_AT_AN_END:]):.4f}"),
            row("gradients", lambda h: _counts(h.counts)),
            *map(of_worker, range(num_workers)),
            row(
                "highest staleness applied",
                lambda h: str(max(turn.staleness for turn in h.turns if turn.accepted)),
            ),
            row("seconds", lambda h: f"{h.seconds:.1f}"),
        ]
    )


def cluster_digits(history: ClusterHistory) -> str:
    """Returns the results of a training on a cluster, as lines of text."""
    seconds = history.moments[-1] - history.moments[0]
    return _table(
        [
            ("test accuracy", f"{history.accuracies[-1]:.4f}"),
            ("loss", f"{history.losses[-1]:.4f}"),
            ("steps", f"{history.steps[-1]:,}"),
            ("gradients dropped", f"{history.dropped[-1]:,}"),
            ("seconds", f"{seconds:.1f}"),
            *[(f"worker {event}", f"after {at:.1f} s") for event, at in history.faults],
        ]
    )


def towers(runs: Sequence[Run], steps: int, batch_size: int) -> str:
    """Returns the results of the trainings with batch normalization, as lines of text."""
    rows = [
        (
            run.title,
            f"loss {run.losses[-1]:.4f}, test accuracy {run.accuracy:.4f} "
            f"(predicted classes: {run.predicted:.4f}), {1e3 * run.step_seconds:.1f} ms a step",
        )
        for run in runs
    ]
    return f"Trained for {steps:,} steps of {batch_size} digits each:\n{_table(rows)}"


def tower_differences(comparison: Comparison, steps: int) -> str:
    """Returns the differences from one tower on the whole batch, as lines of text."""
    rows = []
    for each in comparison.differences:
        verdict = "the same" if each.is_tolerable else f"more than the {TOLERANCE:.0e} of rounding"
        largest = f"{each.largest[-1]:.1e} after the last step, {max(each.largest):.1e} at most"
        rows.append((each.title, f"{largest}: {verdict}"))
    return (
        f"Without batch normalization, {steps} steps from the same weights on the same batches.\n"
        "Largest difference of a weight from one tower on the whole batch, which moves them by up "
        f"to {comparison.moved:.2f}:\n{_table(rows)}"
    )


def _rounds(history: History, settings: rounds.Settings, rows: Sequence[tuple[str, str]]) -> str:
    """Returns the results of a training with a chief, with some further rows.

    The gradients of all variables that a worker pushes in one turn count as one gradient. The
    accumulator of the losses counts these.
    """
    applied = sum(history.accepted)
    if history.dropped_in_all is None:
        late = history.pushed - applied - history.pending
        dropped = f"{late:,} (pushed less applied; TensorFlow's class does not count them)"
    else:
        dropped = f"{history.dropped_in_all:,}"
    return _table(
        [
            ("accumulator", rounds.title(settings.backend)),
            ("workers", f"{settings.workers}, the chief waits for {settings.required}"),
            ("steps", f"{len(history.losses):,}"),
            *rows,
            ("gradients applied", f"{applied:,}"),
            ("gradients dropped", dropped),
            ("seconds", f"{history.seconds:.1f}"),
        ]
    )


def _counts(counts: Sequence[tuple[int, int]]) -> str:
    accepted, dropped = map(sum, zip(*counts, strict=True))
    return f"{accepted:,} applied, {dropped:,} dropped"


def _columns(values: Iterable[str]) -> str:
    return "".join(f"{value:<{_COLUMN}}" for value in values).rstrip()


def _table(rows: Sequence[tuple[str, str]]) -> str:
    """Returns rows of names and values as lines of text."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def _as_json(value: object) -> object:
    return str(value) if isinstance(value, Path) else vars(value)
