"""Public path of `replicate_model_fn`; see `tf_condacc.estimator.towers.replication`."""

from tf_condacc.estimator.towers.replication import replicate_model_fn

__all__ = ["replicate_model_fn"]
