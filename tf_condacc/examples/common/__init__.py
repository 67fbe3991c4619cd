"""The code that the example programs share.

* ``rounds`` builds the part of the graph in which workers and chief take turns.
* ``training`` and ``cluster`` contain the threads that run such a graph, each with its own session.
* ``accumulators`` and ``backends`` contain the accumulators of this package and of TensorFlow.
* ``command_line``, ``report`` and ``pictures`` contain the input and output of the programs.
"""
