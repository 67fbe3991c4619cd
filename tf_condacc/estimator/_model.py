"""A `model_fn` with its parameters and configuration, which builds the graphs of an Estimator."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import ModeKeys, SpecLike
from tf_condacc._typing import Nested
from tf_condacc.cluster import Task
from tf_condacc.estimator import _input_pipelines, _warm_start
from tf_condacc.estimator._run_config import RunConfig, model_dir_of
from tf_condacc.estimator._warm_start import WarmStartSettings
from tf_condacc.estimator.export import ServingInputReceiver

Path: TypeAlias = str | os.PathLike[str]

# The module of the state that Keras 3 keeps for each thread. No public function restores it.
_KERAS_MODULE = "keras.src.backend.common.global_state"
# The parts of the state that belong to one graph, and their initial values: the number of objects
# with each automatic name, and the generator of ``keras.random``, which holds a variable.
_FRESH_KERAS_STATE = {"object_name_uids": None, "global_seed_generator": None}


class Model:
    """A `model_fn` with its folder, configuration and parameters.

    Its methods build into the default graph. The arguments and errors of the constructor are those
    of an Estimator.

    Attributes:
        model_fn: The `model_fn`.
        model_dir: Folder of checkpoints and summaries.
    """

    def __init__(
        self,
        model_fn: Callable[..., SpecLike],
        model_dir: Path | None,
        config: RunConfig | None,
        params: Any,
        warm_start_from: Path | WarmStartSettings | None = None,
    ) -> None:
        _input_pipelines.check_model_fn(model_fn, params)
        config = RunConfig() if config is None else config
        if not hasattr(config, "save_checkpoints_steps"):
            raise ValueError(f"config must be an instance of `RunConfig`, but provided {config!r}.")
        self.model_fn = model_fn
        self.model_dir = model_dir_of(config, model_dir) or tempfile.mkdtemp()
        self._config = config.replace(model_dir=self.model_dir)
        self._params: Any = copy.deepcopy(params or {})
        self._warm_start = _warm_start.settings(warm_start_from)

    def config(self) -> RunConfig:
        """Returns a copy of the configuration."""
        return copy.deepcopy(self._config)

    def params(self) -> Any:
        """Returns a copy of the parameters."""
        return copy.deepcopy(self._params)

    def warm_start(self) -> None:
        """Lets variables start with values of another model's checkpoint, if so configured."""
        if self._warm_start is not None:
            _warm_start.apply(self._warm_start)

    def training_device(self, task: Task | None) -> Callable[[tf.Operation], str] | None:
        """Returns what ``tf.compat.v1.device`` takes to place the operations of training.

        Args:
            task: The task of a cluster, whose parameter servers get the variables, unless the
                configuration says where operations are placed; None without a cluster.
        """
        if self._config.device_fn is not None or task is None:
            return self._config.device_fn
        return task.replica_device_setter()

    def build(self, input_fn: Callable[..., Any], mode: str) -> SpecLike:
        """Builds the model on the input that a function returns, and returns its spec."""
        self._begin()
        optional = {"mode": mode, "params": self.params(), "config": self.config()}
        with _fresh_keras_names():
            result = _input_pipelines.call_accepted(input_fn, **optional)
            features, labels = _input_pipelines.features_and_labels(result)
            labels = None if mode == ModeKeys.PREDICT else labels
            return self._call_model_fn(features, labels, mode)

    def build_for_serving(
        self, receiver_fn: Callable[[], ServingInputReceiver]
    ) -> tuple[SpecLike, ServingInputReceiver]:
        """Builds the model on the input of a served request, and returns both."""
        self._begin()
        with _fresh_keras_names():
            receiver = receiver_fn()
            spec = self._call_model_fn(receiver.features, None, ModeKeys.PREDICT)
        return spec, receiver

    def _begin(self) -> None:
        v1.set_random_seed(self._config.tf_random_seed)
        v1.train.get_or_create_global_step()

    def _call_model_fn(self, features: Nested, labels: Nested, mode: str) -> SpecLike:
        optional = {"params": self.params(), "config": self.config()}
        return _input_pipelines.call_model_fn(self.model_fn, features, labels, mode, optional)


@contextlib.contextmanager
def _fresh_keras_names() -> Iterator[None]:
    """Returns a context in which Keras 3 numbers its layers from the beginning.

    Keras 3 numbers layers across all graphs of a thread. The first dense layer is called "dense" in
    the first graph and "dense_1" in the second, so the second graph does not find its variables in
    a checkpoint of the first. When the context ends, the numbers are those from before it, and the
    caller's own layers get the same names as without it. No other state of Keras changes, and Keras
    is not imported. The older ``tf_keras`` numbers the layers of each graph separately.
    """
    before = _exchange_keras_state(_FRESH_KERAS_STATE)
    try:
        yield
    finally:
        _exchange_keras_state(before)


def _exchange_keras_state(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sets parts of Keras's state, and returns their former values.

    If Keras has not been imported, nothing is set, and the initial values are returned.

    Args:
        values: The new values by the names of the parts. None is the initial value of every part.
    """
    state: Any = sys.modules.get(_KERAS_MODULE)
    if not hasattr(state, "get_global_attribute") or not hasattr(state, "set_global_attribute"):
        return _FRESH_KERAS_STATE
    before = {name: state.get_global_attribute(name) for name in values}
    for name, value in values.items():
        state.set_global_attribute(name, value)
    return before
