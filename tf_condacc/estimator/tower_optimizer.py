"""Public path of `TowerOptimizer`; see `tf_condacc.estimator.towers.tower_optimizer`."""

from tf_condacc.estimator.towers.tower_optimizer import TowerOptimizer

__all__ = ["TowerOptimizer"]
