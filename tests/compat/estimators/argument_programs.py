"""Programs with arguments of tf.estimator, right and wrong; see `programs`."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.compat.estimators.programs import (
    Evaluated,
    X,
    input_fn,
    new,
    one_epoch,
    program,
)

CLUSTER = {"chief": ["h:1"], "worker": ["h:2", "h:3"], "ps": ["h:4"]}
WITH_EVALUATOR = {**CLUSTER, "evaluator": ["h:9"]}
PLACES = [
    {},
    {"model_dir": "/tmp/x"},
    {"task": {"type": "worker", "index": 0}},
    {"task": {"type": "evaluator", "index": 0}},
    {"cluster": {"chief": ["h:1"]}, "task": {"type": "chief", "index": 0}},
    {"cluster": {"master": ["h:1"], "ps": ["h:2"]}, "task": {"type": "master", "index": 0}},
    {"cluster": CLUSTER, "task": {"type": "chief", "index": 0}, "service": {"a": 1}},
    {"cluster": CLUSTER, "task": {"type": "worker", "index": 0}},
    {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}},
    {"cluster": CLUSTER, "task": {"type": "worker", "index": 2}},
    {"cluster": CLUSTER, "task": {"type": "ps", "index": 0}},
    *({"cluster": WITH_EVALUATOR, "task": {"type": job, "index": 0}} for job in WITH_EVALUATOR),
]
PROPERTIES = (
    "cluster_spec task_type task_id is_chief master evaluation_master num_ps_replicas "
    "num_worker_replicas global_id_in_cluster service model_dir"
).split()


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
        lambda: e.EvalSpec(input_fn, start_delay_secs=-1),
        lambda: e.EvalSpec(input_fn, throttle_secs=-1),
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
        **{name: getattr(e, name) for name in ("TrainSpec", "EvalSpec", "Estimator")},
        **{name: getattr(e, name) for name in ("RunConfig", "train_and_evaluate")},
        **{name: getattr(e.Estimator, name) for name in ("train", "evaluate", "predict")},
        "EstimatorSpec": e.EstimatorSpec.__new__,
        "export_savedmodel": e.Estimator.export_savedmodel,
        "numpy_input_fn": e.inputs.numpy_input_fn,
    }
    simple = (int, float, str, bool, type(None))
    modes = [e.ModeKeys.TRAIN, e.ModeKeys.EVAL, e.ModeKeys.PREDICT]
    return {"modes": modes} | {
        name: [
            [p.name, p.default if isinstance(p.default, simple) else "an object"]
            for p in inspect.signature(function).parameters.values()
        ]
        for name, function in functions.items()
    }
