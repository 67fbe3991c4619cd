"""Contributions, takes of a round and resets on the server of another task."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.accumulators.support.outcomes import ADDED, AHEAD, DUPLICATE, STALE
from tests.processes.clusters import LocalCluster
from tests.support.accumulator_support import unique_name

v1 = tf.compat.v1


class Remote:
    """An accumulator on the parameter server, and sessions of the worker that use it."""

    def __init__(self, cluster: LocalCluster, is_sparse: bool) -> None:
        self.name = unique_name("remote")
        self._is_sparse = is_sparse
        with tf.Graph().as_default() as graph:
            self._value = v1.placeholder(tf.float32, [])
            self._contributor = v1.placeholder(tf.int64, [])
            self._step = v1.placeholder(tf.int64, [])
            self._required = v1.placeholder(tf.int32, [])
            with v1.device("/job:worker"):
                gradient = self._value * tf.ones([1, 2])
            with v1.device("/job:ps"):
                self._build(gradient)
        self.session = v1.Session(cluster.targets[0], graph=graph)
        self.other_session = v1.Session(cluster.targets[0], graph=graph)

    def _build(self, gradient: tf.Tensor) -> None:
        arguments = {"shape": [3, 2] if self._is_sparse else [1, 2], "shared_name": self.name}
        if self._is_sparse:
            sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, **arguments)
            slices = tf.IndexedSlices(gradient, tf.constant([1], tf.int64))
            self._contribute = sparse.apply_indexed_slices_contribution(
                slices, self._contributor, self._step
            )
            self._take = sparse.try_take_indexed_slices_grad(self._required, global_step=self._step)
            accumulator = sparse
        else:
            dense = tf_condacc.ConditionalAccumulator(tf.float32, **arguments)
            self._contribute = dense.apply_contribution(gradient, self._contributor, self._step)
            self._take = dense.try_take_grad(self._required, global_step=self._step)
            accumulator = dense
        self._reset = accumulator.reset(self._step)

    def contribute(self, value: float, contributor: int, step: int, session=None) -> int:
        feed = {self._value: value, self._contributor: contributor, self._step: step}
        return int((session or self.session).run(self._contribute, feed))

    def take(self, required: int, step: int) -> float | None:
        """Returns what the elements of the taken gradient are, or None if nothing was taken."""
        taken, value = self.session.run(self._take, {self._required: required, self._step: step})
        if not taken:
            return None
        elements = value.values if self._is_sparse else value
        assert elements.shape == (1, 2)
        assert np.all(elements == elements[0, 0])
        return float(elements[0, 0])

    def reset(self, step: int) -> int:
        return int(self.session.run(self._reset, {self._step: step}))


@pytest.fixture(params=[False, True], ids=["dense", "sparse"])
def remote(request, cluster):
    made = Remote(cluster, request.param)
    yield made
    made.session.close()
    made.other_session.close()


def test_outcomes_come_back_to_the_worker(remote: Remote):
    assert remote.contribute(2.0, contributor=0, step=0) == ADDED
    assert remote.contribute(8.0, contributor=0, step=0) == DUPLICATE
    assert remote.contribute(8.0, contributor=1, step=1) == AHEAD
    assert remote.contribute(4.0, contributor=1, step=0) == ADDED
    assert remote.take(2, step=0) == 3.0
    assert remote.contribute(8.0, contributor=2, step=0) == STALE


def test_a_contributor_of_another_session_is_the_same(remote: Remote):
    assert remote.contribute(2.0, contributor=5, step=0) == ADDED
    assert remote.contribute(8.0, contributor=5, step=0, session=remote.other_session) == DUPLICATE
    assert remote.take(1, step=0) == 2.0


def test_a_take_of_another_round_or_of_too_many_takes_nothing(remote: Remote):
    assert remote.contribute(2.0, contributor=0, step=0) == ADDED
    assert remote.take(2, step=0) is None
    assert remote.take(1, step=1) is None
    assert remote.take(1, step=0) == 2.0
    assert remote.take(1, step=0) is None


def test_a_reset_discards_a_round_and_begins_another(remote: Remote):
    assert remote.contribute(2.0, contributor=0, step=0) == ADDED
    assert remote.contribute(2.0, contributor=1, step=0) == ADDED
    assert remote.reset(7) == 2
    assert remote.contribute(8.0, contributor=0, step=0) == STALE
    assert remote.contribute(6.0, contributor=0, step=7) == ADDED
    assert remote.take(1, step=7) == 6.0


def test_the_error_of_a_bad_contributor_names_the_accumulator_and_changes_nothing(remote: Remote):
    with pytest.raises(tf.errors.InvalidArgumentError, match=remote.name):
        remote.contribute(8.0, contributor=-1, step=0)
    assert remote.contribute(2.0, contributor=0, step=0) == ADDED
    assert remote.take(1, step=0) == 2.0
