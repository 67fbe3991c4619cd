"""Stands for ``tensorflow.examples``, of which programs import the MNIST tutorial."""
