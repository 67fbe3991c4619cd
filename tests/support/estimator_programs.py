"""Programs that run with the Estimator of tensorflow_estimator and with ours.

Run as ``python estimator_programs.py IMPLEMENTATION FOLDER``, it runs `BOTH` and the programs of
the implementation, and prints a JSON object: for each program its result, or its error as text. The
implementation "package" is tensorflow_estimator. "own" is the module that stands in for it, in a
process that cannot import it.
"""

from __future__ import annotations

import faulthandler
import inspect
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc import TowerOptimizer, replicate_model_fn

tf1 = tf.compat.v1
X = np.arange(1, 17, dtype=np.float32).reshape(8, 2)
BOTH: dict[str, Any] = {}


def program(function: Any) -> Any:
    BOTH[function.__name__] = function
    return function


def input_fn() -> Any:
    return tf1.data.Dataset.from_tensor_slices({"x": X}).repeat().batch(4)


def one_epoch() -> Any:
    return tf1.data.Dataset.from_tensor_slices({"x": X}).batch(4)


def model_fn_of(e: ModuleType, **fields: Any) -> Any:
    """Returns a `model_fn` of `e` whose gradient is the mean of the features' first column."""

    def model_fn(features, labels, mode, params):
        w = tf1.get_variable("w", [], initializer=tf1.zeros_initializer())
        y = w * features["x"][:, 0]
        if mode == e.ModeKeys.PREDICT:
            return e.EstimatorSpec(mode, predictions={"y": y})
        loss = tf.reduce_mean(y)
        optimizer = TowerOptimizer(tf1.train.GradientDescentOptimizer(params["rate"]))
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        metrics = {"y": tf1.metrics.mean(y)}
        return e.EstimatorSpec(
            mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, **fields
        )

    return model_fn


def new(e: ModuleType, folder: Any, **config: Any) -> Any:
    """Returns an Estimator with two towers."""
    two_cpus = tf1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
    towers = replicate_model_fn(model_fn_of(e), devices=["/CPU:0", "/CPU:1"])
    run_config = e.RunConfig(session_config=two_cpus, **config)
    return e.Estimator(towers, str(folder), run_config, {"rate": 1.0})


def receiver_of(e: ModuleType) -> Any:
    return e.export.build_raw_serving_input_receiver_fn({"x": tf.constant(X)})


