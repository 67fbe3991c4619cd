"""A digit classifier, trained by workers of different speed that do not wait for each other.

Run it with ``python -m tf_condacc.examples.async_digits``; ``--help`` lists the options.

Each worker applies its gradients itself, to variables that other workers have updated since it
read them. The program compares two trainings: one in which `DropStaleGradientOptimizer` drops stale
gradients, and one with a limit so high that no gradient is dropped. Read the modules in this order:

* ``graph`` builds the TensorFlow 1 graph with the operations of a worker.
* ``training`` contains the threads of the workers, feeds them and records the training.
* ``schedule`` determines the order in which workers of different speed finish.
* ``report``, ``picture`` and ``__main__`` contain the table, the picture and the command line.

The network and the data set are those of ``tf_condacc.examples.digits``.
"""
