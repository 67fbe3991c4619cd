"""The names of ``tf.contrib.learn`` that `tf_condacc.compat.learn` has, by their modules."""

from __future__ import annotations

_CONFIG = ("RunConfig", "TaskType")
_EXPERIMENT = ("Experiment", "ExportStrategy", "MetricSpec")
_INPUTS = ("numpy_input_fn",)
_KEYS = ("PredictionKey", "ProblemType")
_MODEL = ("Estimator", "ModeKeys", "ModelFnOps", "NotFittedError")
_SERVING = (
    "InputFnOps",
    "build_default_serving_input_fn",
    "build_parsing_serving_input_fn",
    "make_export_strategy",
)

# The modules, by their paths below ``tf.contrib.learn`` and ``tf.contrib.learn.python.learn``.
LEARN_MODULES: dict[str, tuple[str, ...]] = {
    "": (*_CONFIG, *_EXPERIMENT, *_KEYS, *_MODEL, *_SERVING),
    "estimators": (*_CONFIG, *_KEYS, *_MODEL),
    "estimators.constants": _KEYS,
    "estimators.estimator": _MODEL,
    "estimators.model_fn": _MODEL,
    "estimators.prediction_key": _KEYS,
    "estimators.run_config": (*_CONFIG, "Environment"),
    "experiment": _EXPERIMENT,
    "export_strategy": _EXPERIMENT,
    "io": _INPUTS,
    "learn_io": _INPUTS,
    "learn_io.numpy_io": _INPUTS,
    "learn_runner": ("run", "tune"),
    "metric_spec": _EXPERIMENT,
    "utils": _SERVING,
    "utils.input_fn_utils": _SERVING,
    "utils.saved_model_export_utils": _SERVING,
}
