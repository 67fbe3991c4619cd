"""What the runner says that it provides."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

import tensorflow as tf

from condacc.run._command_line import uses_keras2
from tf_condacc.compat._runner.hints import KERAS2


def provided() -> Iterator[str]:
    """Yields a line for each thing that is provided."""
    yield f"tensorflow is tf.compat.v1 of TensorFlow {tf.__version__}, with v2 behavior off"
    yield "accumulators, SyncReplicasOptimizer, DropStaleGradientOptimizer, TowerOptimizer and " + (
        "replicate_model_fn are tf_condacc's"
    )
    slim = _version("tf-slim")
    yield (
        f"tf.contrib.slim, layers and the like are tf-slim {slim}"
        if slim
        else "tf.contrib.slim, layers and the like are missing: pip install tf-slim"
    )
    package = tf.compat.v1.estimator.Estimator.__module__.partition(".")[0]
    name = package.replace("tensorflow_estimator", "tensorflow-estimator")
    yield f"tf.estimator is that of {name} {_version(name) or ''}".rstrip()
    if uses_keras2():
        yield f"tf.layers and tf.keras are tf-keras {_version('tf-keras')}"
    else:
        yield f"tf.keras is Keras {_version('keras')}, which has no tf.layers; {KERAS2}"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