class Evaluated(tf1.train.SessionRunHook):
    """Notes the steps at which the model is evaluated."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def end(self, session: Any) -> None:
        self.steps.append(int(session.run(tf1.train.get_global_step())))


def numbers(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def train_and_evaluate(e: ModuleType, folder: Path, throttle_secs: int) -> Any:
    seen = Evaluated()
    estimator = new(e, folder, save_checkpoints_steps=2)
    exporters = [
        e.LatestExporter("latest", receiver_of(e), exports_to_keep=2),
        e.FinalExporter("final", receiver_of(e)),
    ]
    metrics, exports = e.train_and_evaluate(
        estimator,
        e.TrainSpec(input_fn, max_steps=7),
        e.EvalSpec(one_epoch, hooks=[seen], exporters=exporters, throttle_secs=throttle_secs),
    )
    # Whole numbers of seconds name the exports, so no two are written in one second.
    kept = {each.name: len(list((folder / "export" / each.name).iterdir())) for each in exporters}
    model = tf.saved_model.load(exports[1]).signatures["serving_default"]
    y = model(x=tf.constant(X))["y"].numpy().tolist()
    return [numbers(metrics), seen.steps, kept, [export is None for export in exports], y]


@program
def each_checkpoint_is_evaluated(e: ModuleType, folder: Path) -> Any:
    return train_and_evaluate(e, folder, throttle_secs=0)


@program
def evaluations_are_throttled(e: ModuleType, folder: Path) -> Any:
    return train_and_evaluate(e, folder, throttle_secs=600)


@program
def a_training_that_has_ended_is_not_evaluated(e: ModuleType, folder: Path) -> Any:
    new(e, folder).train(input_fn, max_steps=2)
    specs = e.TrainSpec(input_fn, max_steps=2), e.EvalSpec(one_epoch)
    return e.train_and_evaluate(new(e, folder), *specs)


@program
def a_training_ends_with_its_input(e: ModuleType, folder: Path) -> Any:
    exporter = e.FinalExporter("final", receiver_of(e))
    specs = e.TrainSpec(one_epoch), e.EvalSpec(one_epoch, None, "held_out", exporters=exporter)
    metrics, exports = e.train_and_evaluate(new(e, folder), *specs)
    return [numbers(metrics), exports, (folder / "eval_held_out").is_dir()]


@program
def hooks_and_listeners_run_in_order(e: ModuleType, folder: Path) -> Any:
    events: list[str] = []

    class Hook(tf1.train.SessionRunHook):
        def begin(self):
            events.append("begin")

        def after_run(self, run_context, run_values):
            events.append("run")

        def end(self, session):
            events.append("end")

    class Listener(tf1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            events.append(f"saved {global_step_value}")

        def end(self, session, global_step_value):
            events.append(f"end at {global_step_value}")

    class Evaluation(tf1.train.SessionRunHook):
        def begin(self):
            events.append("evaluate")

    e.train_and_evaluate(
        new(e, folder, save_checkpoints_steps=2),
        e.TrainSpec(input_fn, 3, [Hook()], [Listener()]),
        e.EvalSpec(one_epoch, hooks=[Evaluation()], throttle_secs=0),
    )
    return events


def trained_checkpoint(folder: Path) -> str:
    """Returns a checkpoint of variables a, b and old."""
    with tf.Graph().as_default(), tf1.Session() as session:
        for name, value in {"a": 3.0, "b": 5.0, "old": 7.0}.items():
            tf1.get_variable(name, initializer=value)
        tf1.train.get_or_create_global_step()
        session.run(tf1.global_variables_initializer())
        return tf1.train.Saver().save(session, str(folder / "former" / "model.ckpt"))


@program
def variables_start_warm(e: ModuleType, folder: Path) -> Any:
    former = trained_checkpoint(folder)

    def model_fn(features, mode):
        variables = [tf1.get_variable(name, initializer=1.0) for name in ("a", "b")]
        variables.append(tf1.get_variable("local", initializer=1.0, trainable=False))
        loss = sum(variables[:2])
        return e.EstimatorSpec(
            mode, loss=loss, train_op=tf1.assign_add(tf1.train.get_global_step(), 1)
        )

    settings: list[Any] = [
        former,
        str(folder / "former"),
        e.WarmStartSettings(former, "b"),
        e.WarmStartSettings(former, ["^a$"]),
        e.WarmStartSettings(former, ".*", None, {"b": "old"}),
        e.WarmStartSettings(former, ".*", var_name_to_prev_var_name={"a": "b"}),
        None,
    ]
    values = []
    for number, each in enumerate(settings):
        estimator = e.Estimator(model_fn, str(folder / str(number)), warm_start_from=each)
        evaluated = estimator.evaluate(input_fn, steps=1)["loss"]
        for _ in range(2):
            estimator.train(input_fn, steps=1)
        values.append([float(evaluated)])
        values[-1] += [float(estimator.get_variable_value(name)) for name in ("a", "b")]
    return values


@program
def variables_start_with_a_saved_model(e: ModuleType, folder: Path) -> Any:
    former = new(e, folder / "former")
    former.train(input_fn, steps=2)
    exported = former.export_savedmodel(str(folder / "export"), receiver_of(e))
    later = e.Estimator(
        model_fn_of(e), str(folder / "later"), params={"rate": 0.0}, warm_start_from=exported
    )
    later.train(input_fn, steps=1)
    return [type(exported).__name__, *(float(m.get_variable_value("w")) for m in (former, later))]


@program
def parameters_are_copied(e: ModuleType, folder: Path) -> Any:
    class Parameters:
        def __init__(self, rates: list[float]) -> None:
            self.rates = rates

    seen = []

    def model_fn(features, mode, params):
        seen.append(list(params.rates))
        params.rates.clear()
        return e.EstimatorSpec(
            mode, loss=tf.constant(0.0), train_op=tf1.assign_add(tf1.train.get_global_step(), 1)
        )

    params = Parameters([0.5])
    estimator = e.Estimator(model_fn, str(folder), params=params)
    params.rates.append(7.0)
    for _ in range(2):
        estimator.train(input_fn, steps=1)
    estimator.params.rates.append(8.0)
    return [seen, params.rates, estimator.params.rates]


@program
def the_device_function_places_operations(e: ModuleType, folder: Path) -> Any:
    placed = []

    def model_fn(features, mode):
        w = tf1.get_variable("w", [])
        placed.append(w.device)
        step = tf1.assign_add(tf1.train.get_global_step(), 1)
        return e.EstimatorSpec(mode, loss=w, train_op=step, predictions={"x": features["x"]})

    def device(op):
        return "/CPU:1" if op.type == "VarHandleOp" else "/CPU:0"

    two_cpus = tf1.ConfigProto(device_count={"CPU": 2})
    config = e.RunConfig(session_config=two_cpus, device_fn=device)
    estimator = e.Estimator(model_fn, str(folder), config)
    estimator.train(input_fn, steps=1)
    estimator.evaluate(one_epoch, steps=1)
    list(estimator.predict(one_epoch))
    return placed


@program
def arrays_are_fed(e: ModuleType, folder: Path) -> Any:
    x = {"a": np.arange(5), "b": np.arange(10.0).reshape(5, 2)}

    def batches(limit: int = 9, **arguments: Any) -> list[Any]:
        with tf.Graph().as_default():
            batch = e.inputs.numpy_input_fn(**arguments)()
            found = []
            with tf1.train.MonitoredSession() as session:
                while not session.should_stop() and len(found) < limit:
                    found.append(session.run(batch))
        return tf.nest.map_structure(np.ndarray.tolist, found)

    once = batches(x=x, y=-np.arange(5), batch_size=2, shuffle=False)
    twice = batches(x=x["a"], batch_size=4, num_epochs=2, shuffle=False)
    endless = batches(limit=4, x=x["a"], batch_size=3, num_epochs=None, shuffle=False)
    labels = batches(x=x["a"], y={"c": np.arange(5)}, batch_size=3, shuffle=False)
    mixed = batches(x=x, y=-np.arange(5), batch_size=5, shuffle=True)[0]
    agree = [b == [2.0 * a, 2.0 * a + 1] for a, b in zip(mixed[0]["a"], mixed[0]["b"], strict=True)]
    return [once, twice, endless, labels, sorted(mixed[0]["a"]), agree, mixed[1] != mixed[0]["a"]]


CLUSTER = {"chief": ["h:1"], "worker": ["h:2", "h:3"], "ps": ["h:4"]}
WITH_EVALUATOR = {**CLUSTER, "evaluator": ["h:9"]}
PLACES = [
    {},
    {"model_dir": "/tmp/x"},
    {"task": {"type": "worker", "index": 0}},
    {"task": {"type": "evaluator", "index": 0}},
    {"cluster": {"chief": ["h:1"]}, "task": {"type": "chief", "index": 0}},
    {"cluster": {"master": ["h:1"], "ps": ["h:2"]}, "task": {"type": "master", "index": 0}},
    *({"cluster": CLUSTER, "task": {"type": "chief", "index": 0}, "service": {"a": 1}},),
    *({"cluster": CLUSTER, "task": {"type": "worker", "index": each}} for each in (0, 1)),
    {"cluster": CLUSTER, "task": {"type": "worker", "index": 2}},
    {"cluster": CLUSTER, "task": {"type": "ps", "index": 0}},
    *({"cluster": WITH_EVALUATOR, "task": {"type": job, "index": 0}} for job in WITH_EVALUATOR),
]
PROPERTIES = (
    *("cluster_spec", "task_type", "task_id", "is_chief", "master", "evaluation_master"),
    *("num_ps_replicas", "num_worker_replicas", "global_id_in_cluster", "service", "model_dir"),
)


@program
def configurations_know_their_place(e: ModuleType, folder: Path) -> Any:
    def place(tf_config: dict[str, Any]) -> Any:
        os.environ["TF_CONFIG"] = json.dumps(tf_config)
        config = e.RunConfig()
        del os.environ["TF_CONFIG"]
        properties = [getattr(config.replace(tf_random_seed=3), name) for name in PROPERTIES]
        return [properties[0].as_dict(), *properties[1:]]

    try:
        return [kind_of_error(lambda each=each: place(each)) for each in PLACES]
    finally:
        os.environ.pop("TF_CONFIG", None)


def kind_of_error(call: Any) -> Any:
    """Returns the result of a call, or the kind of its error."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def intervals(config: Any) -> list[Any]:
    return [config.save_checkpoints_steps, config.save_checkpoints_secs]


