"""A digit classifier, trained by several workers through conditional accumulators.

Run it with ``python -m tf_condacc.demo`` or ``python -m tf_condacc.examples.digits``; ``--help``
lists the options.

The modules are meant to be read, and copied from, in this order:

* ``graph``: the TensorFlow 1 graph. Workers push gradients into one accumulator per variable,
  the chief takes the means and applies them.
* ``training``: what the workers are fed, and what is kept of the training. How workers and chief
  take turns, and their threads, are in ``tf_condacc.examples.common``: ``rounds``, ``training``.
* ``model`` and ``data``: what is trained, and on what.
* ``report``, ``picture`` and ``__main__``: the table, the picture and the command line.
"""
