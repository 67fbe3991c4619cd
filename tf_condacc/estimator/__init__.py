"""Replication of a model over several devices, and an Estimator that runs it.

Mirrors the parts of ``tf.contrib.estimator`` and ``tf.estimator`` that legacy programs for several
devices need: `TowerOptimizer`, `replicate_model_fn` and a small `Estimator`.
"""

from tf_condacc.estimator import export, inputs
from tf_condacc.estimator.estimator import Estimator
from tf_condacc.estimator.model_fn import EstimatorSpec, ModeKeys
from tf_condacc.estimator.replication import replicate_model_fn
from tf_condacc.estimator.run_config import RunConfig
from tf_condacc.estimator.runner.exporters import Exporter, FinalExporter, LatestExporter
from tf_condacc.estimator.runner.train_specs import EvalSpec, TrainSpec
from tf_condacc.estimator.runner.training import train_and_evaluate
from tf_condacc.estimator.runner.warm_start import WarmStartSettings
from tf_condacc.estimator.tower_optimizer import TowerOptimizer

__all__ = [
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FinalExporter",
    "LatestExporter",
    "ModeKeys",
    "RunConfig",
    "TowerOptimizer",
    "TrainSpec",
    "WarmStartSettings",
    "export",
    "inputs",
    "replicate_model_fn",
    "train_and_evaluate",
]
