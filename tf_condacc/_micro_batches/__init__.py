"""Micro-batches: several batches whose gradients make one update.

TensorFlow has no such class. Keras optimizers have ``gradient_accumulation_steps``.
"""
