"""A launcher of local clusters. It needs no TensorFlow."""
