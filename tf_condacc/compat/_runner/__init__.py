"""The runner of programs for TensorFlow 1: ``condacc run``."""
