"""Names of TensorFlow 1 that legacy programs expect, on a TensorFlow that has them no more."""
