"""Runs programs that were written for TensorFlow 1 and ``tf.contrib``.

`install` replaces the originals by the classes of this package, and brings back names that the
installed TensorFlow lacks: ``tf.contrib``, ``tf.estimator``, and private paths that programs use.
It changes names only. Whether TensorFlow behaves as version 1 or 2 stays as it is.

``condacc run script.py`` runs a program unedited: it installs the names, turns the
behaviour of version 2 off, and makes ``import tensorflow`` mean ``tf.compat.v1`` in the program.
"""

from tf_condacc.compat._errors import MissingModuleError, MissingNameError
from tf_condacc.compat._hparams import HParams
from tf_condacc.compat._installation import install, installed, uninstall

__all__ = ["HParams", "MissingModuleError", "MissingNameError", "install", "installed", "uninstall"]
