"""A digit classifier, trained by workers of different speed that wait for nobody.

Run it with ``python -m tf_condacc.examples.async_digits``; ``--help`` lists the options.

Each worker applies its gradients itself, to variables that the others have updated since it read
them. Two trainings, alike in all else, are compared: with `DropStaleGradientOptimizer` dropping
gradients that are too many steps behind, and with a limit that drops none. The modules, in the
order to read them in:

* ``graph``: the TensorFlow 1 graph: what a worker runs.
* ``training``: the threads of the workers, what they are fed, and what is kept of the training.
* ``schedule``: in which order workers of different speed finish.
* ``report``, ``picture`` and ``__main__``: the table, the picture and the command line.

What is trained, and on what, is that of ``tf_condacc.examples.digits``.
"""
