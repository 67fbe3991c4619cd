"""The optimizer that drops stale gradients.

Mirrors ``tf.contrib.opt.DropStaleGradientOptimizer``.
"""

from tf_condacc.optimizers.drop_stale.optimizer import DropStaleGradientOptimizer

__all__ = ["DropStaleGradientOptimizer"]
