"""What differs between the versions of TensorFlow. TensorFlow is not imported here."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os

from condacc import libraries
from condacc._find_tensorflow import installed_tensorflow

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"  # The variable from which TensorFlow reads its Keras.
# The packages that provide Keras. Pre-releases of TensorFlow require the nightly one.
_KERAS = ("keras", "keras-nightly")


@functools.cache
def release() -> str:
    """Returns the minor release of the installed TensorFlow, such as "2.21".

    Without TensorFlow, it is the newest one that is supported.
    """
    _, version = installed_tensorflow() or ("", "")
    return libraries.key_of(version) if version else libraries.SUPPORTED[-1]


def install_tf_keras() -> str:
    """Returns the command that installs Keras 2 for the installed TensorFlow.

    There is a tf-keras for each final release. It requires the TensorFlow of its own release, which
    must not take the place of a pre-release.
    """
    if release() in libraries.SUPPORTED:
        return f"pip install '{libraries.requirement_of('tf-keras', release())}'"
    newest = libraries.requirement_of("tf-keras", libraries.SUPPORTED[-1])
    return f"pip install --no-deps '{newest}'"


def version_of(package: str) -> str | None:
    """Returns the version of an installed package, or None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_keras() -> tuple[str, str] | None:
    """Returns the name and the version of the package that provides Keras, if there is one."""
    found = ((name, version_of(name)) for name in _KERAS)
    return next(((name, version) for name, version in found if version), None)


def brings_keras2() -> bool:
    """Returns whether the package keras is Keras 2, as it is with TensorFlow 2.15."""
    _, version = installed_keras() or ("", "")
    return version.startswith("2.")


def sums_activity_losses() -> bool:
    """Returns whether Keras adds up the loss of an activity regularizer over the samples.

    Since 3.14 it divides by their number.
    """
    _, version = installed_keras() or ("", "")
    return libraries.numbers_of(version)[:2] < [3, 14]


def uses_keras2() -> bool:
    """Returns whether TensorFlow uses Keras 2."""
    # The values that TensorFlow accepts.
    return brings_keras2() or os.environ.get(LEGACY_KERAS) in ("1", "true", "True")


def take_keras(version: int) -> None:
    """Makes TensorFlow use Keras 2, from the package tf-keras, or 3, when it is imported."""
    if uses_keras2() != (version == 2):
        os.environ[LEGACY_KERAS] = "1" if version == 2 else "0"


def has_module(name: str) -> bool:
    """Returns whether a module exists. Only its parents are imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
