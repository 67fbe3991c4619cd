"""A program that rewrites TensorFlow 1 programs for this package. It needs no TensorFlow."""
