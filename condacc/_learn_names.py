"""The names of ``tf.contrib.learn`` that `tf_condacc.compat.learn` has, by their modules."""

from __future__ import annotations

_CONFIG = ("RunConfig", "TaskType")
_EXPORTING = ("make_export_strategy",)
_INPUTS = ("numpy_input_fn",)
_MODEL = ("ModeKeys", "ModelFnOps")
_SERVING = (
    "InputFnOps",
    "build_default_serving_input_fn",
    "build_parsing_serving_input_fn",
)
_ALL = (
    *_CONFIG,
    *_EXPORTING,
    *_MODEL,
    "Estimator",
    "Experiment",
    "ExportStrategy",
    "InputFnOps",
    "MetricSpec",
    "NotFittedError",
    "PredictionKey",
    "ProblemType",
    "build_parsing_serving_input_fn",
)

# The modules that are below both ``tf.contrib.learn`` and ``tf.contrib.learn.python.learn``.
_PUBLIC: dict[str, tuple[str, ...]] = {
    "": _ALL,
    "learn_runner": ("run", "tune"),
    "utils": (*_EXPORTING, *_SERVING),
    "utils.input_fn_utils": _SERVING,
    "utils.saved_model_export_utils": _EXPORTING,
}
_PRIVATE: dict[str, tuple[str, ...]] = {
    "estimators": (*_CONFIG, *_MODEL, "Estimator", "NotFittedError"),
    "estimators.constants": ("ProblemType",),
    "estimators.estimator": ("Estimator", "NotFittedError"),
    "estimators.model_fn": _MODEL,
    "estimators.prediction_key": ("PredictionKey",),
    "estimators.run_config": (*_CONFIG, "Environment"),
    "experiment": ("Experiment",),
    "export_strategy": ("ExportStrategy",),
    "learn_io": _INPUTS,
    "learn_io.numpy_io": _INPUTS,
    "metric_spec": ("MetricSpec",),
}

# The paths of the modules are relative to ``tf.contrib``.
LEARN_MODULES = {
    f"{root}.{path}".rstrip("."): names
    for root, modules in (
        ("learn", _PUBLIC | {"io": _INPUTS}),
        ("learn.python.learn", _PUBLIC | _PRIVATE),
    )
    for path, names in modules.items()
}
