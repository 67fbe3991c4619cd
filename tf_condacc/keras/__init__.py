"""Micro-batches in ``fit`` of Keras 3 models.

`import tf_condacc` does not import this package, which imports Keras.
"""

from tf_condacc.keras._accumulation import Accumulation, accumulate_gradients
from tf_condacc.keras._checkpoint import TrainingCheckpoint

__all__ = ["Accumulation", "TrainingCheckpoint", "accumulate_gradients"]
