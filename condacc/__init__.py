"""The command ``condacc``, and what of tf_condacc needs no TensorFlow.

``condacc --help`` lists its subcommands. Nothing here imports TensorFlow or `tf_condacc` when it is
imported.
"""

from condacc._version import __version__

__all__ = ["__version__"]
