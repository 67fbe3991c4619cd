"""Tests of the examples: they learn, print true statements, and end cleanly."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_condacc.examples import async_digits, digits, word_vectors
from tf_condacc.examples.common import data
from tf_condacc.examples.common.sparse_means import Comparison, compare
from tf_condacc.examples.common.text import Text

import tf_condacc
from tests.processes.programs import run_program

# For each word, the set contains words that are used with it. The nearest one differs from run to
# run.
_USED_TOGETHER = {
    "class": {"cls", "instance", "__new__", "derived"},
    "exception": {"raised", "handler", "caught", "handled", "occurred"},
    "finally": {"try", "clause", "except"},
    "function": {"generator", "coroutine", "body", "__doc__"},
    "import": {"imported", "__future__", "module", "feature"},
    "integer": {"integers", "floating", "decimal", "presentation"},
}
_OURS = tf_condacc.SparseConditionalAccumulator
_THEIRS = tf.compat.v1.SparseConditionalAccumulator


def _cell(table: str, row: str) -> str:
    """Returns the value beside a row's name in the table."""
    return re.search(rf"^  {re.escape(row)}  +(.*)$", table, re.MULTILINE).group(1)


def _number(table: str, row: str) -> float:
    return float(_cell(table, row).partition(" ")[0].replace(",", ""))


def test_the_digits_and_their_split_do_not_change():
    train, test = data.load(seed=1)
    assert train.images.shape == (1437, 8, 8, 1) and test.images.shape == (360, 8, 8, 1)
    assert np.bincount(test.labels).tolist() == [36, 36, 35, 37, 36, 37, 36, 36, 35, 36]
    every = b"".join(
        part.tobytes() for each in (train, test) for part in (each.images, each.labels)
    )
    assert zlib.crc32(every) == 2147205363


@pytest.mark.parametrize("backend", ["condacc", pytest.param("tf", marks=pytest.mark.long)])
def test_it_learns_and_says_what_happened(backend: str, tmp_path: Path):
    picture, record = tmp_path / "picture.png", tmp_path / "losses.json"
    options = ["--output", str(picture), "--losses", str(record)]
    run = run_program("examples.word_vectors", "--backend", backend, "--steps", "1000", *options)

    assert run.returncode == 0, run.stderr
    history = json.loads(record.read_text())
    assert len(history["losses"]) == len(history["rows"]) == 1000
    assert np.mean(history["losses"][-50:]) < 0.75 * np.mean(history["losses"][:10])
    assert min(history["accepted"]) >= 3
    assert _cell(run.stdout, "steps") == "1,000"
    assert _number(run.stdout, "gradients applied") == sum(history["accepted"])
    assert _number(run.stdout, "loss at the end") < 0.8 * _number(run.stdout, "loss at first")
    learned = [
        word
        for word, others in _USED_TOGETHER.items()
        if others & set(_cell(run.stdout, word).split(", "))
    ]
    assert len(learned) >= 4, run.stdout
    assert re.fullmatch(
        r"[\d,]+ rows, 0 given out twice or more, 0 wrong means",
        _cell(run.stdout, f"tf_condacc {tf_condacc.__version__}"),
    )
    theirs = re.fullmatch(
        r"[\d,]+ rows, ([\d,]+) given out twice or more, ([\d,]+) wrong means",
        _cell(run.stdout, f"TensorFlow {tf.__version__}"),
    )
    assert "0" not in theirs.groups()
    assert ("This training used such means" in run.stdout) == (backend == "tf")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_short_run_says_that_it_used_wrong_means_of_tensorflow(tmp_path: Path):
    options = ["--steps", "20", "--output", str(tmp_path / "picture.png")]
    run = run_program("examples.word_vectors", "--backend", "tf", *options)

    assert run.returncode == 0, run.stderr
    assert "This training used such means" in run.stdout


def test_every_pushed_gradient_is_applied_dropped_or_still_pending():
    settings = word_vectors.Settings(workers=4, required=2, steps=100, batch_size=32)
    history, _, _ = word_vectors.train(settings, Text())

    assert history.pushed == sum(history.accepted) + history.dropped_in_all + history.pending
    assert history.dropped == sorted(history.dropped)


def test_one_worker_learns_the_same_through_both_classes():
    (ours, _, _), (theirs, _, _) = (
        word_vectors.train(
            word_vectors.Settings(workers=1, required=1, steps=50, backend=backend), Text()
        )
        for backend in ("condacc", "tf")
    )

    # TensorFlow's class returns the rows of a single gradient as they are, and the optimizer adds
    # them up. So the results differ by rounding only.
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-3)
    assert ours.rows == theirs.rows


def _gradient(indices: Sequence[int], values: Sequence[float]) -> tf.IndexedSlices:
    rows = np.array(values, np.float32)[:, np.newaxis]
    return tf.IndexedSlices(rows, np.array(indices), dense_shape=np.array([6, 1]))


@pytest.mark.parametrize(
    ("gradients", "theirs"),
    [
        # The rows are ascending and unique, so both libraries are right.
        ([([0, 2], [1, 2]), ([2, 5], [3, 4])], Comparison(rows=3, repeated=0, wrong=0)),
        # There is a single gradient, so the parts of a repeated row add up to its mean.
        ([([3, 1, 3], [1, 2, 4])], Comparison(rows=2, repeated=1, wrong=0)),
        # The parts of row 3 are merged. Those of row 0 are not, and add up to their sum instead of
        # the mean.
        ([([3, 0], [1, 2]), ([0, 3], [3, 5])], Comparison(rows=2, repeated=1, wrong=1)),
    ],
)
def test_the_comparison_counts_what_is_wrong(
    gradients: list[tuple[list[int], list[float]]], theirs: Comparison
):
    pushed = [_gradient(*gradient) for gradient in gradients]

    assert compare(_THEIRS, pushed) == theirs
    assert compare(_OURS, pushed) == Comparison(rows=theirs.rows, repeated=0, wrong=0)


def test_the_batches_of_a_shard_repeat_with_the_seed_and_stay_in_the_vocabulary():
    text = Text()
    first, again = (list(islice(text.batches(1, 4, 64, seed=3), 40)) for _ in range(2))

    for batch, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(batch.words, same.words)
        np.testing.assert_array_equal(batch.candidates, same.candidates)
        assert batch.words.shape == (64,)
        assert batch.candidates.shape[0] == 64 and batch.candidates.shape[1] > 1
        assert batch.candidates.min() >= 0
        assert max(batch.candidates.max(), batch.words.max()) < len(text.vocabulary)


@pytest.mark.parametrize("program", [digits, async_digits], ids=lambda program: program.__name__)
def test_an_error_in_a_worker_ends_the_training(program: Any, monkeypatch: pytest.MonkeyPatch):
    def batches_that_fail(examples, batch_size, seed):
        for _ in range(5):
            yield examples[:batch_size]
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(data, "batches", batches_that_fail)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        program.train(program.Settings())
