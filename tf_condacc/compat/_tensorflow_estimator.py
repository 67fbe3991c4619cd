"""The import of the package tensorflow-estimator, and its adapters.

The adapters let its Estimators accept specs of `tf_condacc.estimator`, clusters without a job
"chief", and layers of Keras 3, and let its canned models say that they need Keras 2.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeVar

from tensorflow.compat import v1

from condacc import tf_config
from condacc.advice import USE_KERAS2
from condacc.versions import has_module, release
from tf_condacc.estimator import EstimatorSpec, export
from tf_condacc.estimator._keras_names import fresh_keras_names

PACKAGE = "tensorflow_estimator"
API = "tensorflow_estimator._api.v1.estimator"
_READER = "_init_distributed_setting_from_environment_var"
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


def import_package() -> None:
    """Imports the package and adapts it.

    Raises:
        ImportError: The package cannot be imported.
    """
    with _stubs():
        api = importlib.import_module(API)
    _accept_our_specs(api)
    _accept_first_workers(api)
    _check_keras(api)


@contextlib.contextmanager
def _stubs() -> Iterator[None]:
    """Returns a context in which modules that TensorFlow does not have can be imported.

    The stub that replaces a module of the package remains afterwards, because the package has
    further modules that may import it.
    """
    stubs = [stub for stub in _stub_modules() if _is_wanted(stub.__name__)]
    sys.modules.update({stub.__name__: stub for stub in stubs})
    try:
        yield
    finally:
        for stub in stubs:
            if not stub.__name__.startswith(PACKAGE):
                del sys.modules[stub.__name__]


def _is_wanted(name: str) -> bool:
    """Returns whether a stub replaces a module. TensorFlow 2.15 has them all itself."""
    return name not in sys.modules and (name.startswith(PACKAGE) or not has_module(name))


class FixedModule(ModuleType):
    """A module with given contents.

    Args:
        name: Name of the module.
        contents: Objects by their names.
        remedy: What the error of any other name says after the name.
    """

    def __init__(self, name: str, contents: Mapping[str, Any], remedy: str) -> None:
        super().__init__(name, "Stands for the module of this name.")
        vars(self).update(contents)
        self.__all__ = sorted(contents)
        self._remedy = remedy

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise AttributeError(f"{self.__name__}.{name} {self._remedy}")


class _Exports:
    """Replaces the decorator ``estimator_export``, and leaves objects as they are.

    The original would wrap the constructors of TensorFlow's own hooks and export outputs, so that
    they log a deprecation, and would register names in TensorFlow.
    """

    def __init__(self, *names: str, v1: Any = None) -> None:
        del names, v1

    def __call__(self, exported: _T) -> _T:
        return exported

    def export_constant(self, module_name: str, name: str) -> None:
        """Does nothing."""


def _init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Sets up a RunConfig with a strategy of ``tf.distribute``, in one process.

    Raises:
        ValueError: ``TF_CONFIG`` describes a cluster.
    """
    if tf_config.get("cluster"):
        raise ValueError(
            "RunConfig: train_distribute, eval_distribute and experimental_distribute are not "
            f"supported on a cluster by tensorflow_estimator with TensorFlow {release()}; got "
            f"TF_CONFIG with the cluster {tf_config['cluster']!r}."
        )
    config._distribute_coordinator_mode = None
    config._init_distributed_setting_from_environment_var(tf_config)
    config._maybe_overwrite_session_config_for_distributed_training()


def _stub(name: str, **contents: Any) -> ModuleType:
    remedy = (
        f"is not in TensorFlow {release()}: tensorflow_estimator cannot use TPUs, nor strategies "
        "of tf.distribute on a cluster, with this version."
    )
    return FixedModule(name, contents, remedy)


