"""Programs with our own Estimator alone; see `programs`."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorflow as tf

import tf_condacc
from tests.compat.estimators import programs
from tests.compat.estimators.argument_programs import (
    bad_arguments_are_refused,
    bad_specs_are_refused,
)
from tests.compat.estimators.programs import message
from tests.processes.clusters import ForkedCluster
from tests.support.ports import free_cluster
from tf_condacc import estimator

v1 = tf.compat.v1
MAX_STEPS = 6


def a_cluster_trains_and_evaluates(folder: Path) -> dict[str, Any]:
    """Trains with a parameter server, a chief that evaluates, a worker, and an evaluator."""

    def be(job: str, number: int, num_started: int) -> None:
        result = in_a_cluster(folder / "model")
        (folder / f"{job}-{number}.json").write_text(json.dumps(result))

    with ForkedCluster(folder, num_ps=1, num_workers=2, be=be) as processes:
        chief, worker = processes.spec["worker"]
        processes.spec |= {"master": [chief], "worker": [worker]}
        processes.start()
        processes.start(("evaluator", 0))
        statuses = processes.await_end()
    values = tf.train.load_checkpoint(str(folder / "model"))
    return {
        "statuses": sorted([*who, status] for who, status in statuses.items()),
        "w": float(values.get_tensor("w")),
        "step": int(values.get_tensor("global_step")),
        "results": {each.stem: json.loads(each.read_text()) for each in folder.glob("*.json")},
        "evaluations": sorted(each.name for each in (folder / "model").glob("eval_*")),
    }


def in_a_cluster(folder: Path) -> Any:
    """Trains synchronously, as one task of the cluster that TF_CONFIG describes."""

    def model_fn(features, labels, mode, config):
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(w + 0 * features["x"][:, 0])
        step = v1.train.get_global_step()
        if mode == "eval":
            return estimator.EstimatorSpec(mode, loss=loss)
        optimizer = tf_condacc.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(1.0), config.num_worker_replicas
        )
        train_op = optimizer.minimize(loss, step)
        hook = optimizer.make_session_run_hook(config.is_chief)
        placed.append(w.device)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    placed: list[str] = []
    model = estimator.Estimator(model_fn, str(folder))
    task = model.config.task_type
    result = estimator.train_and_evaluate(
        model,
        estimator.TrainSpec(programs.input_fn, MAX_STEPS),
        estimator.EvalSpec(programs.one_epoch, name=task, start_delay_secs=0, throttle_secs=0),
    )
    return [result, placed]


def missing_names(e: ModuleType, folder: Path) -> Any:
    from_import = "from estimator import LinearRegressor"
    sys.modules["estimator"] = e
    calls: list[Callable[[], Any]] = [
        lambda: e.DNNClassifier,
        lambda: e.FinalExporter,
        lambda: e.WarmStartSettings,
        lambda: e.inputs.pandas_input_fn,
        lambda: e.export.TensorServingInputReceiver,
        lambda: exec(from_import),
        lambda: e.__wrapped__,
    ]
    return [message(call).partition(". tf_condacc itself has ")[0] for call in calls]


def names(e: ModuleType, folder: Path) -> Any:
    return [
        [hasattr(e, name) for name in ("TrainSpec", "export", "TowerOptimizer")],
        e.Estimator is estimator.Estimator,
        e.StopAtStepHook is v1.train.StopAtStepHook,
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
    with programs.tf_config({"cluster": spec, "task": {"type": "worker", "index": 1}}):
        return message(lambda: programs.new(e, folder).train(programs.input_fn, steps=1))


def a_chief_that_only_trains_says_so(e: ModuleType, folder: Path) -> Any:
    """Returns for each job of a chief whether each warning is that nothing is evaluated."""

    def model_fn(features, mode):
        return programs.counting(e, mode)

    found = {}
    for job in ("worker", "master"):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setLevel("WARNING")
        config = {"cluster": {job: [free_cluster(0, 1)["worker"][0]]}, "task": {"type": job}}
        logging.getLogger("tf_condacc").addHandler(handler)
        with programs.tf_config(config):
            e.train_and_evaluate(
                e.Estimator(model_fn, str(folder / job)),
                e.TrainSpec(programs.input_fn, max_steps=1),
                e.EvalSpec(programs.input_fn, steps=1),
            )
        logging.getLogger("tf_condacc").removeHandler(handler)
        found[job] = ["Nothing is evaluated" in each for each in stream.getvalue().splitlines()]
    return found


def a_configuration_may_be_a_subclass(e: ModuleType, folder: Path) -> Any:
    class Config(e.RunConfig):
        def __init__(self, rate, **kwargs):
            super().__init__(**kwargs)
            self.rate = rate

    seen = []

    def model_fn(features, mode, config):
        seen.append([config.rate, config.tf_random_seed, config.is_chief])
        return programs.counting(e, mode)

    config = Config(0.5, tf_random_seed=3)
    e.Estimator(model_fn, str(folder), config).train(programs.input_fn, steps=1)
    return [seen, message(lambda: setattr(config, "tf_random_seed", 4))]


def what_only_the_package_has_is_refused(e: ModuleType, folder: Path) -> Any:
    """Returns errors of arguments, and of specs of another type that lack what a mode requires.

    The last value shows that predictions which no signature may have are not exported.
    """

    def other(**fields: Any) -> Any:
        def model_fn(features, mode):
            made = {name: tf.constant(value) for name, value in fields.items()}
            return types.SimpleNamespace(**dict.fromkeys(e.EstimatorSpec._fields) | made)

        return e.Estimator(model_fn)

    return [
        message(lambda: e.Estimator(lambda features: None, warm_start_from="folder")),
        message(lambda: e.EvalSpec(programs.input_fn, exporters=["mine"])),
        message(lambda: other(loss=0.0).train(programs.input_fn)),
        message(lambda: other(train_op=0.0).train(programs.input_fn)),
        message(lambda: other().evaluate(programs.input_fn)),
        message(lambda: next(other().predict(programs.input_fn))),
        e.EstimatorSpec("infer", {("a", 1): tf.zeros([1])}, export_outputs={}).export_outputs,
    ]


def errors_say_what_is_wrong(e: ModuleType, folder: Path) -> Any:
    """Returns how each error begins, without objects."""

    def beginning(call: Callable[[], Any]) -> str:
        return " ".join(re.sub(r" \(?<.*>\)?", "", message(call)).split()[:6])

    refusals = (bad_arguments_are_refused, bad_specs_are_refused)
    return [refuse(e, folder, beginning) for refuse in refusals]


PROGRAMS = (
    errors_say_what_is_wrong,
    what_only_the_package_has_is_refused,
    missing_names,
    names,
    a_subclass_overrides_methods,
    a_configuration_may_be_a_subclass,
    in_a_cluster_train_needs_train_and_evaluate,
    a_chief_that_only_trains_says_so,
)
