"""Towers: one model on several devices, and what runs it.

Mirrors the parts of ``tf.contrib.estimator`` and ``tf.estimator`` that legacy programs with several
devices need: `TowerOptimizer` and `replicate_model_fn`, and a thin `Estimator`.
"""

from tf_condacc.estimator import export
from tf_condacc.estimator.estimator import Estimator
from tf_condacc.estimator.model_fn import EstimatorSpec, ModeKeys
from tf_condacc.estimator.replication import replicate_model_fn
from tf_condacc.estimator.run_config import RunConfig
from tf_condacc.estimator.tower_optimizer import TowerOptimizer

__all__ = [
    "Estimator",
    "EstimatorSpec",
    "ModeKeys",
    "RunConfig",
    "TowerOptimizer",
    "export",
    "replicate_model_fn",
]