@program
def configurations_have_one_interval(e: ModuleType, folder: Path) -> Any:
    given: list[dict[str, Any]] = [
        {"save_checkpoints_steps": steps, "save_checkpoints_secs": secs}
        for steps in (None, 2)
        for secs in (None, 3)
    ]
    given += [{}, {"save_checkpoints_steps": 2}, {"save_checkpoints_secs": None}]
    made = [kind_of_error(lambda each=each: intervals(e.RunConfig(**each))) for each in given]
    by_steps = e.RunConfig(save_checkpoints_steps=2)
    replaced = [
        kind_of_error(lambda each=each: intervals(by_steps.replace(**each))) for each in given
    ]
    return [made, replaced, intervals(by_steps)]


BAD_FIELDS: dict[str, Any] = {
    "model_dir": "",
    "tf_random_seed": "a",
    "save_summary_steps": -1,
    "save_checkpoints_steps": -1,
    "save_checkpoints_secs": -1,
    "session_config": {},
    "keep_checkpoint_max": -1,
    "keep_checkpoint_every_n_hours": 0,
    "log_step_count_steps": -1,
    "device_fn": lambda node: "",
    "protocol": "http",
    "experimental_max_worker_delay_secs": "a",
    "session_creation_timeout_secs": 0,
    "unknown": 1,
}


