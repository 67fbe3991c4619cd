"""A thin runner of a `model_fn`: it trains, evaluates, predicts and exports.

Mirrors ``tf.estimator.Estimator``.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tf_condacc._typing import Nested
from tf_condacc.estimator.export import ServingInputReceiver
from tf_condacc.estimator.model_fn import ModeKeys, SpecLike
from tf_condacc.estimator.runner import (
    _inputs,
    _keras_names,
    _predictions,
    _saved_models,
    _sessions,
)
from tf_condacc.estimator.runner.run_config import RunConfig

v1 = tf.compat.v1

# A path, as the functions of the module os take it.
Path: TypeAlias = str | os.PathLike[str]


class Estimator:
    """Trains, evaluates, predicts with and exports the model of a `model_fn`.

    Mirrors ``tf.estimator.Estimator`` in a single process: graphs, hooks, checkpoints and summaries
    in `model_dir`, by which one call goes on where another has ended.

    Each call builds a graph of its own. While `input_fn` and `model_fn` run, Keras 3 numbers the
    names of its layers from the beginning, so that every graph has the variables of the checkpoint;
    afterwards it goes on with the numbers it had before.

    Args:
        model_fn: Called with `features`, `mode`, and those of `labels`, `params` and `config` that
            it has arguments for. Returns an `EstimatorSpec`, or anything with its fields.
        model_dir: Folder of checkpoints and summaries. By default that of `config`, or else a
            temporary one.
        config: A `RunConfig`.
        params: Handed to `model_fn` and `input_fn`, copied each time.

    Raises:
        ValueError: `model_dir` and that of `config` differ, `model_fn` or `config` is none, or
            `model_fn` has no argument for the features or for `params` that are given.
    """

    def __init__(
        self,
        model_fn: Callable[..., SpecLike],
        model_dir: Path | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        _inputs.check_model_fn(model_fn, params)
        config = RunConfig() if config is None else config
        if not hasattr(config, "save_checkpoints_steps"):
            raise ValueError(f"config must be an instance of `RunConfig`, but provided {config!r}.")
        given = [os.fspath(folder) for folder in (model_dir, config.model_dir) if folder]
        if len(set(given)) > 1:
            raise ValueError(
                "`model_dir` are set both in constructor and `RunConfig`, but with different "
                f"values. In constructor: '{given[0]}', in `RunConfig`: '{given[1]}' "
            )
        folder = given[0] if given else tempfile.mkdtemp()
        self._config = config.replace(model_dir=folder)
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})

    @property
    def model_dir(self) -> str:
        """Folder of checkpoints and summaries."""
        return self._config.model_dir

    @property
    def config(self) -> RunConfig:
        """How it runs: a `RunConfig`."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> dict[str, Any]:
        """A copy of what is handed to `model_fn`."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., SpecLike]:
        """The `model_fn`, as it was given."""
        return self._model_fn

    def latest_checkpoint(self) -> str | None:
        """Path of the latest checkpoint, or None."""
        return tf.train.latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """Names of the variables of the latest checkpoint."""
        return [name for name, _ in tf.train.list_variables(self._trained())]

    def get_variable_value(self, name: str) -> np.ndarray:
        """Value of a variable of the latest checkpoint, as a numpy array."""
        return tf.train.load_variable(self._trained(), name)

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[v1.train.SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[v1.train.CheckpointSaverListener] | None = None,
    ) -> Estimator:
        """Trains the model, from the latest checkpoint on if there is one.

        Args:
            input_fn: Returns a ``tf.data.Dataset`` of ``(features, labels)``, or such a pair of
                tensors or dictionaries of tensors. It may have arguments `mode`, `params` and
                `config`.
            hooks: ``tf.compat.v1.train.SessionRunHook`` objects.
            steps: How many more steps to train; until the input ends if None.
            max_steps: At which global step to end, instead.
            saving_listeners: ``tf.compat.v1.train.CheckpointSaverListener`` objects.

        Returns:
            Itself.

        Raises:
            ValueError: Both `steps` and `max_steps` are given, or one of them is below 1.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        _inputs.check_steps(steps=steps, max_steps=max_steps)
        hooks = _inputs.checked_hooks(hooks)
        if max_steps is not None and self._trained_steps() >= max_steps:
            return self
        if steps is not None or max_steps is not None:
            hooks.append(v1.train.StopAtStepHook(steps, max_steps))
        with tf.Graph().as_default():
            spec = self._build(input_fn, ModeKeys.TRAIN)
            # Not summary.scalar, whose tag would be "loss_1" where an operation is called "loss".
            summary = tf.raw_ops.ScalarSummary(tags="loss", values=spec.loss)
            v1.add_to_collection(v1.GraphKeys.SUMMARIES, summary)
            _sessions.train(spec, self._config, self.model_dir, hooks, saving_listeners)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[v1.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates the model of a checkpoint; without one, a freshly initialized model.

        Args:
            input_fn: As of `train`.
            steps: How many batches to use; all if None.
            hooks: As of `train`.
            checkpoint_path: By default the latest checkpoint.
            name: Of the evaluation, if there are several: the summaries' folder is then called
                "eval_" and the name.

        Returns:
            A dictionary of the metrics' values, "loss" and "global_step".

        Raises:
            ValueError: `steps` is below 1, or a metric is called "loss".
        """
        _inputs.check_steps(steps=steps)
        hooks = _inputs.checked_hooks(hooks)
        with tf.Graph().as_default():
            spec = self._build(input_fn, ModeKeys.EVAL)
            checkpoint = checkpoint_path or self.latest_checkpoint()
            values = _sessions.evaluate(spec, self._config, checkpoint, steps, hooks)
        folder = f"eval_{name}" if name else "eval"
        _sessions.write_summary(os.path.join(self.model_dir, folder), values)
        return values

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Collection[str] | None = None,
        hooks: Sequence[v1.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yields predictions, until the input ends.

        Args:
            input_fn: As of `train`; labels are dropped.
            predict_keys: Names of those predictions that are wanted; all if None.
            hooks: As of `train`.
            checkpoint_path: By default the latest checkpoint; without any, a freshly initialized
                model predicts.
            yield_single_examples: Whether to yield the predictions of each example, rather than
                those of each batch.

        Yields:
            Numpy arrays, or dictionaries of them if the predictions are such.

        Raises:
            ValueError: No prediction has one of the names, or they differ in length or are no dense
                batch.
        """
        hooks = _inputs.checked_hooks(hooks)
        with tf.Graph().as_default():
            spec = self._build(input_fn, ModeKeys.PREDICT)
            predictions = _predictions.chosen(spec.predictions, predict_keys)
            checkpoint = checkpoint_path or self.latest_checkpoint()
            hooks = [*hooks, *(spec.prediction_hooks or ())]
            session = _sessions.restored(spec, self._config, checkpoint, hooks)
        # Not inside the graph's context, in which the caller would find himself.
        with session:
            while not session.should_stop():
                batch = session.run(predictions)
                yield from _predictions.examples(batch) if yield_single_examples else [batch]

    def export_saved_model(
        self,
        export_dir_base: Path,
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> str:
        """Writes the model as a SavedModel that can be served.

        Args:
            export_dir_base: Folder in which a new one is made, named by the time in seconds.
            serving_input_receiver_fn: Returns an `export.ServingInputReceiver`.
            assets_extra: Paths of files to be copied into its folder "assets.extra", by the
                paths that they get there.
            as_text: Whether to write it in a form that can be read.
            checkpoint_path: By default the latest checkpoint.

        Returns:
            Path of the new folder.

        Raises:
            ValueError: There is no checkpoint, or the model exports nothing.
        """
        checkpoint = checkpoint_path or self._trained()
        with tf.Graph().as_default():
            v1.set_random_seed(self._config.tf_random_seed)
            v1.train.get_or_create_global_step()
            with _keras_names.fresh():
                receiver = serving_input_receiver_fn()
                spec = self._call_model_fn(receiver.features, None, ModeKeys.PREDICT)
            return _saved_models.write(
                spec,
                receiver,
                self._config,
                checkpoint,
                os.fspath(export_dir_base),
                assets_extra or {},
                as_text,
            )

    def _build(self, input_fn: Callable[..., Any], mode: str) -> SpecLike:
        v1.set_random_seed(self._config.tf_random_seed)
        v1.train.get_or_create_global_step()
        optional = {"mode": mode, "params": self.params, "config": self.config}
        with _keras_names.fresh():
            result = _inputs.call_accepted(input_fn, **optional)
            features, labels = _inputs.features_and_labels(result)
            labels = None if mode == ModeKeys.PREDICT else labels
            return self._call_model_fn(features, labels, mode)

    def _call_model_fn(self, features: Nested, labels: Nested, mode: str) -> SpecLike:
        optional = {"params": self.params, "config": self.config}
        return _inputs.call_model_fn(self._model_fn, features, labels, mode, optional)

    def _trained(self) -> str:
        checkpoint = self.latest_checkpoint()
        if checkpoint is None:
            raise ValueError(f"Couldn't find trained model at {self.model_dir}.")
        return checkpoint

    def _trained_steps(self) -> int:
        checkpoint = self.latest_checkpoint()
        if checkpoint is None:
            return 0
        return int(tf.train.load_variable(checkpoint, v1.GraphKeys.GLOBAL_STEP))
