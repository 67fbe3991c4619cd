"""The names of TensorFlow 1, and what stands for each."""
