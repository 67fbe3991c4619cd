"""Errors of names that are not provided."""

from condacc.originals import PACKAGES

INSTALL_ESTIMATOR = (
    f'pip install ".[{PACKAGES["tensorflow_estimator"].extra}]" in the clone of tf_condacc'
)


class MissingNameError(AttributeError):
    """A module of TensorFlow 1 lacks a name, and the message says what to use instead."""


class MissingModuleError(ModuleNotFoundError):
    """A module of TensorFlow 1 is not provided, and the message says what to use instead."""
