"""Complete programs that train in the TensorFlow 1 style; meant to be read and copied from.

* ``python -m tf_condacc.examples.digits``: digits, through dense accumulators. It is also started
  by ``python -m tf_condacc.demo``.
* ``python -m tf_condacc.examples.word_vectors``: embeddings, through sparse accumulators.
* ``python -m tf_condacc.examples.async_digits``: digits, by workers that do not wait for each other
  and drop gradients that are stale.
* ``python -m tf_condacc.examples.towers``: digits, with towers and an Estimator.

What they share is in ``common``.
"""
