"""The names of TensorFlow that are rewritten or reported.

Names are written without ``tensorflow``, ``compat.v1`` and ``compat.v2``.
"""

from __future__ import annotations

from condacc.originals import places

PACKAGE = "tf_condacc"
_ROOTS = ("tensorflow", "tensorflow_core")
_VERSIONS = ("compat.v1", "compat.v2", "_api.v1", "_api.v2")
_CONTRIB_OF_ESTIMATOR = "tensorflow_estimator.contrib."

# The names that are rewritten, and the names in this package that take their place. Names that are
# provided only while `tf_condacc.compat` runs a program unedited are not among them.
PROVIDED: dict[str, str] = {}
# Rewritten on request only: the Estimator of this package is small, and not all programs run on it.
PROVIDED_FOR_ESTIMATOR: dict[str, str] = {}
for _name, _place in places():
    _target = _place.replace(":", ".")
    if _target.startswith(f"{PACKAGE}.estimator."):
        PROVIDED_FOR_ESTIMATOR[_name] = _target
    elif _target.startswith(f"{PACKAGE}.") and not _target.startswith(f"{PACKAGE}.compat."):
        PROVIDED[_name] = _target

DEVICE_SETTER = f"{PACKAGE}.replica_device_setter"
SERVERS = ("train.Server", "distribute.Server")
# Written by tf_upgrade_v2 --mode SAFETY.
WRONG_MODULES = ("tensorflow.compat.v1.python", "tensorflow.compat.v2.python")
# Besides tf.layers and cells, what tf_upgrade_v2 writes for names of tf.contrib.layers.
KERAS_2 = ("layers", "nn.rnn_cell", "keras.initializers.VarianceScaling", "keras.regularizers")

# Types of the originals' operations. Operations of this package have other types.
OP_TYPES = frozenset(
    (
        "AccumulatorApplyGradient",
        "AccumulatorNumAccumulated",
        "AccumulatorSetGlobalStep",
        "AccumulatorTakeGradient",
        "ConditionalAccumulator",
        "ResourceAccumulatorApplyGradient",
        "ResourceAccumulatorNumAccumulated",
        "ResourceAccumulatorSetGlobalStep",
        "ResourceAccumulatorTakeGradient",
        "ResourceConditionalAccumulator",
        "SparseAccumulatorApplyGradient",
        "SparseAccumulatorTakeGradient",
        "SparseConditionalAccumulator",
    )
)


def plain(name: str) -> str | None:
    """Returns a name of TensorFlow without ``tensorflow`` and versions; None for other names."""
    if name.startswith(_CONTRIB_OF_ESTIMATOR):
        return name.removeprefix("tensorflow_estimator.")
    root, _, rest = name.partition(".")
    if root not in _ROOTS:
        return None
    for version in _VERSIONS * 2:  # ``_api.v2.compat.v1`` has two.
        if is_in(rest, (version,)):
            rest = rest[len(version) + 1 :]
    return rest


def is_in(name: str, modules: tuple[str, ...]) -> bool:
    """Returns whether a name is one of these modules, or is found in one of them."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def estimator_lacks(name: str) -> bool:
    """Returns whether a name is in tf.estimator and has no counterpart in this package.

    Args:
        name: Name without ``tensorflow`` and versions. It may be a module of tf.estimator, or an
            attribute of one of its classes.
    """
    return name.startswith("estimator.") and not any(
        is_in(name, (provided,)) or is_in(provided, (name,)) for provided in PROVIDED_FOR_ESTIMATOR
    )
