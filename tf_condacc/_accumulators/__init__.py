"""Conditional accumulators of dense and sparse gradients, and their placement.

Mirrors ``tf.compat.v1.ConditionalAccumulator``, ``tf.compat.v1.SparseConditionalAccumulator`` and
``tf.compat.v1.train.replica_device_setter``.
"""
