"""A module that stands for ``tf.estimator`` where tensorflow_estimator is not installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from tensorflow.compat import v1

from tf_condacc import estimator
from tf_condacc.compat._errors import INSTALL_ESTIMATOR

# Names of `tf_condacc.estimator` that ``tf.contrib.estimator`` had.
_OF_CONTRIB = ("TowerOptimizer", "replicate_model_fn")
# Names that ``tf.estimator`` has from ``tf.train``.
_OF_TRAIN = (
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
)


class _OwnEstimator(ModuleType):
    """A module whose missing names raise an error that says what provides them.

    Args:
        name: Name of the module.
        contents: Objects by their names.
    """

    def __init__(self, name: str, contents: Mapping[str, Any]) -> None:
        super().__init__(name, "Stands for the module of this name.")
        vars(self).update(contents)
        self.__all__ = sorted(contents)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise AttributeError(
            f"{self.__name__}.{name} needs the package tensorflow-estimator, which is missing: "
            f"{INSTALL_ESTIMATOR}. tf_condacc itself has {', '.join(self.__all__)}."
        )


def _from(source: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _public(module: ModuleType) -> dict[str, Any]:
    """Returns the classes and functions that a module defines itself."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


MODULE = _OwnEstimator(
    "tf.estimator",
    {
        **_from(v1.train, _OF_TRAIN),
        **_from(estimator, set(estimator.__all__) - set(_OF_CONTRIB)),
        "export": _OwnEstimator("tf.estimator.export", _public(estimator.export)),
        "inputs": _OwnEstimator("tf.estimator.inputs", _public(estimator.inputs)),
    },
)
