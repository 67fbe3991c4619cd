"""Word vectors, learned by several workers through sparse conditional accumulators.

Run it with ``python -m tf_condacc.examples.word_vectors``; ``--help`` lists the options.

The model is skip-gram with negative sampling, and the text is the language reference in Python's
module ``pydoc_data.topics``. A worker's gradient of an embedding is the gradient of ``tf.gather``:
it has one row for every word of the batch, in the order of the batch, so that frequent words have
several rows. Read the modules in this order:

* ``graph`` builds the TensorFlow 1 graph. Workers push such gradients into one accumulator per
  embedding, and the chief takes the means and applies them.
* ``training`` feeds the workers and records the training.
* ``text`` and ``model`` contain the data set and the model.
* ``comparison`` compares the means of both accumulator classes with those of NumPy.
* ``report``, ``picture`` and ``__main__`` contain the tables, the picture and the command line.
"""