def _stub_modules() -> list[ModuleType]:
    """Returns new stubs of the modules that tensorflow_estimator 2.15 imports."""
    coordinator: dict[str, Callable[..., Any]] = {
        "should_run_distribute_coordinator": lambda config: False,
        "init_run_config": _init_run_config,
    }
    optimizers = {name: type(name, (), {}) for name in _TPU_OPTIMIZERS}
    return [
        _stub("tensorflow.python.distribute.estimator_training", **coordinator),
        _stub("tensorflow.python.tpu.session_support"),
        _stub("tensorflow.python.tpu.tpu_embedding", **optimizers),
        _stub("tensorflow.python.tpu.tpu_embedding_gradient"),
        _stub("tensorflow_estimator.python.estimator.estimator_export", estimator_export=_Exports),
    ]


def _accept_our_specs(estimator: ModuleType) -> None:
    """Lets the Estimators of tensorflow_estimator accept our EstimatorSpec from a `model_fn`."""
    init = estimator.Estimator.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._model_fn = _converting(estimator, self._model_fn)

    estimator.Estimator.__init__ = __init__


def _converting(estimator: ModuleType, model_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a `model_fn` with the same arguments, whose spec is one of tensorflow_estimator.

    It names the layers of Keras 3 alike in each graph.
    """

    @functools.wraps(model_fn)
    def converting(*args: Any, **kwargs: Any) -> Any:
        with fresh_keras_names():
            spec = model_fn(*args, **kwargs)
        return _converted(estimator, spec) if isinstance(spec, EstimatorSpec) else spec

    converting.__signature__ = inspect.signature(model_fn)  # type: ignore[attr-defined]
    return converting


def _converted(estimator: ModuleType, spec: EstimatorSpec) -> Any:
    fields = spec._asdict()
    if spec.export_outputs is not None:
        fields["export_outputs"] = {
            name: _converted_output(estimator.export, output)
            for name, output in spec.export_outputs.items()
        }
    return estimator.EstimatorSpec(**fields)


def _converted_output(theirs: ModuleType, output: Any) -> Any:
    if isinstance(output, export.PredictOutput):
        return theirs.PredictOutput(output.outputs)
    if isinstance(output, export.RegressionOutput):
        return theirs.RegressionOutput(output.value)
    if isinstance(output, export.ClassificationOutput):
        return theirs.ClassificationOutput(output.scores, output.classes)
    return output


def _accept_first_workers(estimator: ModuleType) -> None:
    """Lets RunConfig of tensorflow_estimator accept a cluster whose chief is worker 0.

    ``condacc launch`` starts such clusters. ``TF_CONFIG`` stays as it is.
    """
    read = getattr(estimator.RunConfig, _READER)

    @functools.wraps(read)
    def reading(self: Any, config: Mapping[str, Any]) -> None:
        read(self, _with_chief(config))

    setattr(estimator.RunConfig, _READER, reading)


def _with_chief(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a value of ``TF_CONFIG`` in which the chief has its own job.

    Worker 0 becomes the only task of the job "chief", and worker n becomes worker n-1. The value is
    returned as it is if there is no cluster, or if the cluster has a chief or a master.

    Args:
        config: What ``TF_CONFIG`` contains.

    Raises:
        ValueError: It does not describe a cluster and a task of it.
    """
    if any(job in (config.get("cluster") or ()) for job in tf_config.CHIEF_JOBS):
        return config
    part = tf_config.read(config)
    if not part.cluster:
        return config
    cluster = dict(part.cluster)
    first, *others = cluster.pop("worker")
    cluster["chief"] = [first]
    if others:
        cluster["worker"] = others
    job, number = part.task_type, part.task_id
    if job == "worker":
        job, number = ("worker", number - 1) if number else ("chief", 0)
    return {**config, "cluster": cluster, "task": {"type": job, "index": number}}


def _check_keras(estimator: ModuleType) -> None:
    """Makes the models that need Keras 2 say so when they are made, not when they are trained."""
    for name in dir(estimator):
        if name.startswith(("DNN", "Linear")):
            model = getattr(estimator, name)
            model.__init__ = _checking(name, model.__init__)


def _checking(name: str, init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if not hasattr(v1.keras.layers, "DenseFeatures"):
            raise RuntimeError(
                f"tf.estimator.{name} needs Keras 2, and tf.keras is Keras 3: {USE_KERAS2}."
            )
        init(self, *args, **kwargs)

    return __init__
