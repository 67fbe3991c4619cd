"""Complete programs that train in the TensorFlow 1 style; meant to be read and copied from.

* ``python -m tf_condacc.examples.word_vectors``: embeddings, through sparse accumulators.
* ``python -m tf_condacc.examples.async_digits``: digits, by workers that do not wait for each other
  and drop gradients that are stale.
* ``python -m tf_condacc.examples.towers``: digits, with towers and an Estimator.

``tf_condacc.demo`` is one of them, through dense accumulators. What they share is in ``common``.
"""
