"""The versions that the native library of this package was built with."""

import logging
from typing import Any

import tensorflow as tf

from condacc import libraries

_LOG = logging.getLogger("tf_condacc")


def build_info() -> dict[str, Any]:
    """Returns the versions that the native library was built with.

    Returns:
        A dictionary with the keys `tensorflow` (its version), `compiler` (name and version), `cuda`
        (version of the toolkit; None for a build without CUDA), `cuda_archs` (a list of GPU
        architectures), `version` (that of tf_condacc) and `sources` (a digest of the C++ sources).

    Raises:
        ImportError: There is no native library for the installed TensorFlow.
    """
    return native_library().info()


def native_library() -> libraries.Library:
    """Returns the native library for the installed TensorFlow.

    Raises:
        ImportError: There is none.
    """
    library = libraries.find(tf.__version__)
    if library is None:
        raise ImportError(libraries.why_none(tf.__version__))
    if libraries.is_outdated(library):
        _LOG.warning(
            "%s was built from other sources than those of the source tree. Build it again with "
            "`make build`, or with `python -m condacc build --force`.",
            library.file,
        )
    return library
