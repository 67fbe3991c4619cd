"""The front of the runner of programs for TensorFlow 1: ``condacc run``."""
