"""Public path of `RunConfig`; see `tf_condacc.estimator.runner.run_config`."""

from tf_condacc.estimator.runner.run_config import RunConfig

__all__ = ["RunConfig"]
