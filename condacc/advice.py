"""What to do about names of TensorFlow 1 that are not provided."""

from __future__ import annotations

from condacc.originals import CONTRIB

_PROBABILITY = "TensorFlow Probability has it: https://www.tensorflow.org/probability"
_COPY = (
    "copy the code that you need; TensorFlow Addons, which took it over, is no longer maintained"
)
_COPY_FILES = (
    'copy its files from TensorFlow 1.15 into the program, as the section "seq2seq, '
    'legacy_seq2seq and crf" of docs/guides/compat.md shows'
)
_ESTIMATOR = "use tf.estimator"
_FORESTS = "use the package tensorflow-decision-forests"
_COLUMN = "use tf.feature_column."
_CATEGORICAL = f"{_COLUMN}categorical_column_with_"
_BATCHES = "use tf.data, such as tf.data.experimental.make_batched_features_dataset"
_BATCH_NAMES = (
    "read_batch_examples",
    "read_batch_features",
    "read_batch_record_features",
    "read_keyed_batch_examples",
    "read_keyed_batch_features",
)
_CANNED = "use tf.estimator.{} with columns of tf.feature_column, and pass input_fn to train"
_CANNED_NAMES = (
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
)
_MONITORS = (
    "use hooks, such as tf.train.LoggingTensorHook; in place of a ValidationMonitor, "
    "tf.contrib.learn.Experiment, which is provided"
)
_SUMMARY = "use tf.summary of TensorFlow 2, which has other arguments"

# The advice for names that are not provided, by their paths below tf.contrib. The longest path that
# matches is used.
_ADVICE = {
    "all_reduce": "use tf.distribute, or tf.raw_ops.CollectiveReduceV2",
    "autograph": "use tf.autograph",
    "bayesflow": _PROBABILITY,
    "boosted_trees": _FORESTS,
    "checkpoint": "use tf.train.Checkpoint and tf.train.CheckpointManager",
    "cloud": "use tf.io.gfile, or the package tensorflow-io",
    "crf": _COPY_FILES,
    "cudnn_rnn": "use tf.keras.layers.LSTM or GRU, which use cuDNN where they can",
    "data.batch_and_drop_remainder": "use dataset.batch(n, drop_remainder=True)",
    "data.padded_batch_and_drop_remainder": (
        "use dataset.padded_batch(n, shapes, drop_remainder=True)"
    ),
    "data.sliding_window_batch": "use dataset.window",
    "data": "use tf.data, and tf.data.experimental",
    "distribute": "use tf.distribute, whose strategies have other arguments",
    "distributions": _PROBABILITY,
    "eager": "use TensorFlow's own eager execution, and tf.GradientTape",
    "estimator": _ESTIMATOR,
    "feature_column": "use tf.feature_column, which has the sequence columns as well",
    "ffmpeg": "use the package tensorflow-io",
    "framework": "use tf.compat.v1, or tf_slim.ops",
    "gan": "use the package tensorflow-gan",
    "graph_editor": "there is no successor; rebuild the graph, or copy the code that you need",
    "image": f"use tf.image; for what it lacks, {_COPY}",
    "integrate": _PROBABILITY,
    "keras": "use tf.keras",
    "kfac": "use the package kfac",
    "layers.embed_sequence": "use tf.compat.v1.get_variable and tf.nn.embedding_lookup",
    "layers.bucketized_column": f"{_COLUMN}bucketized_column",
    "layers.crossed_column": f"{_COLUMN}crossed_column",
    "layers.embedding_column": f"{_COLUMN}embedding_column",
    "layers.input_from_feature_columns": "use tf.compat.v1.feature_column.input_layer",
    "layers.one_hot_column": f"{_COLUMN}indicator_column",
    "layers.real_valued_column": f"{_COLUMN}numeric_column",
    "layers.shared_embedding_columns": "use tf.compat.v1.feature_column.shared_embedding_columns",
    "layers.sparse_column_with_hash_bucket": f"{_CATEGORICAL}hash_bucket",
    "layers.sparse_column_with_integerized_feature": f"{_CATEGORICAL}identity",
    "layers.sparse_column_with_keys": f"{_CATEGORICAL}vocabulary_list",
    "layers.sparse_column_with_vocabulary_file": f"{_CATEGORICAL}vocabulary_file",
    "layers.weighted_sparse_column": f"{_COLUMN}weighted_categorical_column",
    "legacy_seq2seq": _COPY_FILES,
    "learn.KMeansClustering": "use tf.estimator.experimental.KMeans",
    "learn.SKCompat": (
        "use tf.contrib.learn.Estimator, which is provided, with "
        "input_fn=tf.estimator.inputs.numpy_input_fn(x, y, shuffle=True)"
    ),
    "learn.head": "return a tf.estimator.EstimatorSpec from a model_fn",
    "learn.infer_real_valued_columns_from_input": f"{_COLUMN}numeric_column",
    "learn.infer_real_valued_columns_from_input_fn": f"{_COLUMN}numeric_column",
    "learn.io.pandas_input_fn": "use tf.estimator.inputs.pandas_input_fn",
    "learn.models": "write the model with tf.compat.v1.layers",
    "learn.monitors": _MONITORS,
    "learn.preprocessing": "use tf.compat.v2.keras.layers.TextVectorization, or tf.lookup",
    "learn": _ESTIMATOR,
    "linear_optimizer": "there is no successor; tf.estimator.LinearClassifier has FTRL",
    "lite": "use tf.lite",
    "lookup": "use tf.lookup",
    "memory_stats": "use tf.config.experimental.get_memory_info",
    "mixed_precision": "use tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite",
    "nccl": "use tf.distribute.NcclAllReduce, or tf.raw_ops.NcclAllReduce",
    "nn": "use tf.nn, and for alpha_dropout tf.keras.layers.AlphaDropout",
    "opt": _COPY,
    "predictor": "use tf.compat.v1.saved_model.load and a session",
    "quantize": "use the package tensorflow-model-optimization",
    "rnn": f"use tf.compat.v1.nn.rnn_cell and tf.keras.layers; {_COPY}",
    "saved_model": "use tf.saved_model",
    "seq2seq": _COPY_FILES,
    "signal": "use tf.signal",
    "stateless": "use tf.random.stateless_normal and the like",
    "summary": _SUMMARY,
    "tensor_forest": _FORESTS,
    "tensorrt": "use tf.compat.v2.experimental.tensorrt",
    "tpu": "use tf.compat.v1.tpu, and tf.distribute.experimental.TPUStrategy",
    "training.RandomStrategy": (
        "use tf_condacc.cluster.GreedyLoadBalancingStrategy, or pass a function of your own from "
        "an operation to the number of a parameter server as ps_strategy"
    ),
    "training.bucket_by_sequence_length": "use tf.data.experimental.bucket_by_sequence_length",
    "training": "use tf.compat.v1.train, and tf.data in place of queues",
    "util": "use tf.compat.v1",
}
_ADVICE |= {f"learn.{name}": _CANNED.format(name) for name in _CANNED_NAMES}
_ADVICE |= {
    f"{module}.{name}": _BATCHES for module in ("learn", "learn.io") for name in _BATCH_NAMES
}

