"""A `model_fn` with its parameters and configuration, which builds the graphs of an Estimator."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import ModeKeys, SpecLike, argument_names, call_accepted, checked_spec
from tf_condacc._typing import Nested
from tf_condacc.cluster import Task
from tf_condacc.estimator import _input_pipelines
from tf_condacc.estimator._keras_names import fresh_keras_names
from tf_condacc.estimator._run_config import RunConfig, model_dir_of
from tf_condacc.estimator.export import ServingInputReceiver

Path: TypeAlias = str | os.PathLike[str]


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
    ) -> None:
        _input_pipelines.check_model_fn(model_fn, params)
        config = RunConfig() if config is None else config
        if not hasattr(config, "save_checkpoints_steps"):
            raise ValueError(f"config must be an instance of `RunConfig`, but provided {config!r}.")
        self.model_fn = model_fn
        self.model_dir = model_dir_of(config, model_dir) or tempfile.mkdtemp()
        self._config = config.replace(model_dir=self.model_dir)
        self._params: Any = copy.deepcopy(params or {})

    def config(self) -> RunConfig:
        """Returns a copy of the configuration."""
        return copy.deepcopy(self._config)

    def params(self) -> Any:
        """Returns a copy of the parameters."""
        return copy.deepcopy(self._params)

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
        with fresh_keras_names():
            result = call_accepted(input_fn, **optional)
            features, labels = _input_pipelines.features_and_labels(result)
            labels = None if mode == ModeKeys.PREDICT else labels
            return self._call_model_fn(features, labels, mode)

    def build_for_serving(
        self, receiver_fn: Callable[[], ServingInputReceiver]
    ) -> tuple[SpecLike, ServingInputReceiver]:
        """Builds the model on the input of a served request, and returns both."""
        self._begin()
        with fresh_keras_names():
            receiver = receiver_fn()
            spec = self._call_model_fn(receiver.features, None, ModeKeys.PREDICT)
        return spec, receiver

    def _begin(self) -> None:
        v1.set_random_seed(self._config.tf_random_seed)
        v1.train.get_or_create_global_step()

    def _call_model_fn(self, features: Nested, labels: Nested, mode: str) -> SpecLike:
        """Calls the `model_fn`, and leaves out the arguments that it does not have.

        Raises:
            ValueError: There are labels and no argument for them, or the result is not a spec, or
                lacks a value that the mode requires.
        """
        optional = {"params": self.params(), "config": self.config(), "labels": labels}
        if labels is not None and "labels" not in argument_names(self.model_fn):
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        spec = call_accepted(self.model_fn, features=features, mode=mode, **optional)
        return checked_spec(spec, mode)
