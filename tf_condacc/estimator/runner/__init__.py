"""The runner of a `model_fn`: an Estimator and its configuration.

Mirrors ``tf.estimator.Estimator`` and ``tf.estimator.RunConfig`` for a single process.
"""

from tf_condacc.estimator.runner.estimator import Estimator
from tf_condacc.estimator.runner.run_config import RunConfig

__all__ = ["Estimator", "RunConfig"]
