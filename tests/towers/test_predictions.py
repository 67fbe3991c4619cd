"""Tests of prediction with towers."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.support.tower_support import ModeKeys, initialized_session, replicate
from tf_condacc import estimator

export = estimator.export


def predict(make, num_towers: int = 2):
    """Returns the spec of the predictions that `make` computes from the numbers 0 to 3."""

    def model_fn(features, labels, mode):
        predictions, outputs = make(features)
        return estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)

    return replicate(model_fn, num_towers, tf.range(4.0), mode=ModeKeys.PREDICT)


def test_predictions_are_concatenated_under_their_names():
    with tf.Graph().as_default():
        spec = predict(lambda x: ({"y": 2 * x, "a name": -x}, None))
        assert spec.predictions["y"].op.name == "y"
        assert spec.predictions["y"].op.device == "/device:CPU:0"
        with initialized_session() as session:
            values = session.run(spec.predictions)
    assert values["y"].tolist() == [0, 2, 4, 6]
    assert values["a name"].tolist() == [0, -1, -2, -3]


@pytest.mark.parametrize("name", ["_y", "/y", "y/", "-", "", ("y", 1), "\u00e9"])
def test_a_prediction_may_have_any_name(name):
    with tf.Graph().as_default():
        spec = predict(lambda x: ({name: 2 * x, "y": x}, None))
        with initialized_session() as session:
            values = session.run([spec.predictions[name], spec.predictions["y"]])
    assert [value.tolist() for value in values] == [[0, 2, 4, 6], [0, 1, 2, 3]]


@pytest.mark.parametrize("kind", ["tensor", "sparse", "ragged"])
def test_predictions_may_be_one_tensor_of_any_kind(kind: str):
    make = {
        "tensor": lambda x: x,
        "sparse": lambda x: tf.sparse.from_dense(x[:, tf.newaxis] + 1),
        "ragged": lambda x: tf.RaggedTensor.from_tensor(x[:, tf.newaxis]),
    }[kind]
    with tf.Graph().as_default():
        with initialized_session() as session:
            if kind == "tensor":
                spec = predict(lambda x: (make(x), None))
                assert session.run(spec.predictions).tolist() == [0, 1, 2, 3]
            else:
                spec = predict(lambda x: ({"y": make(x)}, None))
                assert session.run(spec.predictions["y"].values).shape == (4,)


def test_a_scalar_prediction_is_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="scalar .* 'y'"):
        predict(lambda x: ({"y": tf.reduce_sum(x)}, None))


def test_export_outputs_of_all_kinds_are_concatenated_classes_too():
    def make(x):
        column = x[:, tf.newaxis]
        return {"x": x}, {
            "classify": export.ClassificationOutput(column, tf.strings.as_string(column)),
            "scores": export.ClassificationOutput(scores=column),
            "classes": export.ClassificationOutput(classes=tf.strings.as_string(column)),
            "regress": export.RegressionOutput(x),
            "serving_default": export.PredictOutput({"p": x, "q": column}),
        }

    with tf.Graph().as_default():
        outputs = predict(make).export_outputs
        wanted = [
            outputs["classify"].scores,
            outputs["classify"].classes,
            outputs["scores"].scores,
            outputs["classes"].classes,
            outputs["regress"].value,
            outputs["serving_default"].outputs,
        ]
        assert outputs["scores"].classes is None and outputs["classes"].scores is None
        with initialized_session() as session:
            *columns, value, both = session.run(wanted)
    for column in columns:
        assert column.shape == (4, 1)
        assert [int(float(each)) for each in column[:, 0]] == [0, 1, 2, 3]
    assert value.tolist() == both["p"].tolist() == [0, 1, 2, 3]
    assert both["q"].shape == (4, 1)


def test_export_outputs_that_are_scalars_are_stacked_over_the_towers():
    def make(x):
        scalar, text = x[0], tf.strings.as_string(x[0], precision=0)
        return {"x": x}, {
            "classify": export.ClassificationOutput(scalar, text),
            "classes": export.ClassificationOutput(classes=text),
            "mixed": export.ClassificationOutput(x[:, tf.newaxis], text),
            "regress": export.RegressionOutput(scalar),
            "serving_default": export.PredictOutput({"p": scalar, "q": x}),
        }

    with tf.Graph().as_default():
        outputs = predict(make).export_outputs
        wanted = {
            "score": outputs["classify"].scores,
            "class": outputs["classify"].classes,
            "classes": outputs["classes"].classes,
            "mixed scores": outputs["mixed"].scores,
            "mixed classes": outputs["mixed"].classes,
            "value": outputs["regress"].value,
            **outputs["serving_default"].outputs,
        }
        assert wanted["class"].shape == wanted["value"].shape == [2]
        with initialized_session() as session:
            values = {name: value.tolist() for name, value in session.run(wanted).items()}
    # The first tower has the numbers 0 and 1, the second 2 and 3.
    assert values == {
        "score": [0, 2],
        "class": [b"0", b"2"],
        "classes": [b"0", b"2"],
        "mixed scores": [[0], [1], [2], [3]],
        "mixed classes": [b"0", b"2"],
        "value": [0, 2],
        "p": [0, 2],
        "q": [0, 1, 2, 3],
    }


@pytest.mark.parametrize("outputs", [None, {}])
def test_predictions_without_export_outputs_are_those_of_the_default_signature(outputs):
    with tf.Graph().as_default():
        spec = predict(lambda x: ({"y": 2 * x}, outputs))
        assert list(spec.export_outputs) == ["serving_default"]
        with initialized_session() as session:
            values = session.run(spec.export_outputs["serving_default"].outputs)
    assert {name: value.tolist() for name, value in values.items()} == {"y": [0, 2, 4, 6]}


@pytest.mark.parametrize("what", ["predictions", "export_outputs"])
def test_towers_that_differ_in_what_they_predict_are_refused(what: str):
    number = iter(range(2))

    def make(x):
        values = {f"y{next(number)}": x}
        outputs = {key: export.PredictOutput(x) for key in values}
        return ({"y": x}, outputs) if what == "export_outputs" else (values, None)

    with tf.Graph().as_default(), pytest.raises(ValueError, match=f"same {what} of every.*tower 1"):
        predict(make)
