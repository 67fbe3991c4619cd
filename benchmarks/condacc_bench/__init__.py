"""This project's accumulators and TensorFlow's own, timed side by side in one process.

Method: every case is built once per implementation, from the same graph code and session options.
Rounds then alternate between the implementations, each round starting with another one, and give
one ratio each; the median of these ratios is the result. Whatever the machine does meanwhile hits
all of them alike. The cost of making the gradients is timed on its own in each round and taken off.
"""
