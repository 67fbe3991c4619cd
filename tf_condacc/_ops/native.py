"""Loads the native ops, after checking that they were built for the installed TensorFlow."""

from types import ModuleType

import tensorflow as tf

from tf_condacc._build_info import native_library
from tf_condacc._ops.nodes import CheckedNodes

_NOT_DIFFERENTIABLE = (
    tuple(
        f"Condacc>{kind}{verb}"
        for kind in ("Dense", "Sparse")
        for verb in (
            "Accumulator",
            "Apply",
            "Take",
            "TryTake",
        )
    )
    + ("Condacc>DenseApplyTake", "Condacc>Multiply")
    + tuple(
        f"Condacc>Tower{kind}{verb}"
        for kind in ("Dense", "Sparse")
        for verb in ("Sum", "Add", "Take")
    )
)


def _load() -> ModuleType:
    """Loads the library.

    TensorFlow's C++ interface changes with each release. A library that was built against another
    release fails to load with an error about an undefined symbol, or crashes later. Only a library
    that was built for this release is therefore loaded.

    Returns:
        The module of generated op functions.

    Raises:
        ImportError: There is no library for this TensorFlow, or it does not load.
    """
    file = native_library().file
    try:
        library = tf.load_op_library(str(file))
    except tf.errors.NotFoundError as error:
        raise ImportError(
            f"The native library of tf_condacc does not load with TensorFlow {tf.__version__} on "
            f"this machine: build one with `condacc build --force`. {error.message}"
        ) from error
    # As with TensorFlow's own accumulators, tf.gradients gives None here instead of raising.
    for op in _NOT_DIFFERENTIABLE:
        tf.no_gradient(op)
    return library


ops = _load()
nodes = CheckedNodes(ops)
vars(ops)["_op_def_library"] = nodes  # The generated functions build nodes through it.


def lowest_num_accumulated(*handles: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns the lowest number of gradients that any of several accumulators has: `[] int32`."""
    return ops.condacc_accumulator_num_accumulated(list(handles), name=name)
