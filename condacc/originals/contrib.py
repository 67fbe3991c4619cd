"""The names of ``tf.contrib`` that are provided, and where their objects are."""

from __future__ import annotations

_DROP_STALE = {"DropStaleGradientOptimizer": "tf_condacc:DropStaleGradientOptimizer"}
_TOWERS = {
    "TowerOptimizer": "tf_condacc:TowerOptimizer",
    "replicate_model_fn": "tf_condacc:replicate_model_fn",
}
_HPARAMS = {"HParams": "tf_condacc.compat._contrib.hparams:HParams"}
_V1_TRAIN = "tensorflow.compat.v1:train"
_LOOKUP_OPS = "tensorflow.python.ops.lookup_ops"
_CELLS = "tensorflow.compat.v1:nn.rnn_cell"


def _same(place: str, *names: str) -> dict[str, str]:
    """Returns the places of names that are attributes of one object or module."""
    separator = "." if ":" in place else ":"
    return {name: f"{place}{separator}{name}" for name in names}


_STEP = _same(
    _V1_TRAIN,
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
)
_CHECKPOINTS = _same(
    _V1_TRAIN, "init_from_checkpoint", "list_variables", "load_checkpoint", "load_variable"
)

# The modules by their paths below tf.contrib. Each name has the path of its module, or the path of
# the module and of the attribute: "package.module:a.b".
NAMES: dict[str, dict[str, str]] = {
    "data": _same("tensorflow.compat.v1:data", "TFRecordDataset", "TextLineDataset", "Dataset")
    | _same("tensorflow.compat.v1:data", "FixedLengthRecordDataset", "Iterator"),
    "estimator": _TOWERS,
    "estimator.python.estimator.replicate_model_fn": _TOWERS,
    "framework": _STEP
    | _CHECKPOINTS
    | {
        "deprecated": "tensorflow.python.util.deprecation:deprecated",
        "deprecated_args": "tensorflow.python.util.deprecation:deprecated_args",
        "nest": "tensorflow.python.util.nest",
        "smart_cond": "tensorflow.python.framework.smart_cond:smart_cond",
        "smart_constant_value": "tensorflow.python.framework.smart_cond:smart_constant_value",
        "zero_initializer": "tensorflow.compat.v1:zeros_initializer",
    },
    "framework.python.framework": {
        "checkpoint_utils": "tensorflow.python.training.checkpoint_utils",
    },
    "framework.python.framework.checkpoint_utils": _CHECKPOINTS,
    "framework.python.ops": _STEP,
    "framework.python.ops.variables": _STEP,
    "lookup": _same(
        _LOOKUP_OPS,
        "IdTableWithHashBuckets",
        "KeyValueTensorInitializer",
        "TextFileIdTableInitializer",
        "TextFileIndex",
        "TextFileInitializer",
        "TextFileStringTableInitializer",
        "index_table_from_file",
        "index_table_from_tensor",
        "index_to_string_table_from_file",
        "index_to_string_table_from_tensor",
    )
    | {
        "HashTable": "tensorflow.compat.v1:lookup.StaticHashTable",
        "MutableDenseHashTable": "tensorflow.compat.v1:lookup.experimental.DenseHashTable",
        "MutableHashTable": f"{_LOOKUP_OPS}:MutableHashTable",
    },
    "opt": _DROP_STALE,
    "opt.python.training.drop_stale_gradient_optimizer": _DROP_STALE,
    "rnn": _same(_CELLS, "DeviceWrapper", "DropoutWrapper", "ResidualWrapper", "LSTMStateTuple"),
    "staging": {"StagingArea": "tensorflow.python.ops.data_flow_ops:StagingArea"},
    "tensorboard.plugins.projector": _same(
        "tensorboard.plugins.projector", "ProjectorConfig", "visualize_embeddings"
    ),
    "tfprof": {"model_analyzer": "tensorflow.python.profiler.model_analyzer"},
    "training": {
        "GreedyLoadBalancingStrategy": "tf_condacc.cluster:GreedyLoadBalancingStrategy",
        "byte_size_load_fn": "tf_condacc.cluster:byte_size_load_fn",
    }
    | _HPARAMS
    | _same(_V1_TRAIN, "checkpoints_iterator"),
    "training.python.training.device_setter": _same(
        "tf_condacc.cluster", "GreedyLoadBalancingStrategy", "byte_size_load_fn"
    ),
    "training.python.training.hparam": _HPARAMS,
    "util": _same("tensorflow.compat.v1", "make_ndarray", "make_tensor_proto"),
}

# Modules whose public names are those of modules of another package, by their paths below
# tf.contrib. Modules below these are provided where the other package has one of the same name.
SOURCES: dict[str, tuple[str, ...]] = {
    "framework": ("tf_slim.ops.arg_scope", "tf_slim.ops.variables"),
    "framework.python.ops": ("tf_slim.ops.arg_scope", "tf_slim.ops.variables"),
    "framework.python.ops.arg_scope": ("tf_slim.ops.arg_scope",),
    "framework.python.ops.variables": ("tf_slim.ops.variables",),
    "layers": ("tf_slim.layers",),
    "layers.python.layers": ("tf_slim.layers",),
    "layers.python.ops": ("tf_slim.layers",),
    "losses": ("tf_slim.losses",),
    "losses.python.losses": ("tf_slim.losses",),
    "metrics": ("tf_slim.metrics",),
    "slim": ("tf_slim",),
    "slim.nets": ("tf_slim.nets",),
    "slim.python.slim": ("tf_slim",),
    "slim.python.slim.nets": ("tf_slim.nets",),
    "slim.python.slim.data": ("tf_slim.data",),
    "training": ("tf_slim.training.training", "tf_slim.training.evaluation"),
    "training.python.training": ("tf_slim.training",),
    "training.python.training.training": ("tf_slim.training.training",),
    "training.python.training.evaluation": ("tf_slim.training.evaluation",),
}