@program
def bad_arguments_are_refused(e: ModuleType, folder: Path) -> Any:
    config = e.RunConfig()
    estimator = new(e, folder)
    train, evaluate = e.TrainSpec(input_fn), e.EvalSpec(input_fn)
    exporter = e.FinalExporter("a", receiver_of(e))
    calls: list[Any] = [
        *(lambda f=f: e.RunConfig(**{f[0]: f[1]}) for f in BAD_FIELDS.items()),
        *(lambda f=f: config.replace(**{f[0]: f[1]}) for f in BAD_FIELDS.items()),
        lambda: setattr(config, "model_dir", "a"),
        lambda: e.TrainSpec(None),
        lambda: e.TrainSpec(input_fn, 0),
        lambda: e.TrainSpec(input_fn, hooks=[1]),
        lambda: e.TrainSpec(input_fn, saving_listeners=[Evaluated()]),
        lambda: e.EvalSpec(3),
        lambda: e.EvalSpec(input_fn, steps=0),
        lambda: e.EvalSpec(input_fn, name=1),
        lambda: e.EvalSpec(input_fn, hooks=["a"]),
        lambda: e.EvalSpec(input_fn, exporters=3),
        lambda: e.EvalSpec(input_fn, exporters=[exporter, 3]),
        lambda: e.EvalSpec(input_fn, exporters=[exporter, exporter]),
        lambda: e.EvalSpec(input_fn, exporters=e.FinalExporter("", receiver_of(e))),
        lambda: e.EvalSpec(input_fn, start_delay_secs=-1),
        lambda: e.EvalSpec(input_fn, throttle_secs=-1),
        lambda: e.LatestExporter("a", receiver_of(e), exports_to_keep=0),
        lambda: e.WarmStartSettings(""),
        lambda: e.Estimator(model_fn_of(e), params={"rate": 1}, warm_start_from=3),
        lambda: e.train_and_evaluate(None, train, evaluate),
        lambda: e.train_and_evaluate(estimator, None, evaluate),
        lambda: e.train_and_evaluate(estimator, train, None),
        lambda: e.inputs.numpy_input_fn(X),
        lambda: e.inputs.numpy_input_fn({}, shuffle=False)(),
        lambda: e.inputs.numpy_input_fn([1], shuffle=False)(),
        lambda: e.inputs.numpy_input_fn(X, X[:3], shuffle=False)(),
    ]
    kinds = [kind_of_error(call) for call in calls]
    # There are no checkpoints to evaluate if none are saved.
    silent = new(e, folder / "silent", save_checkpoints_steps=None, save_checkpoints_secs=None)
    specs = e.TrainSpec(input_fn, 1), e.EvalSpec(one_epoch)
    return [*kinds, kind_of_error(lambda: e.train_and_evaluate(silent, *specs))]


@program
def signatures(e: ModuleType, folder: Path) -> Any:
    functions = {
        **{name: getattr(e, name) for name in ("TrainSpec", "EvalSpec", "WarmStartSettings")},
        **{name: getattr(e, name) for name in ("FinalExporter", "LatestExporter", "Estimator")},
        **{name: getattr(e, name) for name in ("RunConfig", "train_and_evaluate")},
        **{name: getattr(e.Estimator, name) for name in ("train", "evaluate", "predict")},
        "export_savedmodel": e.Estimator.export_savedmodel,
        "export": e.FinalExporter.export,
        "numpy_input_fn": e.inputs.numpy_input_fn,
    }
    simple = (int, float, str, bool, type(None))
    return {
        name: [
            [p.name, p.kind.name, p.default if isinstance(p.default, simple) else "an object"]
            for p in inspect.signature(function).parameters.values()
        ]
        for name, function in functions.items()
    }


def main(name: str, folder: str) -> None:
    faulthandler.dump_traceback_later(150, exit=True)  # A program may wait without end.
    import estimator_programs_alone as alone

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    results = alone.results_before_tensorflow_is_used(name, Path(folder))
    module, programs = alone.prepare(name)
    for each, run in {**BOTH, **programs}.items():
        own_folder = Path(folder) / each
        own_folder.mkdir()
        try:
            results[each] = run(module, own_folder)
        except BaseException:
            results[each] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
