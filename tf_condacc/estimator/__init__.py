"""An Estimator that runs a `model_fn`, such as one of `tf_condacc.replicate_model_fn`.

Mirrors the parts of ``tf.estimator`` that legacy programs for several devices need.
"""

from tf_condacc._model_fn import ModeKeys
from tf_condacc.estimator import export, inputs
from tf_condacc.estimator._estimator import Estimator
from tf_condacc.estimator._exporters import Exporter, FinalExporter, LatestExporter
from tf_condacc.estimator._run_config import RunConfig
from tf_condacc.estimator._spec import EstimatorSpec
from tf_condacc.estimator._training import EvalSpec, TrainSpec, train_and_evaluate
from tf_condacc.estimator._warm_start import WarmStartSettings

__all__ = [
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FinalExporter",
    "LatestExporter",
    "ModeKeys",
    "RunConfig",
    "TrainSpec",
    "WarmStartSettings",
    "export",
    "inputs",
    "train_and_evaluate",
]
