"""Tests of the arguments, specs and inputs that the Estimator refuses."""

from __future__ import annotations

import re
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.estimator.linear_model import X, input_fn, model_fn, new_estimator
from tf_condacc.estimator import Estimator, EstimatorSpec, EvalSpec, RunConfig

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"steps": 1, "max_steps": 2}, "Can not provide both steps and max_steps"),
        ({"steps": 0}, "Must specify steps > 0, given: 0"),
        ({"max_steps": -1}, "Must specify max_steps > 0, given: -1"),
    ],
)
def test_wrong_numbers_of_steps_are_refused(arguments, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        new_estimator(tmp_path).train(lambda: input_fn(), **arguments)


def test_two_folders_are_refused(tmp_path):
    config = RunConfig(model_dir=str(tmp_path / "other"))
    with pytest.raises(ValueError, match="`model_dir` are set both"):
        Estimator(model_fn, model_dir=str(tmp_path), config=config)


def test_inputs_that_are_no_pair_are_refused(tmp_path):
    with pytest.raises(ValueError, match="len 2 tuple"):
        new_estimator(tmp_path).train(lambda: (1, 2, 3))


def test_a_model_fn_that_returns_no_spec_is_refused(tmp_path):
    with pytest.raises(ValueError, match="should return an EstimatorSpec"):
        Estimator(lambda features, mode: {}).train(lambda: {"x": tf.constant(X)})


@pytest.mark.parametrize(
    ("run", "fields", "text"),
    [
        ("train", {"loss": 0.0}, "Missing train_op."),
        ("train", {"train_op": 0.0}, "Missing loss."),
        ("evaluate", {}, "Missing loss."),
        ("predict", {}, "Missing predictions."),
    ],
)
def test_a_spec_of_another_type_must_have_what_the_mode_requires(run, fields, text, tmp_path):
    def other_model_fn(features, labels, mode):
        tensors = {name: tf.constant(value) for name, value in fields.items()}
        given = {**dict.fromkeys(EstimatorSpec._fields), **tensors}
        return types.SimpleNamespace(**given)

    model = Estimator(other_model_fn, model_dir=str(tmp_path))
    with pytest.raises(ValueError, match=re.escape(text)):
        result = getattr(model, run)(lambda: input_fn())
        next(result)  # A prediction begins only when it is requested.


def test_labels_for_a_model_fn_without_are_refused(tmp_path):
    with pytest.raises(ValueError, match="model_fn does not take labels"):
        Estimator(lambda features, mode: {}).train(lambda: input_fn())


def test_a_metric_of_the_name_of_the_loss_is_refused(tmp_path):
    def loss_model_fn(features, labels, mode):
        metric = v1.metrics.mean(tf.zeros([1]))
        return EstimatorSpec(mode, loss=tf.zeros([]), eval_metric_ops={"loss": metric})

    with pytest.raises(ValueError, match="Metric with name 'loss' is not allowed"):
        Estimator(loss_model_fn, model_dir=str(tmp_path)).evaluate(lambda: input_fn())


def test_predictions_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Expected to run at least one output"):
        next(new_estimator(tmp_path).predict(lambda: input_fn(), predict_keys=["z"]))


@pytest.mark.parametrize("steps", [0, -1])
def test_an_evaluation_of_no_steps_is_refused(steps: int, tmp_path):
    with pytest.raises(ValueError, match=f"Must specify steps > 0, given: {steps}"):
        new_estimator(tmp_path).evaluate(lambda: input_fn(), steps=steps)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"model_fn": None}, "model_fn must be provided to Estimator, got None"),
        ({"model_fn": lambda x, mode: None}, "must include features argument"),
        (
            {"model_fn": lambda features: None, "params": {"rate": 1}},
            r"does not include params argument, but params \(\{'rate': 1\}\) is passed",
        ),
        (
            {"model_fn": model_fn, "config": {"model_dir": "x"}},
            "must be an instance of `RunConfig`",
        ),
        ({"model_fn": model_fn, "config": v1.ConfigProto()}, "must be an instance of `RunConfig`"),
    ],
)
def test_what_cannot_run_is_refused_when_made(arguments, match):
    with pytest.raises(ValueError, match=match):
        Estimator(**arguments)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Estimator(model_fn, warm_start_from="folder"), "Estimator: warm_start_from"),
        (lambda: EvalSpec(input_fn, exporters=[object()]), "EvalSpec: exporters"),
    ],
)
def test_what_only_the_package_can_do_is_refused_with_its_name(make, name):
    with pytest.raises(ValueError, match=f"{name} is not supported .*'tensorflow-estimator=="):
        make()


def test_what_is_no_hook_is_refused(tmp_path):
    model, match = new_estimator(tmp_path), "must be SessionRunHook instances, given: print"
    for run in (
        lambda: model.train(lambda: input_fn(), hooks=["print"]),
        lambda: model.evaluate(lambda: input_fn(), hooks=["print"]),
        lambda: next(model.predict(lambda: input_fn(), hooks=["print"])),
    ):
        with pytest.raises(TypeError, match=match):
            run()


def test_listeners_are_refused_where_nothing_saves(tmp_path):
    model = new_estimator(tmp_path, save_checkpoints_secs=None)
    listener = v1.train.CheckpointSaverListener()
    with pytest.raises(ValueError, match="should be a CheckpointSaverHook to use saving_listeners"):
        model.train(lambda: input_fn(), saving_listeners=[listener])


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
        next(model.predict(lambda: input_fn()))
    whole = next(model.predict(lambda: input_fn(), yield_single_examples=False))
    y = whole["y"] if isinstance(whole, dict) else whole
    numbers = y if kind == "scalar" else y.values
    np.testing.assert_allclose(np.sum(numbers), np.sum(X[:4]))
