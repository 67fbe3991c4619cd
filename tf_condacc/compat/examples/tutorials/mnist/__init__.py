"""Stands for ``tensorflow.examples.tutorials.mnist``: its data, and its model."""

from tf_condacc.compat.examples.tutorials.mnist import input_data, mnist

__all__ = ["input_data", "mnist"]
