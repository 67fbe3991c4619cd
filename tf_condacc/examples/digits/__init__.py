"""A digit classifier, trained by several workers through conditional accumulators.

Run it with ``python -m tf_condacc.demo`` or ``python -m tf_condacc.examples.digits``; ``--help``
lists the options.

Read the modules in this order:

* ``graph`` builds the TensorFlow 1 graph. Workers push gradients into one accumulator per variable,
  and the chief takes the means and applies them.
* ``training`` feeds the workers and records the training. The modules ``rounds`` and ``training``
  of ``tf_condacc.examples.common`` contain the protocol of workers and chief, and their threads.
* ``model`` and ``data`` contain the network and the data set.
* ``report``, ``picture`` and ``__main__`` contain the table, the picture and the command line.
"""
