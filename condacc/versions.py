"""What differs between the versions of TensorFlow. TensorFlow is not imported here."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os

from condacc import libraries
from condacc._find_tensorflow import installed_tensorflow

_LEGACY_KERAS = "TF_USE_LEGACY_KERAS"


@functools.cache
def release() -> str:
    """Returns the minor release of the installed TensorFlow, such as "2.21".

    Without TensorFlow, it is the newest one that is supported.
    """
    _, version = installed_tensorflow() or ("", "")
    return libraries.key_of(version) if version else libraries.SUPPORTED[-1]


def install_tf_keras() -> str:
    """Returns the command that installs Keras 2 for the installed TensorFlow."""
    return f"pip install '{libraries.requirement_of('tf-keras', release())}'"


def brings_keras2() -> bool:
    """Returns whether the package keras is Keras 2, as it is with TensorFlow 2.15."""
    try:
        return importlib.metadata.version("keras").startswith("2.")
    except importlib.metadata.PackageNotFoundError:
        return False


def sums_activity_losses() -> bool:
    """Returns whether Keras adds up the loss of an activity regularizer over the samples.

    Since 3.14 it divides by their number.
    """
    return libraries.numbers_of(importlib.metadata.version("keras"))[:2] < [3, 14]


def uses_keras2() -> bool:
    """Returns whether TensorFlow uses Keras 2."""
    # The values that TensorFlow accepts.
    return brings_keras2() or os.environ.get(_LEGACY_KERAS) in ("1", "true", "True")


def take_keras2() -> None:
    """Makes TensorFlow use Keras 2, from the package tf-keras, when it is imported."""
    if not uses_keras2():
        os.environ[_LEGACY_KERAS] = "1"


def has_module(name: str) -> bool:
    """Returns whether a module exists. Only its parents are imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
