"""Towers: one model on several devices, each of which trains on its part of the batch.

Mirrors ``tf.contrib.estimator.TowerOptimizer`` and ``tf.contrib.estimator.replicate_model_fn``.
"""
