"""A digit classifier of the year 2018, trained with towers on several devices.

Run it with ``python -m tf_condacc.examples.towers``; ``--help`` lists the options.

The program is written as programs for ``tf.contrib.estimator`` were: a `model_fn` with a
TowerOptimizer, replicated over devices, run by an Estimator. The devices are virtual CPUs here. The
modules, in the order to read them in:

* ``model``: the `model_fn`, a convolutional network with batch normalization.
* ``runs``: trains, evaluates and predicts with one tower and with several.
* ``comparison``: the same steps without batch normalization, whose statistics are per tower: with
  towers, without, and by a ``tf.distribute.MirroredStrategy``.
* ``mirrored``: that strategy's training.
* ``report``, ``picture`` and ``__main__``: the tables, the picture and the command line.
"""
