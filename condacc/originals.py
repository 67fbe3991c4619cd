"""The names of TensorFlow 1 that programs use, and what stands for each of them today.

`tf_condacc.compat` installs these names, ``condacc migrate`` rewrites or explains them, and tests
compare the tables of the documentation with them.

A *place* is the path of a module, or the path of a module and of an attribute in it:
"package.module:a.b".
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from condacc._learn_names import LEARN_MODULES

# The packages, other than TensorFlow and tf_condacc, in which names have their places: the names
# that pip knows, by those of their top-level modules.
PACKAGES = {
    "tensorboard": "tensorboard",
    "tensorflow_estimator": "tensorflow-estimator",
    "tf_keras": "tf-keras",
    "tf_slim": "tf-slim",
}

_V1 = "tensorflow.compat.v1"
_TRAIN = f"{_V1}:train"
_PYTHON = "tensorflow.python"
_CELLS = f"{_V1}:nn.rnn_cell"
_DISTRIBUTE_LIB = f"{_PYTHON}.distribute.distribute_lib"
_INDEXED_SLICES = f"{_PYTHON}.framework.indexed_slices"
_LOOKUP_OPS = f"{_PYTHON}.ops.lookup_ops"
_SMART_COND = f"{_PYTHON}.framework.smart_cond"
_VARIABLES = f"{_PYTHON}.ops.variable_v1"


def _places_in(place: str, *names: str) -> dict[str, str]:
    """Maps each name to the attribute of that name of one module or object.

    A string of `names` may have several names, with spaces between them.
    """
    separator = "." if ":" in place else ":"
    return {name: f"{place}{separator}{name}" for name in " ".join(names).split()}


_BALANCING = _places_in("tf_condacc.cluster", "GreedyLoadBalancingStrategy", "byte_size_load_fn")
_CONSTANTS = _places_in(f"{_V1}:graph_util", "convert_variables_to_constants")
_DENSE = _places_in("tf_condacc", "ConditionalAccumulator", "ConditionalAccumulatorBase")
_DISTRIBUTIONS = _places_in(
    f"{_V1}:distributions",
    "FULLY_REPARAMETERIZED",
    "NOT_REPARAMETERIZED",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Dirichlet",
    "DirichletMultinomial",
    "Distribution",
    "Exponential",
    "Gamma",
    "Laplace",
    "Multinomial",
    "Normal",
    "RegisterKL",
    "ReparameterizationType",
    "StudentT",
    "Uniform",
    "kl_divergence",
)
_DROP_STALE = _places_in("tf_condacc", "DropStaleGradientOptimizer")
_SCIPY = _places_in("tf_condacc.compat.scipy_optimizer", "ScipyOptimizerInterface")
_HPARAMS = _places_in("tf_condacc.compat", "HParams")
_TUTORIAL = "tf_condacc.compat.examples.tutorials.mnist"
_MNIST = _places_in(
    f"{_TUTORIAL}.input_data",
    "DataSet",
    "Datasets",
    "dense_to_one_hot",
    "extract_images",
    "extract_labels",
    "load_mnist",
    "maybe_download",
    "read_data_sets",
)
_LOAD_DATASET = _places_in(f"{_TUTORIAL}.input_data", "load_dataset")
_DATASETS = {"datasets": _LOAD_DATASET, "datasets.base": _MNIST, "datasets.mnist": _MNIST}
_LEARN = "tf_condacc.compat.learn"
_LINEAR = {f"_{name}": f"tf_condacc.compat.rnn:{name}" for name in ("Linear", "linear")}
_SETTER = _places_in("tf_condacc", "replica_device_setter")
_SPARSE = _places_in("tf_condacc", "SparseConditionalAccumulator")
_SYNC = _places_in("tf_condacc", "SyncReplicasOptimizer")
_TOWERS = _places_in("tf_condacc", "TowerOptimizer", "replicate_model_fn")
_STEP = _places_in(
    _TRAIN,
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
)
_FUNCTIONS = "tf_condacc.compat.contrib_functions"
_GRAPH_OF_INPUTS = {"get_graph_from_inputs": f"{_PYTHON}.framework.ops:_get_graph_from_inputs"}
_CHECKPOINTS = _places_in(
    _FUNCTIONS, "init_from_checkpoint", "list_variables", "load_checkpoint", "load_variable"
)

# The places of names by their modules, which are paths below ``tensorflow``. The private modules
# exist in TensorFlow 2.21 as well.
_PUBLIC: dict[str, dict[str, str]] = {
    "": _DENSE | _SPARSE,
    "sparse": _SPARSE,
    "train": _SYNC | _SETTER,
    "estimator": _places_in(
        "tf_condacc.estimator",
        "Estimator",
        "EstimatorSpec",
        "EvalSpec",
        "ModeKeys",
        "RunConfig",
        "TrainSpec",
        "train_and_evaluate",
    )
    | _places_in(
        _TRAIN,
        "CheckpointSaverHook",
        "CheckpointSaverListener",
        "FeedFnHook",
        "FinalOpsHook",
        "GlobalStepWaiterHook",
        "LoggingTensorHook",
        "NanLossDuringTrainingError",
        "NanTensorHook",
        "ProfilerHook",
        "SecondOrStepTimer",
        "SessionRunArgs",
        "SessionRunContext",
        "SessionRunHook",
        "SessionRunValues",
        "StepCounterHook",
        "StopAtStepHook",
        "SummarySaverHook",
        "VocabInfo",
    ),
    "estimator.export": _places_in(
        "tf_condacc.estimator.export",
        "ClassificationOutput",
        "ExportOutput",
        "PredictOutput",
        "RegressionOutput",
        "ServingInputReceiver",
        "build_parsing_serving_input_receiver_fn",
        "build_raw_serving_input_receiver_fn",
    ),
    "estimator.inputs": _places_in("tf_condacc.estimator.inputs", "numpy_input_fn"),
}
_PRIVATE: dict[str, dict[str, str]] = {
    # The first version, which merge_from changes in place, is what programs expect.
    "python.framework.device": _places_in(_V1, "DeviceSpec"),
    "python.framework.graph_util": _CONSTANTS,
    "python.framework.graph_util_impl": _CONSTANTS,
    "python.framework.ops": _places_in(
        _INDEXED_SLICES,
        "IndexedSlices",
        "IndexedSlicesSpec",
        "IndexedSlicesValue",
        "convert_n_to_tensor_or_indexed_slices",
        "convert_to_tensor_or_indexed_slices",
        "internal_convert_n_to_tensor_or_indexed_slices",
        "internal_convert_to_tensor_or_indexed_slices",
    )
    | _places_in(f"{_PYTHON}.framework.tensor", "Tensor")
    | _places_in(f"{_PYTHON}.eager.context", "executing_eagerly")
    | _places_in(
        f"{_PYTHON}.framework.tensor_conversion_registry", "register_tensor_conversion_function"
    )
    | {"convert_to_tensor_v2": "tensorflow:convert_to_tensor"},
    "python.ops.array_ops": _places_in(f"{_PYTHON}.ops.array_ops_stack", "stack", "unstack"),
    "python.ops.control_flow_ops": _places_in(f"{_PYTHON}.ops.control_flow_assert", "Assert")
    | _places_in(f"{_PYTHON}.ops.control_flow_case", "case")
    | _places_in(f"{_PYTHON}.ops.cond", "cond")
    | _places_in(_SMART_COND, "smart_cond")
    | _places_in(f"{_PYTHON}.ops.control_flow_switch_case", "switch_case")
    | _places_in(f"{_PYTHON}.ops.while_loop", "while_loop"),
    "python.ops.data_flow_ops": _DENSE | _SPARSE,
    "python.ops.functional_ops": _places_in(f"{_PYTHON}.ops.map_fn", "map_fn"),
    "python.ops.gen_logging_ops": {
        "_image_summary": f"{_PYTHON}.ops.gen_logging_ops:image_summary",
    },
    "python.ops.gradients_impl": _places_in(f"{_PYTHON}.ops.gradients_util", "AggregationMethod"),
    "python.ops.nn": {"rnn_cell": f"{_PYTHON}.ops.rnn_cell"},
    "python.ops.rnn_cell_impl": _LINEAR | {"_RNNCell": f"{_PYTHON}.ops.rnn_cell_impl:RNNCell"},
    "python.ops.signal.spectral_ops": _places_in(
        f"{_PYTHON}.ops.signal.fft_ops",
        "fft",
        "fft2d",
        "fft3d",
        "ifft",
        "ifft2d",
        "ifft3d",
        "irfft",
        "irfft2d",
        "irfft3d",
        "rfft",
        "rfft2d",
        "rfft3d",
    ),
    "python.ops.variable_scope": {"variable": f"{_VARIABLES}:VariableV1"},
    "python.ops.variables": _places_in(f"{_PYTHON}.ops.ref_variable", "RefVariable")
    | _places_in(_VARIABLES, "VariableV1", "is_variable_initialized"),
    "python.pywrap_tensorflow": _places_in(
        f"{_PYTHON}.training.py_checkpoint_reader", "NewCheckpointReader"
    ),
    "python.trackable": {
        "tracking": f"{_PYTHON}.trackable.autotrackable",
        "util": f"{_PYTHON}.checkpoint.checkpoint",
    },
    "python.training.device_setter": _SETTER,
    "python.training.sync_replicas_optimizer": _SYNC,
    "python.training.training": _SYNC | _SETTER,
    "python.util.nest": {"is_sequence": f"{_PYTHON}.util.nest:is_nested"},
}

# Like the tables above, with the paths of modules below ``tf.contrib``.
CONTRIB: dict[str, dict[str, str]] = {
    "data": _places_in(
        f"{_V1}:data",
        "Dataset",
        "FixedLengthRecordDataset",
        "Iterator",
        "TFRecordDataset",
        "TextLineDataset",
    ),
    "distributions": _DISTRIBUTIONS,
    "estimator": _TOWERS,
    "estimator.python.estimator.replicate_model_fn": _TOWERS,
    "framework": _STEP
    | _CHECKPOINTS
    | _places_in("tensorflow.python.util.deprecation", "deprecated", "deprecated_args")
    | _places_in(_SMART_COND, "smart_cond", "smart_constant_value")
    | _places_in(f"{_V1}:debugging", "assert_same_float_dtype", "assert_scalar")
    | _places_in(f"{_PYTHON}.framework.tensor_spec", "BoundedTensorSpec", "TensorSpec")
    | _places_in(f"{_PYTHON}.framework.ops", "prepend_name_scope", "strip_name_scope")
    | _places_in(_FUNCTIONS, "zero_initializer")
    | _GRAPH_OF_INPUTS
    | {
        "convert_to_tensor_or_sparse_tensor": (
            f"{_PYTHON}.framework.sparse_tensor:convert_to_tensor_or_sparse_tensor"
        ),
        "nest": "tensorflow.python.util.nest",
    },
    "framework.python.framework.checkpoint_utils": _CHECKPOINTS,
    "framework.python.ops": _STEP,
    "framework.python.ops.ops": _GRAPH_OF_INPUTS,
    "framework.python.ops.variables": _STEP,
    "keras": _places_in(
        f"{_V1}:keras",
        "activations applications backend callbacks constraints datasets initializers layers "
        "losses metrics models optimizers preprocessing regularizers utils",
    ),
    "layers": _places_in(f"{_V1}:nn", "safe_embedding_lookup_sparse")
    | _places_in("tf_slim.layers", "recompute_grad"),
    "layers.python.layers": {"sparse_ops": f"{_PYTHON}.ops.sparse_ops"},
    "lookup": _places_in(
        _LOOKUP_OPS,
        "FastHashSpec HasherSpec IdTableWithHashBuckets KeyValueTensorInitializer LookupInterface "
        "StrongHashSpec TextFileIdTableInitializer TextFileIndex TextFileInitializer "
        "TextFileStringTableInitializer index_table_from_file index_to_string_table_from_file",
    )
    | _places_in(
        _FUNCTIONS,
        "HashTable index_table_from_tensor index_to_string index_to_string_table_from_tensor "
        "string_to_index string_to_index_table_from_file string_to_index_table_from_tensor",
    )
    | {
        "MutableDenseHashTable": f"{_V1}:lookup.experimental.DenseHashTable",
        "MutableHashTable": f"{_LOOKUP_OPS}:MutableHashTable",
    },
    "nn": _places_in(f"{_PYTHON}.ops.nn_ops", "conv1d_transpose", "nth_element")
    | _places_in(
        _FUNCTIONS,
        "deprecated_flipped_sigmoid_cross_entropy_with_logits",
        "deprecated_flipped_softmax_cross_entropy_with_logits",
        "deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
    ),
    "opt": _DROP_STALE | _SCIPY,
    "opt.python.training.drop_stale_gradient_optimizer": _DROP_STALE,
    "opt.python.training.external_optimizer": _SCIPY,
    "rnn": _places_in(
        _CELLS, "DeviceWrapper", "DropoutWrapper", "ResidualWrapper", "LSTMStateTuple"
    ),
    "rnn.python.ops.core_rnn_cell": _LINEAR,
    "rnn.python.ops.core_rnn_cell_impl": _LINEAR,
    "staging": {"StagingArea": "tensorflow.python.ops.data_flow_ops:StagingArea"},
    "tensorboard.plugins.projector": _places_in(
        "tensorboard.plugins.projector", "ProjectorConfig", "visualize_embeddings"
    ),
    "tfprof.model_analyzer": _places_in(
        _FUNCTIONS,
        "ALL_ADVICE FLOAT_OPS_OPTIONS PRINT_ALL_TIMING_MEMORY TRAINABLE_VARS_PARAMS_STAT_OPTIONS "
        "advise print_model_analysis",
    )
    | _places_in(f"{_PYTHON}.profiler.model_analyzer", "Profiler"),
    "tfprof.tfprof_logger": _places_in(f"{_PYTHON}.profiler.tfprof_logger", "write_op_log"),
    "tpu": _places_in(
        f"{_V1}:estimator.tpu",  # Of tensorflow-estimator.
        "InputPipelineConfig RunConfig TPUConfig TPUEstimator TPUEstimatorSpec",
    )
    | _places_in(f"{_PYTHON}.tpu.training_loop", "repeat", "while_loop"),
    "tpu.python.tpu": {"tpu_function": f"{_PYTHON}.tpu.tpu_function"},
    "training": _BALANCING | _HPARAMS | _places_in(_TRAIN, "checkpoints_iterator"),
    "training.python.training.device_setter": _BALANCING,
    "training.python.training.hparam": _HPARAMS,
    "util": _places_in(_V1, "make_ndarray", "make_tensor_proto"),
} | {
    f"{root}.{path}": names
    for root in ("learn", "learn.python.learn")
    for path, names in _DATASETS.items()
}
CONTRIB |= {
    path: _places_in(f"{_LEARN}.learn_runner" if path.endswith("runner") else _LEARN, *names)
    for path, names in LEARN_MODULES.items()
}

NAMES = _PUBLIC | _PRIVATE | {f"contrib.{module}": names for module, names in CONTRIB.items()}

# Modules of ``tf.contrib`` whose public names are those of modules of another package, by their
# paths below it. Modules below these are provided where the other package has one of the same name.
CONTRIB_SOURCES: dict[str, tuple[str, ...]] = {
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
    "metrics.python.metrics": ("tf_slim.metrics",),
    "metrics.python.ops": ("tf_slim.metrics",),
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

# Private modules of ``tf.contrib`` whose names are those of public ones.
CONTRIB_SAME = {
    f"{place}.{name}": place.partition(".")[0]
    for place, names in {
        "cluster_resolver.python": "training",
        "cluster_resolver.python.training": "cluster_resolver tpu_cluster_resolver",
        "data.python.ops": "batching enumerate_ops error_ops grouping interleave_ops iterator_ops "
        "parsing_ops prefetching_ops random_ops readers resampling scan_ops shuffle_ops unique "
        "writers",
        "keras.api": "keras",
        "lookup": "lookup_ops",
        "nn.python.ops": "cross_entropy",
        "tpu.python.tpu": "bfloat16 tpu tpu_config tpu_estimator tpu_optimizer training_loop",
    }.items()
    for name in names.split()
}

# Modules of ``tf.contrib`` whose other names are in TensorFlow's own table of renamed names. For
# "estimator", tensorflow-estimator has them.
CONTRIB_RENAMED = frozenset(
    (
        "batching",
        "cluster_resolver",
        "data",
        "distribute",
        "estimator",
        "framework",
        "layers",
        "rnn",
        "tpu",
        "training",
        "util",
    )
)

# Modules below ``tensorflow.python.estimator`` that have the names of `tf_condacc.estimator`.
ESTIMATOR_MODULES = frozenset(
    (
        "",
        "estimator",
        "estimator_lib",
        "export",
        "export.export",
        "export.export_lib",
        "export.export_output",
        "inputs",
        "inputs.numpy_io",
        "model_fn",
        "run_config",
        "training",
    )
)

# Modules whose paths have changed.
MOVED_MODULES = {
    "tensorflow.examples": "tf_condacc.compat.examples",
    "tensorflow.examples.tutorials": "tf_condacc.compat.examples.tutorials",
    "tensorflow.examples.tutorials.mnist": _TUTORIAL,
    "tensorflow.examples.tutorials.mnist.input_data": f"{_TUTORIAL}.input_data",
    "tensorflow.examples.tutorials.mnist.mnist": f"{_TUTORIAL}.mnist",
    f"{_PYTHON}.distribute.distribution_strategy_context": _DISTRIBUTE_LIB,
    f"{_PYTHON}.ops.spectral_ops": f"{_PYTHON}.ops.signal.spectral_ops",
    f"{_PYTHON}.ops.summary_ops": f"{_PYTHON}.summary.summary",
    f"{_PYTHON}.summary.event_accumulator": (
        "tensorboard.backend.event_processing.event_accumulator"
    ),
    f"{_PYTHON}.training.checkpointable": f"{_PYTHON}.trackable",
    f"{_PYTHON}.training.checkpointable.base": f"{_PYTHON}.trackable.base",
    f"{_PYTHON}.training.checkpointable.data_structures": f"{_PYTHON}.trackable.data_structures",
    f"{_PYTHON}.training.checkpointable.util": f"{_PYTHON}.checkpoint.checkpoint",
    f"{_PYTHON}.training.distribute": _DISTRIBUTE_LIB,
    f"{_PYTHON}.training.distribution_strategy_context": _DISTRIBUTE_LIB,
    f"{_PYTHON}.training.gen_training_ops": f"{_PYTHON}.ops.gen_training_ops",
    f"{_PYTHON}.training.tracking": f"{_PYTHON}.trackable",
    f"{_PYTHON}.training.tracking.base": f"{_PYTHON}.trackable.base",
    f"{_PYTHON}.training.tracking.data_structures": f"{_PYTHON}.trackable.data_structures",
    f"{_PYTHON}.training.tracking.tracking": f"{_PYTHON}.trackable.autotrackable",
    f"{_PYTHON}.training.tracking.util": f"{_PYTHON}.checkpoint.checkpoint",
    f"{_PYTHON}.training.training_ops": f"{_PYTHON}.ops.gen_training_ops",
    # TensorFlow itself looks for the layers of slim.batch_norm at a path that tf-keras has left.
    "tf_keras.legacy_tf_layers": "tf_keras.src.legacy_tf_layers",
    "tf_keras.legacy_tf_layers.normalization": "tf_keras.src.legacy_tf_layers.normalization",
}


# Names of NumPy 1 that NumPy 2 lacks and that `condacc run` gives back, by those of NumPy or Python
# that mean the same.
NUMPY_RENAMED = dict(
    each.split("=")
    for each in (
        "Inf=inf Infinity=inf NAN=nan NaN=nan PINF=inf alltrue=all bool8=bool_ bytes0=bytes_ "
        "cfloat=complex128 clongfloat=clongdouble complex=builtins.complex complex_=complex128 "
        "cumproduct=cumprod float=builtins.float float_=float64 infty=inf int=builtins.int "
        "int0=intp longcomplex=clongdouble longfloat=longdouble mat=asmatrix "
        "object=builtins.object object0=object_ product=prod rank=ndim round_=round "
        "singlecomplex=complex64 sometrue=any str=builtins.str str0=str_ string_=bytes_ "
        "trapz=trapezoid typeDict=sctypeDict uint0=uintp unicode=builtins.str unicode_=str_ "
        "void0=void"
    ).split()
)
_NOT_RENAMED = "NINF NZERO PZERO alen asfarray asscalar cast in1d math msort obj2sctype sctypes"
NUMPY_REMOVED = (*NUMPY_RENAMED, *_NOT_RENAMED.split())


def places() -> Iterator[tuple[str, str]]:
    """Yields the full name of each original, without ``tensorflow``, and its place."""
    for module, names in NAMES.items():
        for name, place in names.items():
            yield f"{module}.{name}".lstrip("."), place


def resolve(place: str) -> Any:
    """Imports the module or the object at a place.

    Raises:
        ImportError: The module cannot be imported.
        AttributeError: The module lacks the attribute.
    """
    path, _, attributes = place.partition(":")
    found = importlib.import_module(path)
    for name in filter(None, attributes.split(".")):
        found = getattr(found, name)
    return found
