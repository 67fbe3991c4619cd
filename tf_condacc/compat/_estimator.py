"""The provider of ``tf.estimator``."""

from __future__ import annotations

import types

from tf_condacc import estimator

_NAMES = ("Estimator", "EstimatorSpec", "ModeKeys", "RunConfig", "export")


def estimator_module() -> types.ModuleType:
    """Returns the module that ``tf.estimator`` shall be."""
    module = types.ModuleType("tensorflow.estimator", "The Estimator of tf_condacc.")
    for name in _NAMES:
        setattr(module, name, getattr(estimator, name))
    return module


def undo() -> None:
    """Undoes what `estimator_module` has changed."""
