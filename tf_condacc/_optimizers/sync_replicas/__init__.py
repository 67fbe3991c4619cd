"""The optimizer that averages the gradients of several workers in each step.

Mirrors ``tf.compat.v1.train.SyncReplicasOptimizer``.
"""
