"""The optimizer that drops stale gradients.

Mirrors ``tf.contrib.opt.DropStaleGradientOptimizer``.
"""
