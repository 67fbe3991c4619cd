"""Stands for ``tensorflow.examples.tutorials``."""
