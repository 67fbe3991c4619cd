"""Errors of names that are not provided."""


class MissingNameError(AttributeError):
    """A module of TensorFlow 1 lacks a name, and the message says what to use instead."""


class MissingModuleError(ModuleNotFoundError):
    """A module of TensorFlow 1 is not provided, and the message says what to use instead."""
