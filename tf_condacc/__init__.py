"""Conditional accumulators and optimizers for delayed gradients, as native TensorFlow ops."""

# ruff: noqa: E402 (TensorFlow, which takes seconds to import, comes after the handler of Ctrl-C.)

import importlib
from types import ModuleType

from tf_condacc import _programs

_programs.exit_quietly_while_starting()
_programs.run_without_tensorflow()
_programs.prepare_legacy_program()
with _programs.without_log():
    importlib.import_module("tensorflow")

from tf_condacc import cluster, estimator, sparse
from tf_condacc._build_info import build_info
from tf_condacc._version import __version__
from tf_condacc.accumulators.contributions import ApplyOutcome
from tf_condacc.accumulators.gradient_accumulator import GradientAccumulator
from tf_condacc.base import ConditionalAccumulatorBase
from tf_condacc.dense import ConditionalAccumulator
from tf_condacc.drop_stale import DropStaleGradientOptimizer
from tf_condacc.estimator import TowerOptimizer, replicate_model_fn
from tf_condacc.placement import replica_device_setter
from tf_condacc.sparse import SparseConditionalAccumulator
from tf_condacc.sync_replicas import SyncReplicasOptimizer

__all__ = [
    "ApplyOutcome",
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "DropStaleGradientOptimizer",
    "GradientAccumulator",
    "SparseConditionalAccumulator",
    "SyncReplicasOptimizer",
    "TowerOptimizer",
    "__version__",
    "build_info",
    "cluster",
    "compat",
    "estimator",
    "replica_device_setter",
    "replicate_model_fn",
    "sparse",
    "testing",
]

_IMPORTED_WHEN_USED = ("compat", "testing")


def __getattr__(name: str) -> ModuleType:
    if name in _IMPORTED_WHEN_USED:
        return importlib.import_module(f"tf_condacc.{name}")
    raise AttributeError(f"module 'tf_condacc' has no attribute '{name}'", name=name)
