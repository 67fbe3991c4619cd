"""Modules that tensorflow_estimator 2.15 imports and TensorFlow 2.21 does not have.

They exist while tensorflow_estimator is imported, and its modules keep them. Most of what they had
is for TPUs, and its names raise an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

_T = TypeVar("_T")
_TPU_OPTIMIZERS = (
    "AdagradParameters",
    "AdamParameters",
    "FtrlParameters",
    "MomentumParameters",
    "ProximalAdagradParameters",
    "RMSPropParameters",
    "StochasticGradientDescentParameters",
)


class _Stub(ModuleType):
    """A module whose other names raise an error that says that they are gone."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise AttributeError(
            f"{self.__name__}.{name} is not in TensorFlow 2.21: tensorflow_estimator cannot use "
            "TPUs, nor strategies of tf.distribute on a cluster, with this version."
        )


class _Exports:
    """Takes the place of the decorator ``estimator_export``, and leaves objects as they are.

    The original would wrap the constructors of TensorFlow's own hooks and export outputs, so that
    they log a deprecation, and would register names in TensorFlow.
    """

    def __init__(self, *names: str, v1: Any = None) -> None:
        del names, v1

    def __call__(self, exported: _T) -> _T:
        return exported

    def export_constant(self, module_name: str, name: str) -> None:
        """Does nothing."""


def _should_run_distribute_coordinator(config: Any) -> bool:
    del config
    return False


def _init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Sets up a RunConfig with a strategy of ``tf.distribute``, in one process.

    Raises:
        ValueError: ``TF_CONFIG`` describes a cluster.
    """
    if tf_config.get("cluster"):
        raise ValueError(
            "RunConfig: train_distribute, eval_distribute and experimental_distribute are not "
            "supported on a cluster by tensorflow_estimator with TensorFlow 2.21; got TF_CONFIG "
            f"with the cluster {tf_config['cluster']!r}."
        )
    config._distribute_coordinator_mode = None
    config._init_distributed_setting_from_environment_var(tf_config)
    config._maybe_overwrite_session_config_for_distributed_training()


def _stub(name: str, **contents: Any) -> ModuleType:
    module = _Stub(name, "Takes the place of a module that TensorFlow 2.21 does not have.")
    vars(module).update(contents)
    return module


def modules() -> list[ModuleType]:
    """Returns new modules, with the full names that tensorflow_estimator imports."""
    coordinator: dict[str, Callable[..., Any]] = {
        "should_run_distribute_coordinator": _should_run_distribute_coordinator,
        "init_run_config": _init_run_config,
    }
    return [
        _stub("tensorflow.python.distribute.estimator_training", **coordinator),
        _stub("tensorflow.python.tpu.session_support"),
        _stub("tensorflow.python.tpu.tpu_embedding", **_optimizers()),
        _stub("tensorflow.python.tpu.tpu_embedding_gradient"),
        _stub("tensorflow_estimator.python.estimator.estimator_export", estimator_export=_Exports),
    ]


def _optimizers() -> dict[str, type]:
    return {name: type(name, (), {}) for name in _TPU_OPTIMIZERS}
