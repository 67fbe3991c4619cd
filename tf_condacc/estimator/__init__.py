"""An Estimator that runs a `model_fn`, such as one of `tf_condacc.replicate_model_fn`.

Mirrors the parts of ``tf.estimator`` that legacy programs for several devices need.
"""

from tf_condacc._model_fn import ModeKeys
from tf_condacc.estimator import export, inputs
from tf_condacc.estimator._estimator import Estimator
from tf_condacc.estimator._run_config import RunConfig
from tf_condacc.estimator._spec import EstimatorSpec
from tf_condacc.estimator._training import EvalSpec, TrainSpec, train_and_evaluate

__all__ = [
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "ModeKeys",
    "RunConfig",
    "TrainSpec",
    "export",
    "inputs",
    "train_and_evaluate",
]
