"""Word vectors, learned by several workers through sparse conditional accumulators.

Run it with ``python -m tf_condacc.examples.word_vectors``; ``--help`` lists the options.

Skip-gram with negative sampling over the language reference in Python's own ``pydoc_data.topics``.
A worker's gradient of an embedding is what ``tf.gather`` gives: a row for every word of its batch,
in the order of the batch, frequent words many times. The modules, in the order to read them in:

* ``graph``: the TensorFlow 1 graph. Workers push such gradients into one accumulator per
  embedding, the chief takes the means and applies them.
* ``training``: what the workers are fed, and what is kept of the training.
* ``text`` and ``model``: what is learned, and from what.
* ``comparison``: the same gradients through both classes of accumulators and through numpy.
* ``report``, ``picture`` and ``__main__``: the tables, the picture and the command line.
"""
