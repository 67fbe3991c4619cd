"""The command ``condacc``, and the modules without TensorFlow that tf_condacc shares with it.

``condacc --help`` lists its subcommands. Nothing here imports TensorFlow or `tf_condacc` when it is
imported.
"""

from condacc._version import __version__

__all__ = ["__version__"]
