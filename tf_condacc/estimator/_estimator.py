"""An Estimator, which trains, evaluates, predicts with and exports the model of a `model_fn`.

Mirrors ``tf.estimator.Estimator``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import ModeKeys, SpecLike, checked_hooks
from tf_condacc.cluster import Task
from tf_condacc.estimator import _input_pipelines, _predictions, _saved_models, _sessions
from tf_condacc.estimator._model import Model, Path
from tf_condacc.estimator._run_config import RunConfig
from tf_condacc.estimator.export import ServingInputReceiver

_CURRENT_TASK: ContextVar[Task | None] = ContextVar("tf_condacc_estimator_task", default=None)


_EXPECTED_HOOKS = "Hooks must be a SessionRunHook"  # The original's words.


class Estimator:
    """Trains, evaluates, predicts with and exports the model of a `model_fn`.

    Mirrors ``tf.estimator.Estimator``. Checkpoints and summaries are kept in `model_dir`, and each
    call continues from the latest checkpoint. On a cluster, `train_and_evaluate` trains.

    Each call builds a new graph. While `input_fn` and `model_fn` run, Keras 3 numbers its layers
    from the beginning, so that every graph has the variable names of the checkpoint. Afterwards it
    continues with its former numbers.

    Args:
        model_fn: Function that is called with `features`, `mode`, and with `labels`, `params` and
            `config` if it has arguments of these names. Returns an `EstimatorSpec`, or an object
            with the same fields.
        model_dir: Folder of checkpoints and summaries. By default that of `config`, or a temporary
            folder.
        config: A `RunConfig`.
        params: Parameters of `model_fn` and `input_fn`, a dictionary or another object that can be
            copied. Each call gets a deep copy.
        warm_start_from: Must be None: this Estimator does not start with values of other models.

    Raises:
        ValueError: `model_dir` differs from that of `config`; or `model_fn` is not a function; or
            `config` is not a `RunConfig`; or `model_fn` has no argument `features`, or no argument
            `params` although `params` are given; or `warm_start_from` is given.
    """

    def __init__(
        self,
        model_fn: Callable[..., SpecLike],
        model_dir: Path | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: None = None,
    ) -> None:
        _input_pipelines.check_not_given("Estimator", warm_start_from=warm_start_from)
        # The name is so long that subclasses do not overwrite the attribute by accident.
        self._tf_condacc_model = Model(model_fn, model_dir, config, params)

    @property
    def model_dir(self) -> str:
        """The folder of checkpoints and summaries."""
        return self._tf_condacc_model.model_dir

    @property
    def config(self) -> RunConfig:
        """A copy of the configuration."""
        return self._tf_condacc_model.config()

    @property
    def params(self) -> Any:
        """A copy of the parameters of `model_fn`."""
        return self._tf_condacc_model.params()

    @property
    def model_fn(self) -> Callable[..., SpecLike]:
        """The `model_fn` that was passed to the constructor."""
        return self._tf_condacc_model.model_fn

    def latest_checkpoint(self) -> str | None:
        """Returns the path of the latest checkpoint, or None."""
        return tf.train.latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """Returns the names of the variables in the latest checkpoint.

        Raises:
            ValueError: There is no checkpoint.
        """
        return [name for name, _ in tf.train.list_variables(self._existing_checkpoint())]

    def get_variable_value(self, name: str) -> np.ndarray:
        """Returns the value of a variable in the latest checkpoint.

        Args:
            name: Name of the variable.

        Raises:
            ValueError: There is no checkpoint.
            tf.errors.NotFoundError: The checkpoint has no variable of this name.
        """
        return tf.train.load_variable(self._existing_checkpoint(), name)

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[v1.train.SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[v1.train.CheckpointSaverListener] | None = None,
    ) -> Estimator:
        """Trains the model, starting from the latest checkpoint if there is one.

        Args:
            input_fn: Function that returns a ``tf.data.Dataset`` of pairs ``(features, labels)``,
                or one such pair of tensors or dictionaries of tensors. It may have arguments
                `mode`, `params` and `config`.
            hooks: ``tf.compat.v1.train.SessionRunHook`` objects.
            steps: Number of steps to train. If None, training continues until the input ends.
            max_steps: Global step at which training ends. Can be given instead of `steps`.
            saving_listeners: ``tf.compat.v1.train.CheckpointSaverListener`` objects.

        Returns:
            This Estimator.

        Raises:
            ValueError: Both `steps` and `max_steps` are given, or one of them is lower than 1.
            TypeError: A hook is not a ``SessionRunHook``.
            RuntimeError: ``TF_CONFIG`` describes a cluster, and the call does not come from
                `train_and_evaluate`.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        _input_pipelines.check_steps(steps=steps, max_steps=max_steps)
        hooks = list(checked_hooks(hooks, _EXPECTED_HOOKS))
        if max_steps is not None and self._trained_steps() >= max_steps:
            return self
        if steps is not None or max_steps is not None:
            hooks.append(v1.train.StopAtStepHook(steps, max_steps))
        task = _task_to_train_in(self.config)
        with tf.Graph().as_default(), v1.device(self._tf_condacc_model.training_device(task)):
            spec = self._tf_condacc_model.build(input_fn, ModeKeys.TRAIN)
            # v1.summary.scalar would use the tag "loss_1" if an operation is called "loss".
            summary = tf.raw_ops.ScalarSummary(tags="loss", values=spec.loss)
            v1.add_to_collection(v1.GraphKeys.SUMMARIES, summary)
            _sessions.train(spec, self.config, self.model_dir, hooks, saving_listeners, task)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[v1.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates the model of a checkpoint, or an initialized model if there is no checkpoint.

        Args:
            input_fn: Function that returns the input; see `train`.
            steps: Number of batches to evaluate; all batches if None.
            hooks: ``tf.compat.v1.train.SessionRunHook`` objects.
            checkpoint_path: Path of the checkpoint. By default the latest checkpoint.
            name: Name of the evaluation. If given, the folder of its summaries is called "eval_"
                followed by this name.

        Returns:
            A dictionary with the values of the metrics, "loss" and "global_step".

        Raises:
            ValueError: `steps` is lower than 1, or a metric is called "loss".
            TypeError: A hook is not a ``SessionRunHook``.
        """
        _input_pipelines.check_steps(steps=steps)
        hooks = list(checked_hooks(hooks, _EXPECTED_HOOKS))
        with tf.Graph().as_default():
            spec = self._tf_condacc_model.build(input_fn, ModeKeys.EVAL)
            checkpoint = checkpoint_path or self.latest_checkpoint()
            values = _sessions.evaluate(spec, self.config, checkpoint, steps, hooks)
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
    ) -> Generator[np.ndarray | dict[str, np.ndarray], None, None]:
        """Yields predictions until the input ends.

        Args:
            input_fn: Function that returns the input; see `train`. Labels are ignored.
            predict_keys: Names of the predictions to yield; all predictions if None.
            hooks: ``tf.compat.v1.train.SessionRunHook`` objects.
            checkpoint_path: Path of the checkpoint. By default the latest checkpoint. If there is
                none, the model is initialized.
            yield_single_examples: Whether to yield the predictions of one example at a time. If
                False, the predictions of one batch are yielded at a time.

        Yields:
            A NumPy array, or a dictionary of arrays if the predictions are a dictionary.

        Raises:
            ValueError: No prediction has one of the names. With `yield_single_examples` also: a
                prediction is not a dense batch, or the predictions differ in length.
            TypeError: A hook is not a ``SessionRunHook``.
        """
        hooks = list(checked_hooks(hooks, _EXPECTED_HOOKS))
        with tf.Graph().as_default():
            spec = self._tf_condacc_model.build(input_fn, ModeKeys.PREDICT)
            predictions = _predictions.chosen(spec.predictions, predict_keys)
            checkpoint = checkpoint_path or self.latest_checkpoint()
            hooks = [*hooks, *(spec.prediction_hooks or ())]
            session = _sessions.restored(spec, self.config, checkpoint, hooks)
        # Yielding inside the graph's context would make it the default graph of the caller.
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
        """Writes the model as a SavedModel, for serving.

        Args:
            export_dir_base: Parent of the new folder, whose name is the time in seconds.
            serving_input_receiver_fn: Function that returns an `export.ServingInputReceiver`.
            assets_extra: Source paths of files to copy, by their paths in the folder "assets.extra"
                of the SavedModel.
            as_text: Whether to write the text form of the SavedModel proto.
            checkpoint_path: Path of the checkpoint. By default the latest checkpoint.

        Returns:
            Path of the new folder.

        Raises:
            ValueError: There is no checkpoint, or the model has no valid signature.
        """
        checkpoint = checkpoint_path or self._existing_checkpoint()
        with tf.Graph().as_default():
            spec, receiver = self._tf_condacc_model.build_for_serving(serving_input_receiver_fn)
            return _saved_models.write(
                spec,
                receiver,
                self.config,
                checkpoint,
                os.fspath(export_dir_base),
                assets_extra or {},
                as_text,
            )

    def export_savedmodel(
        self,
        export_dir_base: Path,
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """Writes the model as a SavedModel, as `export_saved_model` does, under its former name.

        The arguments are the same. `strip_default_attrs` has no effect: attributes that have their
        default are left out.

        Returns:
            Path of the new folder as bytes, which the programs that call this method decode.
        """
        del strip_default_attrs
        return os.fsencode(
            self.export_saved_model(
                export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path
            )
        )

    def _existing_checkpoint(self) -> str:
        """Returns the path of the latest checkpoint.

        Raises:
            ValueError: There is none.
        """
        latest = self.latest_checkpoint()
        if latest is None:
            raise ValueError(f"Couldn't find trained model at {self.model_dir}.")
        return latest

    def _trained_steps(self) -> int:
        """Returns the global step of the latest checkpoint, or 0 if there is none."""
        latest = self.latest_checkpoint()
        if latest is None:
            return 0
        return int(tf.train.load_variable(latest, v1.GraphKeys.GLOBAL_STEP))


@contextlib.contextmanager
def in_task(task: Task) -> Iterator[None]:
    """Returns a context in which Estimators train in a task."""
    token = _CURRENT_TASK.set(task)
    try:
        yield
    finally:
        _CURRENT_TASK.reset(token)


def _task_to_train_in(config: RunConfig) -> Task | None:
    """Returns the task to train in; None if the process is alone.

    Raises:
        RuntimeError: ``TF_CONFIG`` describes a cluster, and there is no task of it.
    """
    task = _CURRENT_TASK.get()
    if task is None and config.master:
        raise RuntimeError(
            f"TF_CONFIG describes a cluster, and this process is {config.task_type} "
            f"{config.task_id} of it. Estimator.train alone would train a separate model in each "
            "process; tf.estimator.train_and_evaluate trains one model on the cluster."
        )
    return task
