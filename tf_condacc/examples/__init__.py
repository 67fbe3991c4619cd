"""Complete programs that train in the TensorFlow 1 style, to be read and copied from.

* ``python -m tf_condacc.examples.digits`` trains a digit classifier with dense accumulators.
  ``python -m tf_condacc.demo`` starts the same program.
* ``python -m tf_condacc.examples.word_vectors`` trains embeddings with sparse accumulators.
* ``python -m tf_condacc.examples.async_digits`` trains a digit classifier with workers that do not
  wait for each other, and drops stale gradients.
* ``python -m tf_condacc.examples.towers`` trains a digit classifier with towers and an Estimator.

Each program is a module. The package ``common`` contains what stands behind them: threads, data,
models, command lines, tables and pictures.
"""
