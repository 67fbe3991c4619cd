"""The examples learn, and print what happened."""

from __future__ import annotations

import re

import pytest

from tests.examples.programs import output_of

_examples = pytest.mark.examples
# For each word, words that are used with it. The nearest ones differ from run to run.
_USED_TOGETHER = {
    "class": {"cls", "instance", "__new__", "derived", "metaclass", "base"},
    "exception": {"raised", "handler", "handlers", "caught", "handled", "occurred", "clause"},
    "finally": {"try", "clause", "except"},
    "function": {"generator", "coroutine", "body", "definition", "__doc__"},
    "import": {"imported", "__future__", "module", "feature"},
    "integer": {"integers", "floating", "decimal", "presentation", "__index__"},
}


def _cell(table: str, name: str) -> str:
    """Returns the value beside a name in the table."""
    found = re.search(rf"^  {re.escape(name)}  +(.*)$", table, re.MULTILINE)
    assert found, table
    return found[1]


@_examples
def test_four_workers_learn_the_digits(tmp_path):
    table = output_of("digits", "--steps", 300, folder=tmp_path)
    assert float(_cell(table, "test accuracy")) >= 0.95
    assert float(_cell(table, "loss at the end")) < 0.2
    assert int(_cell(table, "gradients applied").replace(",", "")) >= 3 * 300


def test_one_worker_learns_the_same_through_the_accumulators_of_both_libraries(tmp_path):
    options = ("--steps", 60, "--workers", 1)
    ours = output_of("digits", *options, folder=tmp_path)
    theirs = output_of("digits", *options, "--backend", "tf", folder=tmp_path)
    for name in ("test accuracy", "loss at the end", "gradients applied"):
        assert _cell(ours, name) == _cell(theirs, name)
    assert _cell(ours, "gradients applied") == "60"
    assert _cell(ours, "gradients dropped") == "0"
    assert _cell(theirs, "gradients dropped") == "TensorFlow's class does not count them"


def _asynchronous(table):
    """Returns accuracy, applied and dropped gradients, and staleness: dropping and not dropping."""
    lines = re.findall(
        r"^  (.*): +test accuracy (\S+), (\d+) gradients applied, (\d+) dropped, "
        r"staleness up to (\d+)",
        table,
        re.MULTILINE,
    )
    assert [line[0] for line in lines] == ["dropping", "not dropping"]
    return [tuple(map(float, line[1:])) for line in lines]


@_examples
def test_each_gradient_of_asynchronous_workers_is_applied_or_dropped(tmp_path):
    table = output_of("async_digits", "--steps", 200, folder=tmp_path)
    (_, applied, dropped, _), (_, *all_applied, _) = _asynchronous(table)
    assert applied + dropped == 200
    assert all_applied == [200, 0]


@_examples
def test_one_asynchronous_worker_learns_and_is_never_stale(tmp_path):
    options = ("--steps", 100, "--workers", 1, "--staleness", 0)
    for accuracy, *counts in _asynchronous(output_of("async_digits", *options, folder=tmp_path)):
        assert accuracy > 0.5
        assert counts == [100, 0, 0]


@pytest.mark.long  # Their threads must overlap, which no test can be sure of.
def test_gradients_of_workers_at_the_same_time_are_stale(tmp_path):
    table = output_of("digits", "--steps", 300, folder=tmp_path)
    assert int(_cell(table, "gradients dropped")) > 0
    table = output_of("async_digits", "--steps", 200, folder=tmp_path)
    (accuracy, _, dropped, _), (*_, late) = _asynchronous(table)
    assert accuracy > 0.5 and dropped > 0
    assert late > 3


@_examples
def test_word_vectors_are_learned_and_means_are_right(tmp_path):
    table = output_of("word_vectors", "--steps", 1000, folder=tmp_path)
    first, last = re.findall(r"\d+\.\d+", _cell(table, "loss"))
    assert float(last) < 0.75 * float(first)
    learned = [
        word
        for word, others in _USED_TOGETHER.items()
        if others & set(_cell(table, f"near {word}").split(", "))
    ]
    assert len(learned) >= 4, table
    assert "wrong means of tf_condacc's accumulator: 0 rows" in table
    assert re.search("wrong means of TensorFlow's accumulator: [1-9]", table)


@_examples
def test_towers_learn_evaluate_and_predict(tmp_path):
    table = output_of("towers", "--steps", 60, folder=tmp_path)
    lines = re.findall(r"^  (\d) towers? +loss (\S+), test accuracy (\S+)$", table, re.MULTILINE)
    assert [number for number, _, _ in lines] == ["1", "2", "4"]
    for _, loss, accuracy in lines:
        assert float(loss) < 0.5
        assert float(accuracy) > 0.9
