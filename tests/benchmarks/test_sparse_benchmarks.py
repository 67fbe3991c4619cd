"""Tests of the benchmark's sparse cases: data, checks and errors. No timing is judged."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from condacc_bench import implementations  # noqa: E402
from condacc_bench.cases import memory, sparse_cycle, sparse_data  # noqa: E402


def test_a_sparse_case_refuses_an_accumulator_that_cannot_take_its_rows():
    theirs = implementations.tensorflow()
    gradients = np.array([[3, 1, 3], [1, 3, 3]])
    careless = replace(theirs, name="careless", takes_any_rows=True)

    with pytest.raises(AssertionError, match="expected rows"):
        sparse_cycle.SparseCycle(careless, gradients, (5, 2), raw=True)
    for implementation in (theirs, implementations.condacc()):
        sparse_cycle.SparseCycle(implementation, gradients, (5, 2), raw=True).close()


@pytest.mark.parametrize(("max_step_bytes", "steps"), [(1 << 20, 1), (3 * 16, 2), (0, 6)])
def test_a_sparse_cycle_is_made_in_steps_that_fit(max_step_bytes: int, steps: int):
    gradients = sparse_data.uniform(num_rows=20, rows=2, count=6)
    case = sparse_cycle.SparseCycle(
        implementations.condacc(), gradients, (20, 2), max_step_bytes=max_step_bytes
    )

    assert case.measure()["cycle"] > 0
    assert len(case.apply_each()) == steps
    case.take()
    case.check_result()
    case.close()


def test_rows_are_drawn_as_they_should_be():
    even = sparse_data.uniform(num_rows=50, rows=20, count=4)
    drawn = sparse_data.power_law(num_rows=50, rows=40, count=4)
    unique = sparse_data.sorted_and_unique(drawn)

    assert even.shape == (4, 20) and drawn.shape == (4, 40)
    for rows in (*even, *unique):
        assert np.all(np.diff(rows) > 0)
        assert 0 <= rows.min() and rows.max() < 50
    for rows, deduplicated in zip(drawn, unique, strict=True):
        assert np.any(np.diff(rows) < 0) and len(np.unique(rows)) < len(rows)
        assert np.isin(deduplicated, rows).all()


def test_rows_by_other_numbers_are_as_many_and_as_frequent():
    drawn = sparse_data.power_law(num_rows=50, rows=40, count=4)
    for others in (sparse_data.hashed(drawn), sparse_data.with_slots(drawn)):
        assert others.dtype == np.int64 and others.min() >= 0 and others.max() > 2**50
        assert len(set(zip(drawn.flat, others.flat, strict=True))) == len(np.unique(drawn))
        assert len(np.unique(others)) == len(np.unique(drawn))


def test_the_expected_mean_counts_a_row_once_for_each_gradient_it_is_in():
    rows, means = sparse_data.mean(np.array([[3, 1, 3], [4, 3, 4]]), [1.0, 10.0])

    assert rows.tolist() == [1, 3, 4]
    assert means.tolist() == [1.0, (2 + 10) / 2, 20.0]


def test_rows_are_deduplicated_for_tensorflow_in_the_graph():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = tf.constant([[1.0], [2.0], [4.0], [8.0]])
        deduplicated = sparse_data.deduplicate(tf.constant([7, 2, 7, 0], tf.int64), values)
        indices, sums = session.run(deduplicated)

    assert indices.tolist() == [0, 2, 7]
    assert sums.tolist() == [[8.0], [2.0], [5.0]]


@pytest.mark.benchmarks
@pytest.mark.parametrize("name", [pytest.param("tf", marks=pytest.mark.long), "condacc"])
def test_peak_memory_counts_the_gradients(name: str):
    size, count = 4 << 20, 3
    case = memory.PeakMemory(name, "dense", size, count, (0, 0), "gradients", 4 * size)

    # The peak is at least the accumulated gradient. It is at most every gradient, their mean, and
    # the memory that TensorFlow itself has taken in the meantime.
    assert 1 <= case.measure()["peak 1, gradients"] <= count + 2
