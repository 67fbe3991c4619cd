"""Programs that run with the Estimator of tensorflow_estimator and with ours.

A program is called with an implementation of tf.estimator and a folder of its own. It returns what
JSON can express.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc import TowerOptimizer, replicate_model_fn

v1 = tf.compat.v1
X = np.arange(1, 17, dtype=np.float32).reshape(8, 2)
BOTH: dict[str, Any] = {}


def program(function: Any) -> Any:
    BOTH[function.__name__] = function
    return function


def input_fn() -> Any:
    return v1.data.Dataset.from_tensor_slices({"x": X}).repeat().batch(4)


def one_epoch() -> Any:
    return v1.data.Dataset.from_tensor_slices({"x": X}).batch(4)


def model_fn_of(e: ModuleType, **fields: Any) -> Any:
    """Returns a `model_fn` of `e` whose gradient is the mean of the features' first column."""

    def model_fn(features, labels, mode, params):
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        y = w * features["x"][:, 0]
        if mode == e.ModeKeys.PREDICT:
            return e.EstimatorSpec(mode, predictions={"y": y})
        loss = tf.reduce_mean(y)
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(params["rate"]))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        metrics = {"y": v1.metrics.mean(y)}
        return e.EstimatorSpec(
            mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, **fields
        )

    return model_fn


def two_cpus() -> v1.ConfigProto:
    return v1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)


def new(e: ModuleType, folder: Any, **config: Any) -> Any:
    """Returns an Estimator with two towers."""
    towers = replicate_model_fn(model_fn_of(e), devices=["/CPU:0", "/CPU:1"])
    run_config = e.RunConfig(session_config=two_cpus(), **config)
    return e.Estimator(towers, str(folder), run_config, {"rate": 1.0})


def receiver_of(e: ModuleType) -> Any:
    return e.export.build_raw_serving_input_receiver_fn({"x": tf.constant(X)})


class Evaluated(v1.train.SessionRunHook):
    """Notes the steps at which the model is evaluated."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def end(self, session: Any) -> None:
        self.steps.append(int(session.run(v1.train.get_global_step())))


def message(function: Callable[[], Any]) -> str:
    """Returns the error of a call, with its kind."""
    try:
        return f"returned {function()!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def tf_config(value: dict[str, Any]) -> Iterator[None]:
    """Returns a context in which TF_CONFIG has a value."""
    os.environ["TF_CONFIG"] = json.dumps(value)
    try:
        yield
    finally:
        del os.environ["TF_CONFIG"]


def counting(e: ModuleType, mode: str, **fields: Any) -> Any:
    """Returns a spec of a model that only counts its steps."""
    step = v1.assign_add(v1.train.get_global_step(), 1)
    return e.EstimatorSpec(mode, **{"loss": tf.constant(0.0), "train_op": step} | fields)


def numbers(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


@program
def each_checkpoint_is_evaluated(e: ModuleType, folder: Path) -> Any:
    seen = Evaluated()
    estimator = new(e, folder, save_checkpoints_steps=2)
    metrics, exports = e.train_and_evaluate(
        estimator,
        e.TrainSpec(input_fn, max_steps=5),
        e.EvalSpec(one_epoch, hooks=[seen], throttle_secs=0),
    )
    exported = estimator.export_savedmodel(str(folder / "export"), receiver_of(e))
    model = tf.saved_model.load(exported.decode()).signatures["serving_default"]
    y = model(x=tf.constant(X))["y"].numpy().tolist()
    return [numbers(metrics), seen.steps, exports, type(exported).__name__, y]


@program
def evaluations_are_throttled(e: ModuleType, folder: Path) -> Any:
    seen = Evaluated()
    estimator = new(e, folder, save_checkpoints_steps=1)
    specs = e.TrainSpec(input_fn, max_steps=4), e.EvalSpec(one_epoch, hooks=[seen])
    metrics, exports = e.train_and_evaluate(estimator, *specs)
    return [numbers(metrics), exports, seen.steps]


@program
def a_training_that_has_ended_is_not_evaluated(e: ModuleType, folder: Path) -> Any:
    new(e, folder).train(input_fn, max_steps=2)
    specs = e.TrainSpec(input_fn, max_steps=2), e.EvalSpec(one_epoch)
    return e.train_and_evaluate(new(e, folder), *specs)


@program
def a_training_ends_with_its_input(e: ModuleType, folder: Path) -> Any:
    specs = e.TrainSpec(one_epoch), e.EvalSpec(one_epoch, None, "held_out")
    metrics, _ = e.train_and_evaluate(new(e, folder), *specs)
    return [numbers(metrics), (folder / "eval_held_out").is_dir()]


@program
def hooks_and_listeners_run_in_order(e: ModuleType, folder: Path) -> Any:
    events: list[str] = []

    class Hook(v1.train.SessionRunHook):
        def begin(self):
            events.append("begin")

        def after_run(self, run_context, run_values):
            events.append("run")

        def end(self, session):
            events.append("end")

    class Listener(v1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            events.append(f"saved {global_step_value}")

        def end(self, session, global_step_value):
            events.append(f"end at {global_step_value}")

    class Evaluation(v1.train.SessionRunHook):
        def begin(self):
            events.append("evaluate")

    e.train_and_evaluate(
        new(e, folder, save_checkpoints_steps=2),
        e.TrainSpec(input_fn, 3, [Hook()], [Listener()]),
        e.EvalSpec(one_epoch, hooks=[Evaluation()], throttle_secs=0),
    )
    return events


@program
def parameters_are_copied(e: ModuleType, folder: Path) -> Any:
    class Parameters:
        def __init__(self, rates: list[float]) -> None:
            self.rates = rates

    seen = []

    def model_fn(features, mode, params):
        seen.append(list(params.rates))
        params.rates.clear()
        return counting(e, mode)

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
        w = v1.get_variable("w", [])
        placed.append(w.device)
        return counting(e, mode, loss=w, predictions={"x": features["x"]})

    def device(op):
        return "/CPU:1" if op.type == "VarHandleOp" else "/CPU:0"

    config = e.RunConfig(session_config=two_cpus(), device_fn=device)
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
            with v1.train.MonitoredSession() as session:
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
