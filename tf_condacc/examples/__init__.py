"""Complete programs that train through conditional accumulators; meant to be read and copied from.

* ``python -m tf_condacc.examples.word_vectors``: embeddings, through sparse accumulators.

``tf_condacc.demo`` is one of them, through dense accumulators. What they share is in ``common``.
"""
