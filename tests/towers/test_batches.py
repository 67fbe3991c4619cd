"""Tests of the distribution of a batch over the towers."""

from __future__ import annotations

import collections
import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tower_support import ModeKeys, X, linear_model_fn, new_session, replicate
from tf_condacc import estimator

v1 = tf.compat.v1
Pair = collections.namedtuple("Pair", ["left", "right"])


def parts(features: Any, labels: Any = None, num_towers: int = 2) -> list[tuple[Any, Any]]:
    """Returns the features and labels that each tower's model_fn gets, in the current graph."""
    given = []

    def model_fn(features, labels, mode):
        given.append((features, labels))
        return estimator.EstimatorSpec(mode, predictions=tf.zeros([1]))

    replicate(model_fn, num_towers, features, labels, ModeKeys.PREDICT)
    return given


def run(values: Any, feed: Any = None) -> Any:
    with new_session() as session:
        return session.run(values, feed)


def test_tensors_are_split_along_the_batch():
    with tf.Graph().as_default():
        (first, _), (second, _) = given = parts(tf.constant(X))
        assert first.shape == second.shape == [2, 3]
        values = run([features for features, _ in given])
    np.testing.assert_array_equal(np.concatenate(values), X)


def test_arrays_and_lists_are_split_too():
    with tf.Graph().as_default():
        features = {
            "array": X,
            "empty": np.zeros([0, 2]),
            "list": X.tolist(),
            "one": [np.arange(4)],
        }
        given = parts(features, labels=np.arange(4))
        values = run(given)
    for k, (features, labels) in enumerate(values):
        np.testing.assert_array_equal(features["array"], X[2 * k : 2 * k + 2])
        np.testing.assert_array_equal(features["list"], X[2 * k : 2 * k + 2])
        assert features["empty"].shape == (0, 2)
        assert labels.tolist() == features["one"][0].tolist() == [2 * k, 2 * k + 1]


def test_a_list_of_numbers_or_strings_is_a_batch():
    with tf.Graph().as_default():
        values = run(parts(["a", "b", "c", "d"], labels=[0, 1, 1, 0]))
        with pytest.raises(ValueError, match="Batch size 3 needs to be divisible"):
            parts({"x": [1.0, 2.0, 3.0]})
    assert [features.tolist() for features, _ in values] == [[b"a", b"b"], [b"c", b"d"]]
    assert [labels.tolist() for _, labels in values] == [[0, 1], [1, 0]]


def test_structures_keep_their_kinds():
    with tf.Graph().as_default():
        x = tf.constant(X)
        ordered = collections.OrderedDict([("z", x), ("a", (x, None, [x]))])
        given = parts({"nested": {"deep": ordered}, "pair": Pair(x, {"y": x})}, labels=(x, None))
        assert len(given) == 2
        for features, labels in given:
            deep = features["nested"]["deep"]
            assert type(deep) is collections.OrderedDict and list(deep) == ["z", "a"]
            assert deep["a"][1] is None and isinstance(deep["a"][2], list)
            assert type(features["pair"]) is Pair
            assert isinstance(labels, tuple) and labels[1] is None
            assert deep["z"].shape == features["pair"].right["y"].shape == labels[0].shape == [2, 3]


@pytest.mark.parametrize("top_level", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
def test_rows_of_sparse_and_ragged_tensors_stay_with_the_dense_ones(top_level, is_known):
    ids = np.array([[1, 0, 0], [2, 3, 0], [0, 0, 0], [4, 5, 6], [7, 0, 0], [0, 8, 0]], np.float32)
    lengths = [1, 2, 0, 3, 1, 1]
    with tf.Graph().as_default():
        dense = tf.constant(ids)
        sparse = tf.sparse.from_dense(dense)
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(1, 9), lengths)
        assert ragged.shape[0] == 6
        feed: dict[Any, Any] = {}
        if not is_known:
            places = [v1.sparse_placeholder(tf.float32), v1.ragged.placeholder(tf.int32, 1, [])]
            values = run([sparse, ragged])
            feed = dict(zip(places, values, strict=True))
            sparse, ragged = places
        for check, kind in ((_check_sparse, sparse), (_check_ragged, ragged)):
            features = kind if top_level else {"kind": kind, "dense": dense}
            given = parts(features, labels=kind, num_towers=3)
            pieces = [(f if top_level else f["kind"], label) for f, label in given]
            assert all(type(piece) is type(kind) for pair in pieces for piece in pair)
            for k, pair in enumerate(run(pieces, feed)):
                for piece in pair:
                    check(piece, ids[2 * k : 2 * k + 2], lengths[2 * k : 2 * k + 2])


def _check_sparse(piece: Any, ids: np.ndarray, lengths: list[int]) -> None:
    got = np.zeros(piece.dense_shape)
    got[tuple(piece.indices.T)] = piece.values
    np.testing.assert_array_equal(got, ids)


def _check_ragged(piece: Any, ids: np.ndarray, lengths: list[int]) -> None:
    assert np.diff(piece.row_splits).tolist() == lengths
    assert piece.values.tolist() == ids[ids > 0].tolist()


ODD = {
    "tensor": lambda: tf.zeros([5, 2]),
    "sparse": lambda: tf.sparse.from_dense(np.eye(5)),
    "ragged": lambda: tf.RaggedTensor.from_row_lengths(tf.range(5), [1, 1, 1, 1, 1]),
}


@pytest.mark.parametrize("kind", ODD)
def test_a_batch_that_does_not_divide_is_refused_when_built(kind: str):
    text = "Batch size 5 needs to be divisible by the number of GPUs, which is 2."
    with tf.Graph().as_default():
        features = ODD[kind]()
        for structure in (features, {"x": features, "y": tf.zeros([4])}):
            with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
                parts(structure)


@pytest.mark.parametrize("kind", ODD)
def test_a_batch_of_unknown_size_that_does_not_divide_fails_when_run(kind: str):
    with tf.Graph().as_default():
        place = {
            "tensor": lambda: v1.placeholder(tf.float32, [None, 2]),
            "sparse": lambda: v1.sparse_placeholder(tf.float64),
            "ragged": lambda: v1.ragged.placeholder(tf.int32, 1, []),
        }[kind]()
        given = [features for features, _ in parts(place)]
        value = run(ODD[kind]())
        match = r"Batch size needs to be divisible by the number of GPUs, which is 2. It is\] \[5\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            run(given, {place: value})


def test_an_unknown_size_that_divides_is_split():
    with tf.Graph().as_default():
        place = v1.placeholder(tf.float32, None)
        given = [features for features, _ in parts(place)]
        values = run(given, {place: X})
    np.testing.assert_array_equal(np.concatenate(values), X)


def test_a_scalar_is_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="got scalar"):
        parts({"x": tf.constant(X), "flag": tf.constant(True)})


def test_labels_may_be_missing():
    with tf.Graph().as_default():
        assert [labels for _, labels in parts(tf.constant(X), labels=None)] == [None, None]
        replicate(linear_model_fn, 2, tf.constant(X), labels=None)
