"""Tests of the arguments, specs and inputs that the Estimator refuses."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf

from tests.estimator.linear_model import X, input_fn, model_fn, new_estimator
from tf_condacc.estimator import Estimator, EstimatorSpec, EvalSpec, RunConfig

v1 = tf.compat.v1


def of_loss(features, labels, mode):
    metric = v1.metrics.mean(tf.zeros([1]))
    return EstimatorSpec(mode, loss=tf.zeros([]), eval_metric_ops={"loss": metric})


def other(**fields):
    """Returns an Estimator whose spec is of another type."""

    def other_model_fn(features, labels, mode):
        tensors = {name: tf.constant(value) for name, value in fields.items()}
        return types.SimpleNamespace(**{**dict.fromkeys(EstimatorSpec._fields), **tensors})

    return Estimator(other_model_fn)


# Calls with a folder, and the messages of their errors.
REFUSED = {
    "two numbers of steps": (
        lambda folder: new_estimator(folder).train(input_fn, steps=1, max_steps=2),
        "Can not provide both steps and max_steps",
    ),
    "no steps": (
        lambda folder: new_estimator(folder).train(input_fn, steps=0),
        "Must specify steps > 0, given: 0",
    ),
    "a negative last step": (
        lambda folder: new_estimator(folder).train(input_fn, max_steps=-1),
        "Must specify max_steps > 0, given: -1",
    ),
    "an evaluation of no steps": (
        lambda folder: new_estimator(folder).evaluate(input_fn, steps=0),
        "Must specify steps > 0, given: 0",
    ),
    "two folders": (
        lambda folder: Estimator(model_fn, str(folder), RunConfig(str(folder / "other"))),
        "`model_dir` are set both",
    ),
    "an input that is no pair": (
        lambda folder: new_estimator(folder).train(lambda: (1, 2, 3)),
        "len 2 tuple",
    ),
    "no spec": (
        lambda folder: Estimator(lambda features, mode: {}).train(lambda: {"x": tf.constant(X)}),
        "should return an EstimatorSpec",
    ),
    "no train_op": (lambda folder: other(loss=0.0).train(input_fn), r"Missing train_op\."),
    "no loss": (lambda folder: other(train_op=0.0).train(input_fn), r"Missing loss\."),
    "no loss of an evaluation": (lambda folder: other().evaluate(input_fn), r"Missing loss\."),
    "no predictions": (
        lambda folder: next(other().predict(input_fn)),  # It begins when it is requested.
        r"Missing predictions\.",
    ),
    "labels": (
        lambda folder: Estimator(lambda features, mode: {}).train(input_fn),
        "model_fn does not take labels",
    ),
    "a metric of the name of the loss": (
        lambda folder: Estimator(of_loss, str(folder)).evaluate(input_fn),
        "Metric with name 'loss' is not allowed",
    ),
    "predictions that are not there": (
        lambda folder: next(new_estimator(folder).predict(input_fn, predict_keys=["z"])),
        "Expected to run at least one output",
    ),
    "no model_fn": (
        lambda folder: Estimator(None),
        "model_fn must be provided to Estimator, got None",
    ),
    "a model_fn without features": (
        lambda folder: Estimator(lambda x, mode: None),
        "must include features argument",
    ),
    "a model_fn without params": (
        lambda folder: Estimator(lambda features: None, params={"rate": 1}),
        r"does not include params argument, but params \(\{'rate': 1\}\) is passed",
    ),
    "a configuration of another type": (
        lambda folder: Estimator(model_fn, config=v1.ConfigProto()),
        "must be an instance of `RunConfig`",
    ),
    "a warm start": (
        lambda folder: Estimator(model_fn, warm_start_from="folder"),
        "Estimator: warm_start_from is not supported .*'tensorflow-estimator==",
    ),
    "exporters": (
        lambda folder: EvalSpec(input_fn, exporters=[object()]),
        "EvalSpec: exporters is not supported .*'tensorflow-estimator==",
    ),
    "listeners where nothing saves": (
        lambda folder: new_estimator(folder, save_checkpoints_secs=None).train(
            input_fn, saving_listeners=[v1.train.CheckpointSaverListener()]
        ),
        "should be a CheckpointSaverHook to use saving_listeners",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_run_is_refused(name, tmp_path):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call(tmp_path)


@pytest.mark.parametrize("method", ["train", "evaluate", "predict"])
def test_what_is_no_hook_is_refused(method, tmp_path):
    with pytest.raises(TypeError, match="must be SessionRunHook instances, given: print"):
        next(getattr(new_estimator(tmp_path), method)(input_fn, hooks=["print"]))


@pytest.mark.parametrize("kind", ["sparse", "ragged", "scalar", "one sparse"])
def test_predictions_that_are_no_dense_batch_come_whole_or_not_at_all(kind: str, tmp_path):
    make = {
        "sparse": lambda x: {"y": tf.sparse.from_dense(x), "x": x},
        "ragged": lambda x: {"y": tf.RaggedTensor.from_tensor(x)},
        "scalar": lambda x: {"y": tf.reduce_sum(x)},
        "one sparse": tf.sparse.from_dense,
    }[kind]

    def any_model_fn(features, mode):
        return EstimatorSpec(mode, predictions=make(features["x"]))

    model = Estimator(any_model_fn, model_dir=str(tmp_path))
    with pytest.raises(ValueError, match="yield one by one, got .* as '(y|predictions)'"):
        next(model.predict(input_fn))
    whole = next(model.predict(input_fn, yield_single_examples=False))
    y = whole["y"] if isinstance(whole, dict) else whole
    numbers = y if kind == "scalar" else y.values
    np.testing.assert_allclose(np.sum(numbers), np.sum(X[:4]))
