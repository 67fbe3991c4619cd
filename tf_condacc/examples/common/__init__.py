"""What the programs share.

* ``rounds``: how workers and chief take turns, as a graph.
* ``training`` and ``cluster``: the threads that run such a graph, each with its own session.
* ``backends``, ``command_line``, ``report`` and ``pictures``: what is around it.
"""
