"""TF1's conditional accumulators, native on today's TensorFlow."""

from tf_condacc._build_info import build_info
from tf_condacc._version import __version__
from tf_condacc.accumulators import ConditionalAccumulator, ConditionalAccumulatorBase
from tf_condacc.placement import replica_device_setter

__all__ = [
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "__version__",
    "build_info",
    "replica_device_setter",
]
