"""The runner of programs for TensorFlow 1: ``python -m tf_condacc.compat``."""
