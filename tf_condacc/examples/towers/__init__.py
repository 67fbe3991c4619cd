"""A digit classifier of the year 2018, trained with towers on several devices.

Run it with ``python -m tf_condacc.examples.towers``; ``--help`` lists the options.

The program is written like programs for ``tf.contrib.estimator``: an Estimator runs a `model_fn`
that uses a TowerOptimizer and is replicated over devices. Here the devices are virtual CPUs. Read
the modules in this order:

* ``model`` contains the `model_fn`, a convolutional network with batch normalization.
* ``runs`` trains, evaluates and predicts with one tower and with several.
* ``comparison`` trains with one tower, with several towers and with a
  ``tf.distribute.MirroredStrategy``, and compares the weights after each step. It leaves out batch
  normalization, because its statistics differ from tower to tower.
* ``mirrored`` contains the training with that strategy.
* ``report``, ``picture`` and ``__main__`` contain the tables, the picture and the command line.
"""
