"""``tf.contrib.learn``: an Experiment and an Estimator over ``tf.estimator``.

The module has what programs use to train their own `model_fn`: RunConfig, ModeKeys, ModelFnOps,
Estimator, Experiment and `learn_runner`. The Estimators run those of ``tf.estimator``: the package
tensorflow-estimator if it is installed, otherwise `tf_condacc.estimator`.
"""

from tf_condacc.compat.learn import learn_runner
from tf_condacc.compat.learn._estimator import Estimator, NotFittedError
from tf_condacc.compat.learn._experiment import Experiment
from tf_condacc.compat.learn._exports import (
    ExportStrategy,
    InputFnOps,
    build_default_serving_input_fn,
    build_parsing_serving_input_fn,
    make_export_strategy,
)
from tf_condacc.compat.learn._inputs import numpy_input_fn
from tf_condacc.compat.learn._metrics import MetricSpec
from tf_condacc.compat.learn._model_fn import ModeKeys, ModelFnOps, PredictionKey, ProblemType
from tf_condacc.compat.learn._run_config import Environment, RunConfig, TaskType

__all__ = [
    "Environment",
    "Estimator",
    "Experiment",
    "ExportStrategy",
    "InputFnOps",
    "MetricSpec",
    "ModeKeys",
    "ModelFnOps",
    "NotFittedError",
    "PredictionKey",
    "ProblemType",
    "RunConfig",
    "TaskType",
    "build_default_serving_input_fn",
    "build_parsing_serving_input_fn",
    "learn_runner",
    "make_export_strategy",
    "numpy_input_fn",
]
