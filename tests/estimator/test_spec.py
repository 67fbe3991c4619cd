"""Tests of EstimatorSpec and export outputs."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tf_condacc.estimator import EstimatorSpec, ModeKeys, export

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_what_is_not_given_has_a_default():
    spec = EstimatorSpec(ModeKeys.TRAIN, loss=tf.constant([[1.0]]), train_op=tf.no_op())
    assert spec.predictions == {} and spec.eval_metric_ops == {} and spec.export_outputs is None
    hooks = ("training_chief_hooks", "training_hooks", "evaluation_hooks", "prediction_hooks")
    assert [getattr(spec, name) for name in hooks] == [()] * 4
    assert isinstance(spec.scaffold, v1.train.Scaffold)
    assert spec.loss.shape == []


@pytest.mark.parametrize(
    ("mode", "fields", "error", "match"),
    [
        ("train", lambda: {"train_op": tf.no_op()}, ValueError, "Missing loss"),
        ("train", lambda: {"loss": tf.zeros([])}, ValueError, "Missing train_op"),
        ("train", lambda: {}, ValueError, "Missing train_op"),
        ("eval", lambda: {}, ValueError, "Missing loss"),
        ("infer", lambda: {}, ValueError, "Missing predictions"),
        ("eval", lambda: {"loss": tf.zeros([2])}, ValueError, "Loss must be scalar"),
        ("infer", lambda: {"predictions": {"x": 1}}, TypeError, "must be tensors"),
        ("train", lambda: {"loss": 0.0, "train_op": 3}, TypeError, "train_op must be"),
        ("eval", lambda: {"loss": 0.0, "eval_metric_ops": [1]}, TypeError, "must be a dict"),
        ("eval", lambda: {"loss": 0.0, "eval_metric_ops": {"a": 1}}, TypeError, "for key: a"),
        ("eval", lambda: {"loss": 0.0, "evaluation_hooks": [1]}, TypeError, "SessionRunHook"),
        ("eval", lambda: {"loss": 0.0, "scaffold": 1}, TypeError, "scaffold must be"),
        (
            "infer",
            lambda: {"predictions": tf.zeros([1]), "export_outputs": [1]},
            TypeError,
            "export_outputs must be dict",
        ),
        (
            "infer",
            lambda: {"predictions": tf.zeros([1]), "export_outputs": {"a": 1}},
            TypeError,
            "must be ExportOutput objects.* for key: a",
        ),
        (
            "infer",
            lambda: {
                "predictions": tf.zeros([1]),
                "export_outputs": {k: export.PredictOutput(tf.zeros([1])) for k in "ab"},
            },
            ValueError,
            "Multiple export_outputs",
        ),
    ],
)
def test_wrong_fields_are_refused(mode, fields, error, match):
    with pytest.raises(error, match=match):
        EstimatorSpec(mode, **fields())


def test_tensors_of_another_graph_are_refused():
    with tf.Graph().as_default():
        loss = tf.zeros([])
    with pytest.raises(ValueError, match="loss must be from the default graph"):
        EstimatorSpec(ModeKeys.EVAL, loss=loss)


def test_a_replaced_field_is_checked_and_the_mode_stays():
    spec = EstimatorSpec(ModeKeys.EVAL, loss=tf.zeros([]))
    replaced = spec._replace(loss=tf.ones([1]))
    assert type(replaced) is EstimatorSpec and replaced.loss.shape == []
    with pytest.raises(ValueError, match="Loss must be scalar"):
        spec._replace(loss=tf.zeros([2]))
    with pytest.raises(ValueError, match="mode of EstimatorSpec cannot be changed"):
        spec._replace(mode=ModeKeys.TRAIN)
    with pytest.raises(TypeError):
        spec._replace(losses=1)


def test_a_single_export_output_is_the_default_one():
    output = export.PredictOutput(tf.zeros([1]))
    spec = EstimatorSpec(
        ModeKeys.PREDICT, predictions=tf.zeros([1]), export_outputs={"mine": output}
    )
    assert spec.export_outputs == {"mine": output, "serving_default": output}


@pytest.mark.parametrize("outputs", [None, {}])
def test_without_export_outputs_the_predictions_are_the_default_ones(outputs):
    one, sparse = tf.zeros([1]), tf.sparse.from_dense([[1.0]])
    for predictions, expected in [
        ({"a": one, "b": sparse}, {"a": one, "b": sparse}),
        (one, {"output": one}),
        ({}, {}),
    ]:
        spec = EstimatorSpec(ModeKeys.PREDICT, predictions=predictions, export_outputs=outputs)
        (output,) = spec.export_outputs.values()
        assert list(spec.export_outputs) == ["serving_default"]
        assert isinstance(output, export.PredictOutput) and output.outputs == expected


def test_predictions_that_no_signature_may_have_are_not_exported():
    spec = EstimatorSpec(ModeKeys.PREDICT, predictions={("a", 1): tf.zeros([1])})
    assert spec.export_outputs is None


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_only_a_spec_to_predict_gets_export_outputs(mode):
    spec = EstimatorSpec(mode, predictions=tf.zeros([1]), loss=tf.zeros([]), train_op=tf.no_op())
    assert spec.export_outputs is None


def test_export_outputs_check_what_they_are_given():
    scores, classes = tf.zeros([2, 3]), tf.constant([["a"]])
    for wrong in ({}, {"scores": classes}, {"classes": scores}, {"scores": 1.0}):
        with pytest.raises(ValueError):
            export.ClassificationOutput(**wrong)
    with pytest.raises(ValueError):
        export.RegressionOutput(classes)
    for wrong in ({"a": 1.0}, {1: scores}):
        with pytest.raises(ValueError):
            export.PredictOutput(wrong)
    assert list(export.PredictOutput(scores).outputs) == ["output"]


def test_signatures_are_those_of_the_saved_model():
    scores, classes = tf.zeros([2, 3], name="s"), tf.constant([["a"]], name="c")
    examples = v1.placeholder(tf.string, [None], name="e")
    constants = v1.saved_model
    classify = export.ClassificationOutput(scores, classes).as_signature_def({"examples": examples})
    assert classify.method_name == constants.CLASSIFY_METHOD_NAME
    assert sorted(classify.outputs) == ["classes", "scores"]
    regress = export.RegressionOutput(scores).as_signature_def(examples)
    assert regress.method_name == constants.REGRESS_METHOD_NAME
    assert regress.inputs["inputs"].name == "e:0" and regress.outputs["outputs"].name == "s:0"
    predict = export.PredictOutput({"p": scores}).as_signature_def({"x": scores})
    assert predict.method_name == constants.PREDICT_METHOD_NAME
    assert predict.inputs["x"].name == predict.outputs["p"].name == "s:0"
    for output in (export.RegressionOutput(scores), export.ClassificationOutput(scores)):
        with pytest.raises(ValueError, match="must be a single string Tensor"):
            output.as_signature_def({"x": scores})
