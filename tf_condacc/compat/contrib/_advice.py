"""What to use instead of the parts of ``tf.contrib`` that are not provided."""

from __future__ import annotations

GENERAL = (
    "Of tf.contrib, tf_condacc.compat provides DropStaleGradientOptimizer, TowerOptimizer, "
    "replicate_model_fn, what tf-slim contains, and names that TensorFlow has elsewhere today."
)
_PROBABILITY = "TensorFlow Probability has it: https://www.tensorflow.org/probability"
_COPY = (
    "copy the code that you need; TensorFlow Addons, which took it over, is no longer maintained"
)
_ESTIMATOR = "use tf.estimator"
_SUMMARY = "use tf.summary of TensorFlow 2, which has other arguments"
_HPARAMS = "use a class or a dictionary of your own"

# By the path below tf.contrib. The longest path that matches counts.
_ADVICE = {
    "all_reduce": "use tf.distribute, or tf.raw_ops.CollectiveReduceV2",
    "autograph": "use tf.autograph",
    "bayesflow": _PROBABILITY,
    "cloud": "use tf.io.gfile, or the package tensorflow-io",
    "crf": _COPY,
    "cudnn_rnn": "use tf.keras.layers.LSTM or GRU, which use cuDNN where they can",
    "data": "use tf.data, and tf.data.experimental",
    "distribute": "use tf.distribute, whose strategies have other arguments",
    "distributions": _PROBABILITY,
    "eager": "use TensorFlow's own eager execution, and tf.GradientTape",
    "estimator": f"{_ESTIMATOR}, or the heads of the package tensorflow-estimator",
    "ffmpeg": "use the package tensorflow-io",
    "framework": "use tf.compat.v1, or tf_slim.ops",
    "graph_editor": "there is no successor; build the graph anew, or copy the code that you need",
    "image": f"use tf.image; of what it lacks, {_COPY}",
    "keras": "use tf.keras",
    "kfac": "use the package kfac",
    "layers.embed_sequence": "use tf.compat.v1.get_variable and tf.nn.embedding_lookup",
    "layers.embedding_column": "use tf.feature_column.embedding_column",
    "learn": _ESTIMATOR,
    "linear_optimizer": "there is no successor; tf.estimator.LinearClassifier has FTRL",
    "lite": "use tf.lite",
    "lookup": "use tf.lookup",
    "memory_stats": "use tf.config.experimental.get_memory_info",
    "mixed_precision": "use tf.compat.v1.train.enable_mixed_precision_graph_rewrite",
    "nccl": "use tf.distribute.NcclAllReduce, or tf.raw_ops.NcclAllReduce",
    "opt": _COPY,
    "predictor": "use tf.compat.v1.saved_model.load and a session",
    "quantize": "use the package tensorflow-model-optimization",
    "rnn": f"use tf.compat.v1.nn.rnn_cell and tf.keras.layers; {_COPY}",
    "saved_model": "use tf.saved_model",
    "seq2seq": _COPY,
    "signal": "use tf.signal",
    "summary": _SUMMARY,
    "tensorrt": "use tf.experimental.tensorrt",
    "tpu": "use tf.compat.v1.tpu, and tf.distribute.TPUStrategy",
    "training.HParams": _HPARAMS,
    "training.bucket_by_sequence_length": "use tf.data.experimental.bucket_by_sequence_length",
    "training": "use tf.compat.v1.train, and tf.data in place of queues",
    "util": "use tf.compat.v1",
}


def advice(path: str) -> str:
    """Returns a sentence on what to use instead of a name of ``tf.contrib``.

    Args:
        path: Path of the name below ``tf.contrib``: "opt.AdamWOptimizer".
    """
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        text = _ADVICE.get(".".join(parts[:end]))
        if text is not None:
            return f"Instead: {text}."
    return "There is no other place for it in TensorFlow 2.21."
