"""Loads the native ops, after checking that they were built for the installed TensorFlow."""

from pathlib import Path
from types import ModuleType

import tensorflow as tf

from tf_condacc._build_info import build_info
from tf_condacc._ops.nodes import CheckedNodes

_LIBRARY = Path(__file__).resolve().parents[1] / "_condacc_ops.so"


_NOT_DIFFERENTIABLE = tuple(
    f"Condacc>{kind}{verb}"
    for kind in ("Dense", "Sparse")
    for verb in (
        "Accumulator",
        "Apply",
        "ApplyContribution",
        "ApplyWeighted",
        "Take",
        "TryTake",
        "TakeRound",
    )
) + tuple(
    f"Condacc>Tower{kind}{verb}" for kind in ("Dense", "Sparse") for verb in ("Sum", "Add", "Take")
)


def _load() -> ModuleType:
    """Loads the library.

    TensorFlow's C++ interface changes with each release. A library that was built against another
    release fails to load with an error about an undefined symbol, or crashes later. The version is
    therefore compared before the library is loaded.

    Returns:
        The module of generated op functions.

    Raises:
        ImportError: The library is missing, or was built against another TensorFlow.
    """
    if not _LIBRARY.exists():
        raise ImportError(
            f"tf_condacc has no {_LIBRARY.name} in {_LIBRARY.parent}: it is not built. "
            "Build it with `make build` in the source tree, or with `pip install .`."
        )
    built_against = build_info()["tensorflow"]
    if built_against != tf.__version__:
        raise ImportError(
            f"tf_condacc was built against TensorFlow {built_against}, but TensorFlow "
            f"{tf.__version__} is installed. Rebuild it with `make build` in the source tree, or "
            "with `pip install --force-reinstall --no-deps .`; or install "
            f"tensorflow=={built_against}."
        )
    library = tf.load_op_library(str(_LIBRARY))
    # As with TensorFlow's own accumulators, tf.gradients gives None here instead of raising.
    for op in _NOT_DIFFERENTIABLE:
        tf.no_gradient(op)
    return library


ops = _load()
nodes = CheckedNodes(ops)
vars(ops)["_op_def_library"] = nodes  # The generated functions build nodes by this name.
