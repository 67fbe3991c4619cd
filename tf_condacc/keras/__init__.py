"""Micro-batches in ``fit`` of Keras 3 models.

`import tf_condacc` does not import this package, which imports Keras.

Raises:
    ImportError: The package keras is Keras 2, as with TensorFlow 2.15.
"""

from condacc import versions

if versions.brings_keras2():
    raise ImportError(
        "tf_condacc.keras needs Keras 3, which TensorFlow has since 2.16, but the package keras is "
        "Keras 2. In a training loop of your own, tf_condacc.GradientAccumulator accumulates for "
        "the optimizers of Keras 2 as well."
    )

from tf_condacc.keras._accumulation import Accumulation, accumulate_gradients  # noqa: E402

__all__ = ["Accumulation", "accumulate_gradients"]
