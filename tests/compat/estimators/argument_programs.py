"""Programs with arguments of tf.estimator, right and wrong; see `programs`."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorflow as tf

from tests.compat.estimators.programs import (
    Evaluated,
    X,
    input_fn,
    model_fn_of,
    new,
    one_epoch,
    program,
    tf_config,
    v1,
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
    def place(value: dict[str, Any]) -> Any:
        with tf_config(value):
            config = e.RunConfig()
        properties = [getattr(config.replace(tf_random_seed=3), name) for name in PROPERTIES]
        return [properties[0].as_dict(), *properties[1:]]

    return [kind_of_error(lambda each=each: place(each)) for each in PLACES]


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
def bad_arguments_are_refused(e: ModuleType, folder: Path, error_of: Any = kind_of_error) -> Any:
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
    # There are no checkpoints to evaluate if none are saved.
    silent = new(e, folder / "silent", save_checkpoints_steps=None, save_checkpoints_secs=None)
    specs = e.TrainSpec(input_fn, 1), e.EvalSpec(one_epoch)
    listener = v1.train.CheckpointSaverListener()
    zero, metric = lambda: tf.zeros([]), lambda: v1.metrics.mean(tf.zeros([1]))
    calls += [
        lambda: e.train_and_evaluate(silent, *specs),
        lambda: silent.train(input_fn, saving_listeners=[listener]),
        lambda: estimator.train(input_fn, steps=1, max_steps=2),
        lambda: estimator.train(input_fn, steps=0),
        lambda: estimator.train(input_fn, max_steps=-1),
        lambda: estimator.train(input_fn, hooks=["print"]),
        lambda: estimator.train(lambda: (1, 2, 3)),
        lambda: estimator.evaluate(input_fn, steps=0),
        lambda: estimator.evaluate(input_fn, hooks=["print"]),
        lambda: next(estimator.predict(input_fn, hooks=["print"])),
        lambda: next(estimator.predict(input_fn, predict_keys=["z"])),
        lambda: e.Estimator(None),
        lambda: e.Estimator(lambda x, mode: None),
        lambda: e.Estimator(lambda features: None, params={"rate": 1}),
        lambda: e.Estimator(model_fn_of(e), config=v1.ConfigProto()),
        lambda: e.Estimator(model_fn_of(e), "a", e.RunConfig("b")),
        lambda: e.Estimator(lambda features, mode: {}).train(input_fn),
        lambda: e.Estimator(lambda features, mode: {}).train(lambda: (1, 2)),
        lambda: e.Estimator(
            lambda features: e.EstimatorSpec("eval", {}, zero(), None, {"loss": metric()})
        ).evaluate(input_fn),
    ]
    return [error_of(call) for call in calls]


@program
def bad_specs_are_refused(e: ModuleType, folder: Path, error_of: Any = kind_of_error) -> Any:
    with tf.Graph().as_default():
        elsewhere = tf.zeros([])
    outputs = [{k: e.export.PredictOutput(tf.zeros([1])) for k in "ab"}, [1], {"a": 1}]
    scores, classes = tf.zeros([2, 3]), tf.constant([["a"]])
    classify, regress = e.export.ClassificationOutput, e.export.RegressionOutput
    zero = lambda: tf.zeros([])  # noqa: E731
    calls: list[Any] = [
        lambda: e.EstimatorSpec("train", train_op=tf.no_op()),
        lambda: e.EstimatorSpec("train", loss=tf.zeros([])),
        lambda: e.EstimatorSpec("train", loss=zero(), train_op=3),
        lambda: e.EstimatorSpec("eval"),
        lambda: e.EstimatorSpec("eval", loss=tf.zeros([2])),
        lambda: e.EstimatorSpec("eval", loss=elsewhere),
        lambda: e.EstimatorSpec("eval", loss=zero(), eval_metric_ops=[1]),
        lambda: e.EstimatorSpec("eval", loss=zero(), eval_metric_ops={"a": 1}),
        lambda: e.EstimatorSpec("eval", loss=zero(), evaluation_hooks=[1]),
        lambda: e.EstimatorSpec("eval", loss=zero(), scaffold=1),
        lambda: e.EstimatorSpec("eval", loss=zero())._replace(mode="train"),
        lambda: e.EstimatorSpec("infer"),
        lambda: e.EstimatorSpec("infer", {"x": 1}),
        *(lambda o=o: e.EstimatorSpec("infer", tf.zeros([1]), export_outputs=o) for o in outputs),
        classify,
        lambda: classify(classes),
        lambda: classify(classes=scores),
        lambda: regress(classes),
        lambda: e.export.PredictOutput({"a": 1.0}),
        lambda: e.export.PredictOutput({1: scores}),
        *(lambda o=o: o(scores).as_signature_def({"x": scores}) for o in (classify, regress)),
    ]
    with tf.Graph().as_default():
        return [error_of(lambda call=call: type(call()).__name__) for call in calls]


@program
def specs_have_defaults(e: ModuleType, folder: Path) -> Any:
    with tf.Graph().as_default():
        one = tf.zeros([1])
        train = e.EstimatorSpec("train", loss=tf.constant([[1.0]]), train_op=tf.no_op())
        kinds = [[name, type(value).__name__] for name, value in train._asdict().items()]
        mine = e.EstimatorSpec("infer", one, export_outputs={"mine": e.export.PredictOutput(one)})
        found = [sorted(mine.export_outputs), train.loss.shape.as_list()]
        for predictions in ({"a": one, "b": one}, one, {}):
            outputs = e.EstimatorSpec("infer", predictions).export_outputs or {}
            found.append({name: sorted(each.outputs) for name, each in outputs.items()})
        for mode in ("train", "eval"):
            spec = e.EstimatorSpec(mode, one, tf.zeros([]), tf.no_op())
            found.append(spec.export_outputs)
        return [kinds, *found]


@program
def outputs_have_the_signatures_of_saved_models(e: ModuleType, folder: Path) -> Any:
    with tf.Graph().as_default():
        scores, classes = tf.zeros([2, 3], name="s"), tf.constant([["a"]], name="c")
        examples = {"examples": v1.placeholder(tf.string, [None], name="e")}
        outputs = {
            e.export.ClassificationOutput(scores, classes): examples,
            e.export.RegressionOutput(scores): examples,
            e.export.PredictOutput({"p": scores}): {"x": scores},
        }
        found = [output.as_signature_def(fed) for output, fed in outputs.items()]
        names = [
            [{key: each.name for key, each in part.items()} for part in (one.inputs, one.outputs)]
            for one in found
        ]
        return [[one.method_name for one in found], names]


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
