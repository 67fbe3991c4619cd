"""Public path of `Estimator`; see `tf_condacc.estimator.runner.estimator`."""

from tf_condacc.estimator.runner.estimator import Estimator

__all__ = ["Estimator"]
