"""Programs with the package tensorflow_estimator alone; see `programs`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from tests.compat.estimators import programs
from tests.compat.estimators.programs import message
from tf_condacc import TowerOptimizer, estimator, replicate_model_fn
from tf_condacc.compat._estimator import estimator_module, undo

v1 = tf.compat.v1
LABELS = (programs.X[:, 0] > 8).astype(np.int32)


def what_is_added_can_be_undone(folder: Path) -> Any:
    """Undoes an import of the package, and repeats it."""
    before = dict(sys.modules)
    attributes = {
        name: set(vars(module)) for name, module in before.items() if name.startswith("tensorflow.")
    }
    init = v1.train.NanTensorHook.__init__
    first = estimator_module()
    again = estimator_module() is first
    undo()
    new = [name for name in sys.modules if name not in before]
    # TensorFlow's own modules that the package is the first to import remain.
    submodules = {name.rpartition(".")[2] for name in new}
    changed = [
        (name, sorted(set(vars(before[name])) - names - submodules))
        for name, names in attributes.items()
        if set(vars(before[name])) - names - submodules
    ]
    undo()
    return {
        "left": [name for name in new if name.split(".")[0] not in ("tensorflow", "tf_keras")],
        "stubs": [name for name in new if getattr(sys.modules[name], "__spec__", None) is None],
        "changed": changed,
        "same module": again and estimator_module() is first,
        "hooks as they were": v1.train.NanTensorHook.__init__ is init,
        "importable": message(lambda: __import__("tensorflow_estimator").__name__),
    }


def class_input_fn() -> Any:
    data = v1.data.Dataset.from_tensor_slices(({"x": programs.X}, LABELS))
    return data.repeat(2).batch(4)


def a_canned_classifier_trains_in_towers(e: ModuleType, folder: Path) -> Any:
    """Trains alone and in towers, which sum the losses of the halves of a batch."""
    config = e.RunConfig(session_config=programs.two_cpus(), log_step_count_steps=None)

    def new_classifier(name: str, **arguments: Any) -> Any:
        return e.DNNClassifier(
            hidden_units=[3],
            feature_columns=[tf.feature_column.numeric_column("x", [2])],
            model_dir=str(folder / name),
            optimizer=lambda: TowerOptimizer(v1.train.GradientDescentOptimizer(0.01)),
            config=config,
            **arguments,
        )

    # A checkpoint gives both the same initial values.
    first = new_classifier("first")
    first.train(class_input_fn, steps=1)
    initial = {"warm_start_from": str(folder / "first")}
    alone = new_classifier("alone", **initial)
    alone.train(class_input_fn, steps=3)
    towers = e.Estimator(
        replicate_model_fn(first.model_fn, v1.losses.Reduction.SUM, ["/CPU:0", "/CPU:1"]),
        str(folder / "towers"),
        config,
        **initial,
    )
    towers.train(class_input_fn, steps=3)
    names = [name for name in towers.get_variable_names() if name.startswith("dnn/")]
    return [
        {name: each.get_variable_value(name).tolist() for name in names}
        for each in (first, alone, towers)
    ]


def specs_of_either_are_accepted(e: ModuleType, folder: Path) -> Any:
    results = {}
    for spec_of, runs in ((e, estimator), (estimator, e)):
        name = f"{spec_of.__name__} in {runs.__name__}"
        model = runs.Estimator(
            replicate_model_fn(programs.model_fn_of(spec_of), devices=["/CPU:0", "/CPU:1"]),
            str(folder / name),
            runs.RunConfig(session_config=programs.two_cpus()),
            {"rate": 1.0},
        )
        model.train(programs.input_fn, steps=3)
        metrics = programs.numbers(model.evaluate(programs.one_epoch))
        predicted = [float(each["y"]) for each in model.predict(programs.one_epoch)]
        exported = model.export_saved_model(str(folder / "export"), programs.receiver_of(e))
        served = tf.saved_model.load(os.fsdecode(exported)).signatures["serving_default"]
        y = served(x=tf.constant(programs.X))["y"].numpy().tolist()
        results[name] = [metrics, predicted, y]
    return results


def distribution_on_a_cluster_is_refused(e: ModuleType, folder: Path) -> str:
    spec = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    with programs.tf_config({"cluster": spec, "task": {"type": "chief", "index": 0}}):
        return message(lambda: e.RunConfig(train_distribute=object()))


def the_first_worker_is_the_chief(e: ModuleType, folder: Path) -> Any:
    """Returns the place that RunConfig finds for each task of clusters with and without a chief."""
    spec = {"ps": ["localhost:1"], "worker": ["localhost:2", "localhost:3"]}
    tasks = [("ps", 0), ("worker", 0), ("worker", 1), ("evaluator", 0)]
    places = [_place(e, spec, *task) for task in tasks]
    alone = _place(e, {"worker": ["localhost:2"]}, "worker", 0)
    master = _place(e, {"master": ["localhost:2"], "worker": ["localhost:3"]}, "worker", 0)
    return [*places, alone, master]


def _place(e: ModuleType, spec: Any, job: str, task: int) -> Any:
    with programs.tf_config({"cluster": spec, "task": {"type": job, "index": task}}):
        value = os.environ["TF_CONFIG"]
        config = e.RunConfig()
        assert os.environ["TF_CONFIG"] == value
    place = f"{config.task_type} {config.task_id}"
    return [place, config.is_chief, config.master, config.num_worker_replicas]


def a_tpu_estimator_trains_evaluates_and_predicts_without_a_tpu(e: ModuleType, folder: Path) -> Any:
    """Halves the distance of w from 2 in each step, as a program like BERT does with its loss."""

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(w - features["x"]))
        train = v1.train.GradientDescentOptimizer(0.25)
        if mode == e.ModeKeys.PREDICT:
            return e.tpu.TPUEstimatorSpec(mode, predictions={"y": w * features["x"]})
        return e.tpu.TPUEstimatorSpec(
            mode=mode,
            loss=loss,
            train_op=train.minimize(loss, v1.train.get_global_step()),
            eval_metrics=(lambda x: {"mean": v1.metrics.mean(x)}, [features["x"]]),
        )

    def input_fn(params: Any) -> Any:
        data = v1.data.Dataset.from_tensor_slices({"x": np.full([12], 2.0, np.float32)})
        return data.repeat(3).batch(params["batch_size"], drop_remainder=True)

    inputs = e.tpu.InputPipelineConfig.PER_HOST_V2
    tpu = e.tpu.TPUConfig(iterations_per_loop=2, per_host_input_for_training=inputs)
    config = e.tpu.RunConfig(model_dir=str(folder), tpu_config=tpu)
    sizes = {"train_batch_size": 4, "eval_batch_size": 2, "predict_batch_size": 6}
    model = e.tpu.TPUEstimator(model_fn, use_tpu=False, config=config, **sizes)
    model.train(input_fn, max_steps=3)
    predictions = [float(each["y"]) for each in model.predict(input_fn)]
    return [programs.numbers(model.evaluate(input_fn, steps=2)), len(predictions), predictions[-1]]


def canned_models_say_that_they_need_keras_2(folder: Path) -> Any:
    """Makes and trains canned models in a process with Keras 3."""
    e = estimator_module()
    columns = [tf.feature_column.numeric_column("x", [2])]
    baseline = e.BaselineClassifier(str(folder))
    baseline.train(class_input_fn, steps=1)
    return [
        message(lambda: e.DNNClassifier([3], columns)),
        message(lambda: e.LinearRegressor(columns)),
        int(baseline.get_variable_value("global_step")),
    ]


PROGRAMS = (
    a_tpu_estimator_trains_evaluates_and_predicts_without_a_tpu,
    a_canned_classifier_trains_in_towers,
    specs_of_either_are_accepted,
    distribution_on_a_cluster_is_refused,
    the_first_worker_is_the_chief,
)
