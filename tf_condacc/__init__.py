"""Conditional accumulators and optimizers for delayed gradients, as native TensorFlow ops."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from condacc._version import __version__
from tf_condacc import sparse
from tf_condacc._accumulators.base import ConditionalAccumulatorBase, TryTakeResult
from tf_condacc._accumulators.contributions import ApplyOutcome
from tf_condacc._accumulators.dense import ConditionalAccumulator
from tf_condacc._accumulators.placement import PS_OPS, replica_device_setter
from tf_condacc._accumulators.saving import saveables
from tf_condacc._accumulators.sparse import SparseConditionalAccumulator, SparseGradient
from tf_condacc._build_info import build_info
from tf_condacc._micro_batches.accumulator import GradientAccumulator
from tf_condacc._optimizers.drop_stale.optimizer import DropStaleGradientOptimizer
from tf_condacc._optimizers.sync_replicas.optimizer import SyncReplicasOptimizer
from tf_condacc._towers.replication import replicate_model_fn
from tf_condacc._towers.tower_optimizer import TowerOptimizer

__all__ = [
    "PS_OPS",
    "ApplyOutcome",
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "DropStaleGradientOptimizer",
    "GradientAccumulator",
    "SparseConditionalAccumulator",
    "SparseGradient",
    "SyncReplicasOptimizer",
    "TowerOptimizer",
    "TryTakeResult",
    "__version__",
    "build_info",
    "cluster",
    "compat",
    "estimator",
    "keras",
    "parity",
    "replica_device_setter",
    "replicate_model_fn",
    "saveables",
    "sparse",
]

_IMPORTED_WHEN_USED = ("cluster", "compat", "estimator", "keras", "parity")

if TYPE_CHECKING:
    from tf_condacc import cluster, compat, estimator, keras, parity


def __getattr__(name: str) -> ModuleType:
    if name in _IMPORTED_WHEN_USED:
        return importlib.import_module(f"tf_condacc.{name}")
    raise AttributeError(f"module 'tf_condacc' has no attribute '{name}'", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