# Modules of this package whose names are not listed one by one.
_UNLISTED = (
    "tf_condacc.compat.contrib_functions:",
    "tf_condacc.compat.examples.",
    "tf_condacc.compat.learn",
    "tf_condacc.compat.rnn:",
)
_OURS = {
    name
    for names in CONTRIB.values()
    for name, place in names.items()
    if place.startswith("tf_condacc") and not place.startswith(_UNLISTED)
}
# The remedy for names that Keras 3 does not have.
USE_KERAS2 = (
    "install tf-keras, and run the program with condacc run --keras2 or set TF_USE_LEGACY_KERAS=1 "
    "before TensorFlow is imported"
)
GENERAL = (
    f"Of tf.contrib, tf_condacc.compat provides {', '.join(sorted(_OURS))}, learn.datasets.mnist, "
    "learn.Experiment and learn.Estimator, what tf-slim contains, and names that TensorFlow has "
    "elsewhere today."
)


def advice(path: str) -> str:
    """Returns a sentence on what to use instead of a name of ``tf.contrib``.

    Args:
        path: Path of the name below ``tf.contrib``: "opt.AdamWOptimizer".
    """
    # Names of the private modules of learn are public names as well.
    parts = path.replace("learn.python.learn", "learn", 1).split(".")
    for end in range(len(parts), 0, -1):
        text = _ADVICE.get(".".join(parts[:end]))
        if text is not None:
            return f"Instead: {text}."
    return "tf_condacc.compat knows no replacement for it."
