"""The programs of `estimator_programs` that concern one of the implementations."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import estimator_programs as programs
import numpy as np
import tensorflow as tf
from forked_cluster import ForkedCluster

import tf_condacc
from tf_condacc import TowerOptimizer, estimator, replicate_model_fn
from tf_condacc.compat._estimator import estimator_module, undo

tf1 = tf.compat.v1
MAX_STEPS = 6
LABELS = (programs.X[:, 0] > 8).astype(np.int32)


def prepare(name: str) -> tuple[ModuleType, dict[str, Any]]:
    """Returns the implementation called `name`, and its programs."""
    if name == "own":
        sys.modules["tensorflow_estimator"] = None  # type: ignore[assignment]
        return estimator_module(), OWN
    return estimator_module(), PACKAGE


def results_before_tensorflow_is_used(name: str, folder: Path) -> dict[str, Any]:
    """Runs what forks, which only a process can that has not used TensorFlow."""
    if name != "own":
        return {"what_is_added_can_be_undone": undone()}
    (folder / "cluster").mkdir()
    return {"a_cluster_trains_and_evaluates": cluster(folder / "cluster")}


def cluster(folder: Path) -> dict[str, Any]:
    """Trains with a parameter server and two workers, and evaluates in a process of its own."""

    def be(job: str, number: int, num_started: int) -> None:
        result = in_a_cluster(folder / "model")
        (folder / f"{job}-{number}.json").write_text(json.dumps(result))

    with ForkedCluster(folder, num_ps=1, num_workers=2, be=be) as processes:
        processes.start()
        processes.start(("evaluator", 0))
        statuses = processes.await_end(100)
    values = tf.train.load_checkpoint(str(folder / "model"))
    return {
        "statuses": sorted([*who, status] for who, status in statuses.items()),
        "w": float(values.get_tensor("w")),
        "step": int(values.get_tensor("global_step")),
        "exports": len(list((folder / "model" / "export" / "final").iterdir())),
        "results": {each.stem: json.loads(each.read_text()) for each in folder.glob("*.json")},
        "evaluations": len(list((folder / "model" / "eval").iterdir())),
    }


def in_a_cluster(folder: Path) -> Any:
    """Trains synchronously, as one task of the cluster that TF_CONFIG describes."""

    def model_fn(features, labels, mode, config):
        w = tf1.get_variable("w", [], initializer=tf1.zeros_initializer())
        loss = tf.reduce_mean(w + 0 * features["x"][:, 0])
        if mode == "infer":
            return estimator.EstimatorSpec(mode, predictions={"w": w + 0 * features["x"]})
        step = tf1.train.get_global_step()
        if mode == "eval":
            return estimator.EstimatorSpec(mode, loss=loss)
        optimizer = tf_condacc.SyncReplicasOptimizer(
            tf1.train.GradientDescentOptimizer(1.0), config.num_worker_replicas
        )
        train_op = optimizer.minimize(loss, step)
        hook = optimizer.make_session_run_hook(config.is_chief)
        placed.append(w.device)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    placed: list[str] = []
    model = estimator.Estimator(model_fn, str(folder))
    exporter = estimator.FinalExporter("final", programs.receiver_of(estimator))
    result = estimator.train_and_evaluate(
        model,
        estimator.TrainSpec(programs.input_fn, MAX_STEPS),
        estimator.EvalSpec(
            programs.one_epoch, exporters=exporter, start_delay_secs=0, throttle_secs=0
        ),
    )
    return [result, placed]


def message(function: Callable[[], Any]) -> str:
    """Returns the error of a call."""
    try:
        return f"returned {function()!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def missing_names(e: ModuleType, folder: Path) -> Any:
    from_import = "from estimator import LinearRegressor"
    sys.modules["estimator"] = e
    calls: list[Callable[[], Any]] = [
        lambda: e.DNNClassifier,
        lambda: e.inputs.pandas_input_fn,
        lambda: e.export.TensorServingInputReceiver,
        lambda: exec(from_import),
        lambda: e.__wrapped__,
    ]
    return [message(call) for call in calls]


def names(e: ModuleType, folder: Path) -> Any:
    return [
        dir(e),
        e.Estimator is estimator.Estimator,
        e.StopAtStepHook is tf1.train.StopAtStepHook,
    ]


def a_subclass_overrides_methods(e: ModuleType, folder: Path) -> Any:
    calls = []

    class Own(e.Estimator):
        def __init__(self, model_fn, *args, **kwargs):
            self._model = "a name of the subclass"

            def wrapped(features, labels, mode, params):
                calls.append(mode)
                return model_fn(features, labels, mode, params)

            super().__init__(wrapped, *args, **kwargs)

        def train(self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
            calls.append("train")
            return super().train(input_fn, hooks, steps, max_steps, saving_listeners)

        def evaluate(self, *args, **kwargs):
            calls.append("evaluate")
            return super().evaluate(*args, **kwargs)

    model = Own(programs.model_fn_of(e), str(folder), params={"rate": 1.0})
    e.train_and_evaluate(model, e.TrainSpec(programs.input_fn, 1), e.EvalSpec(programs.one_epoch))
    return [calls, model._model]


def in_a_cluster_train_needs_train_and_evaluate(e: ModuleType, folder: Path) -> str:
    spec = {"ps": ["localhost:1"], "worker": ["localhost:2", "localhost:3"]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": spec, "task": {"type": "worker", "index": 1}})
    try:
        return message(lambda: programs.new(e, folder).train(programs.input_fn, steps=1))
    finally:
        del os.environ["TF_CONFIG"]


def undone() -> Any:
    """Undoes an import of the package, and repeats it."""
    before = dict(sys.modules)
    attributes = {
        name: set(vars(module)) for name, module in before.items() if name.startswith("tensorflow.")
    }
    init = tf1.train.NanTensorHook.__init__
    first = estimator_module()
    again = estimator_module() is first
    undo()
    new = [name for name in sys.modules if name not in before]
    # Modules of TensorFlow's own that the package is the first to import remain.
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
        "hooks as they were": tf1.train.NanTensorHook.__init__ is init,
        "importable": message(lambda: __import__("tensorflow_estimator").__name__),
    }


def class_input_fn() -> Any:
    data = tf1.data.Dataset.from_tensor_slices(({"x": programs.X}, LABELS))
    return data.repeat(2).batch(4)


def canned_classifiers_train_in_towers(e: ModuleType, folder: Path) -> Any:
    """Trains alone and in towers, which sum the losses of the halves of a batch."""
    columns = [tf.feature_column.numeric_column("x", [2])]
    config = e.RunConfig(
        session_config=tf1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True),
        tf_random_seed=1,
    )

    def optimizer():
        return TowerOptimizer(tf1.train.GradientDescentOptimizer(0.01))

    found = {}
    for kind, arguments in (("DNNClassifier", {"hidden_units": [3]}), ("LinearClassifier", {})):
        columns_and_units = {"feature_columns": columns, **arguments}
        # A checkpoint gives both the same initial values.
        canned = getattr(e, kind)(
            model_dir=str(folder / kind),
            config=config,
            optimizer=optimizer,
            **columns_and_units,
        )
        canned.train(class_input_fn, steps=1)
        towers = e.Estimator(
            replicate_model_fn(canned.model_fn, tf1.losses.Reduction.SUM, ["/CPU:0", "/CPU:1"]),
            str(folder / f"{kind}_towers"),
            config,
            warm_start_from=str(folder / kind),
        )
        specs = (
            e.TrainSpec(class_input_fn, max_steps=3),
            e.EvalSpec(class_input_fn, throttle_secs=0),
        )
        metrics, _ = e.train_and_evaluate(towers, *specs)
        later = getattr(e, kind)(
            model_dir=str(folder / f"{kind}_alone"),
            config=config,
            optimizer=optimizer,
            warm_start_from=str(folder / kind),
            **columns_and_units,
        )
        later.train(class_input_fn, steps=3)
        found[kind] = [
            {name: float(values[name]) for name in ("average_loss", "accuracy", "global_step")}
            for values in (metrics, later.evaluate(class_input_fn))
        ]
    return found


def specs_of_either_are_accepted(e: ModuleType, folder: Path) -> Any:
    results = {}
    for spec_of, runs in ((e, estimator), (estimator, e), (e, e)):
        name = f"{spec_of.__name__} in {runs.__name__}"
        two_cpus = tf1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
        model = runs.Estimator(
            replicate_model_fn(programs.model_fn_of(spec_of), devices=["/CPU:0", "/CPU:1"]),
            str(folder / name),
            runs.RunConfig(session_config=two_cpus),
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
    os.environ["TF_CONFIG"] = json.dumps({"cluster": spec, "task": {"type": "chief", "index": 0}})
    try:
        return message(lambda: e.RunConfig(train_distribute=object()))
    finally:
        del os.environ["TF_CONFIG"]


OWN: dict[str, Any] = {
    each.__name__: each
    for each in (
        missing_names,
        names,
        a_subclass_overrides_methods,
        in_a_cluster_train_needs_train_and_evaluate,
    )
}
PACKAGE: dict[str, Any] = {
    each.__name__: each
    for each in (
        canned_classifiers_train_in_towers,
        specs_of_either_are_accepted,
        distribution_on_a_cluster_is_refused,
    )
}
