"""The names of TensorFlow that are rewritten or reported.

Names are written without ``tensorflow``, ``compat.v1`` and ``compat.v2``.
"""

from __future__ import annotations

PACKAGE = "tf_condacc"
_ROOTS = ("tensorflow", "tensorflow_core")
_VERSIONS = ("compat.v1", "compat.v2", "_api.v1", "_api.v2")
_CONTRIB_OF_ESTIMATOR = "tensorflow_estimator.contrib."

_ACCUMULATORS = (
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "SparseConditionalAccumulator",
)
_BALANCING = ("GreedyLoadBalancingStrategy", "byte_size_load_fn")
_TOWERS = ("TowerOptimizer", "replicate_model_fn")

# The modules in which the originals are found, the names there, and the module of this package.
_PLACES = (
    ("", _ACCUMULATORS, PACKAGE),
    ("python.ops.data_flow_ops", _ACCUMULATORS, PACKAGE),
    ("sparse", ("SparseConditionalAccumulator",), PACKAGE),
    ("train", ("SyncReplicasOptimizer", "replica_device_setter"), PACKAGE),
    ("python.training.training", ("SyncReplicasOptimizer", "replica_device_setter"), PACKAGE),
    ("python.training.sync_replicas_optimizer", ("SyncReplicasOptimizer",), PACKAGE),
    ("python.training.device_setter", ("replica_device_setter",), PACKAGE),
    ("contrib.opt", ("DropStaleGradientOptimizer",), PACKAGE),
    (
        "contrib.opt.python.training.drop_stale_gradient_optimizer",
        ("DropStaleGradientOptimizer",),
        PACKAGE,
    ),
    ("contrib.estimator", _TOWERS, PACKAGE),
    ("contrib.estimator.python.estimator.replicate_model_fn", _TOWERS, PACKAGE),
    ("contrib.training", _BALANCING, f"{PACKAGE}.cluster"),
    ("contrib.training.python.training.device_setter", _BALANCING, f"{PACKAGE}.cluster"),
)
_ESTIMATOR_PLACES = (
    (
        "estimator",
        (
            "Estimator",
            "EstimatorSpec",
            "EvalSpec",
            "Exporter",
            "FinalExporter",
            "LatestExporter",
            "ModeKeys",
            "RunConfig",
            "TrainSpec",
            "WarmStartSettings",
            "train_and_evaluate",
        ),
        f"{PACKAGE}.estimator",
    ),
    ("estimator.inputs", ("numpy_input_fn",), f"{PACKAGE}.estimator.inputs"),
    (
        "estimator.export",
        (
            "ClassificationOutput",
            "ExportOutput",
            "PredictOutput",
            "RegressionOutput",
            "ServingInputReceiver",
            "build_parsing_serving_input_receiver_fn",
            "build_raw_serving_input_receiver_fn",
        ),
        f"{PACKAGE}.estimator.export",
    ),
)


def _joined(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name


def _targets(places: tuple[tuple[str, tuple[str, ...], str], ...]) -> dict[str, str]:
    return {_joined(place, name): f"{to}.{name}" for place, names, to in places for name in names}


PROVIDED = _targets(_PLACES)
# Rewritten on request only: the Estimator of this package is thin, and not all programs run on it.
PROVIDED_FOR_ESTIMATOR = _targets(_ESTIMATOR_PLACES)

DEVICE_SETTER = f"{PACKAGE}.replica_device_setter"
SERVERS = ("train.Server", "distribute.Server")
# Written by tf_upgrade_v2 --mode SAFETY.
WRONG_MODULES = ("tensorflow.compat.v1.python", "tensorflow.compat.v2.python")
KERAS_2 = ("layers", "nn.rnn_cell")

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
    """Returns a qualified name without ``tensorflow`` and versions; None if it is no such name."""
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
