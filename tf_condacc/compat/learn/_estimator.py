"""An Estimator whose `model_fn` returns ModelFnOps. Mirrors ``tf.contrib.learn.Estimator``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import argument_names, call_accepted, replaced_spec
from tf_condacc._typing import Nested
from tf_condacc.compat._estimator import estimator_module
from tf_condacc.compat.learn._exports import UNCHANGED, GraphRewriteSpec, InputFnOps, receiver_fn_of
from tf_condacc.compat.learn._metrics import metric_ops
from tf_condacc.compat.learn._model_fn import ModelFnOps
from tf_condacc.compat.learn._predictions import batches_of, examples_of
from tf_condacc.compat.learn._run_config import RunConfig


class NotFittedError(ValueError, AttributeError):
    """An Estimator has no checkpoint. Mirrors ``tf.contrib.learn.NotFittedError``."""


class Estimator:
    """Trains, evaluates, predicts with and exports the model of a `model_fn`.

    Mirrors ``tf.contrib.learn.Estimator``, over the Estimator of ``tf.estimator``. Checkpoints and
    summaries are kept in `model_dir`, and each call continues from the latest checkpoint. Inputs
    are functions; the arguments `x`, `y`, `batch_size` and `feed_fn` of the original are refused.

    Args:
        model_fn: Function of features and labels, which may also have the arguments `mode`,
            `params`, `config` and `model_dir`. Returns a `ModelFnOps`, a tuple ``(predictions,
            loss, train_op)``, or an ``EstimatorSpec``.
        model_dir: Folder of checkpoints and summaries. By default that of `config`, or a temporary
            folder.
        config: A `RunConfig`.
        params: Parameters of `model_fn`.
        feature_engineering_fn: Function of features and labels that returns those that `model_fn`
            is called with.

    Raises:
        ValueError: `model_dir` differs from that of `config`; or `model_fn` is not a function; or
            `model_fn` has no argument `params` although `params` are given.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        feature_engineering_fn: Callable[..., tuple[Nested, Nested]] | None = None,
    ) -> None:
        if model_fn is None or not callable(model_fn):
            raise ValueError(f"model_fn must be provided to Estimator, got {model_fn!r}.")
        if params is not None and "params" not in argument_names(model_fn):
            raise ValueError(
                f"Estimator's model_fn ({model_fn}) does not have a params argument, but params "
                f"({params}) were passed to the Estimator's constructor."
            )
        self.params = params
        self._model_fn = model_fn
        self._engineer = feature_engineering_fn
        # Calls of `evaluate` and `export_savedmodel` add these to the model.
        self._metrics: Mapping[Any, Any] = {}
        self._default_output: str | None = None

        def core_model_fn(features: Nested, labels: Nested, mode: str, config: Any) -> Any:
            return self._spec(features, labels, mode, config)

        config = RunConfig() if config is None else config
        self._core = estimator_module().Estimator(core_model_fn, model_dir, config)

    @property
    def config(self) -> RunConfig:
        """A copy of the configuration."""
        return self._core.config

    @property
    def model_dir(self) -> str:
        """The folder of checkpoints and summaries."""
        return self._core.model_dir

    def get_variable_names(self) -> list[str]:
        """Returns the names of the variables in the latest checkpoint, or raises ValueError."""
        return self._core.get_variable_names()

    def get_variable_value(self, name: str) -> Any:
        """Returns the value of a variable in the latest checkpoint, or raises ValueError."""
        return self._core.get_variable_value(name)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[[], Any] | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        monitors: Sequence[v1.train.SessionRunHook] | None = None,
        max_steps: int | None = None,
    ) -> Estimator:
        """Trains the model, starting from the latest checkpoint if there is one.

        Args:
            x, y, batch_size: Must be None.
            input_fn: Function that returns a pair of features and labels, or a Dataset of pairs.
            steps: Number of steps to train. If None, training continues until the input ends.
            monitors: ``tf.compat.v1.train.SessionRunHook`` objects.
            max_steps: Global step at which training ends. Can be given instead of `steps`.

        Returns:
            This Estimator.

        Raises:
            ValueError: There is no `input_fn`, an argument must be None, or both `steps` and
                `max_steps` are given.
            TypeError: A monitor is not a ``SessionRunHook``.
        """
        _check_inputs("fit", input_fn, x=x, y=y, batch_size=batch_size)
        self._core.train(input_fn, list(monitors or ()), steps, max_steps)
        return self

    def partial_fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[[], Any] | None = None,
        steps: int | None = 1,
        batch_size: int | None = None,
        monitors: Sequence[v1.train.SessionRunHook] | None = None,
    ) -> Estimator:
        """Trains the model as `fit` does, by default for one step."""
        return self.fit(x, y, input_fn, steps, batch_size, monitors)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[[], Any] | None = None,
        feed_fn: Any = None,
        batch_size: int | None = None,
        steps: int | None = None,
        metrics: Mapping[Any, Any] | None = None,
        name: str | None = None,
        checkpoint_path: str | None = None,
        hooks: Sequence[v1.train.SessionRunHook] | None = None,
        log_progress: bool = True,
    ) -> dict[str, Any]:
        """Evaluates the model of a checkpoint.

        Args:
            x, y, feed_fn, batch_size: Must be None.
            input_fn: Function that returns a pair of features and labels, or a Dataset of pairs.
            steps: Number of batches to evaluate; all batches if None or 0.
            metrics: `MetricSpec` objects, or functions of predictions and labels, by their names.
            name: Name of the evaluation, for the folder of its summaries.
            checkpoint_path: Path of the checkpoint. By default the latest checkpoint.
            hooks: ``tf.compat.v1.train.SessionRunHook`` objects.
            log_progress: Has no effect.

        Returns:
            A dictionary with the values of the metrics, "loss" and "global_step".

        Raises:
            NotFittedError: There is no checkpoint.
            ValueError: There is no `input_fn`, an argument must be None, or `metrics` is not a
                dictionary.
        """
        del log_progress
        given = {"x": x, "y": y, "feed_fn": feed_fn, "batch_size": batch_size}
        _check_inputs("evaluate", input_fn, **given)
        if checkpoint_path is None:
            self._check_fitted()
        with evaluated_with(self, metrics):
            return self._core.evaluate(
                input_fn=input_fn,
                steps=steps or None,
                hooks=list(hooks or ()),
                checkpoint_path=checkpoint_path,
                name=name,
            )

    def predict(
        self,
        x: Any = None,
        input_fn: Callable[[], Any] | None = None,
        batch_size: int | None = None,
        outputs: Collection[str] | None = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """Returns predictions.

        Args:
            x, batch_size: Must be None.
            input_fn: Function that returns features, or features and labels. An input of constant
                tensors, which never ends, gives one batch.
            outputs: Names of the predictions to return; all predictions if None.
            as_iterable: Whether to return an iterator over all batches. If False, the predictions
                of one batch are returned.
            iterate_batches: Whether the iterator yields the predictions of one batch at a time. If
                False, it yields those of one example.

        Returns:
            An iterator over predictions, or the predictions of one batch: arrays, or dictionaries
            of arrays if the predictions of the model are a dictionary.

        Raises:
            NotFittedError: There is no checkpoint.
            ValueError: There is no `input_fn`, or an argument must be None.
        """
        _check_inputs("predict", input_fn, x=x, batch_size=batch_size)
        self._check_fitted()
        assert input_fn is not None
        batches = batches_of(self._core, input_fn, outputs)
        if not as_iterable:
            with contextlib.closing(batches):
                return next(batches)
        return batches if iterate_batches else examples_of(batches)

    def export_savedmodel(
        self,
        export_dir_base: str,
        serving_input_fn: Callable[[], InputFnOps],
        default_output_alternative_key: str | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        graph_rewrite_specs: Sequence[GraphRewriteSpec] = UNCHANGED,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """Writes the model as a SavedModel, for serving.

        The names of its signatures are those of ``tf.estimator``: "serving_default", and those of
        the `output_alternatives`.

        Args:
            export_dir_base: Parent of the new folder, whose name is the time in seconds.
            serving_input_fn: Function that returns an `InputFnOps`.
            default_output_alternative_key: Name of the outputs that are the default signature, if
                there are several.
            assets_extra: Source paths of files to copy, by their paths in the folder "assets.extra"
                of the SavedModel.
            as_text: Whether to write the text form of the SavedModel proto.
            checkpoint_path: Path of the checkpoint. By default the latest checkpoint.
            graph_rewrite_specs: Must be the default: one graph without changes.
            strip_default_attrs: Has no effect: attributes that have their default are left out.

        Returns:
            Path of the new folder as bytes.

        Raises:
            NotFittedError: There is no checkpoint.
            ValueError: `serving_input_fn` is None, `graph_rewrite_specs` has changes, or the model
                has no valid signature.
        """
        del strip_default_attrs
        if serving_input_fn is None:
            raise ValueError("serving_input_fn must be defined.")
        if tuple(graph_rewrite_specs) != UNCHANGED:
            raise ValueError(
                "Estimator.export_savedmodel: changes of the graph are not supported; expected "
                f"graph_rewrite_specs={UNCHANGED!r}, got {graph_rewrite_specs!r}."
            )
        if checkpoint_path is None:
            self._check_fitted()
        self._default_output = default_output_alternative_key
        try:
            return self._core.export_savedmodel(
                export_dir_base,
                receiver_fn_of(serving_input_fn),
                assets_extra=assets_extra,
                as_text=as_text,
                checkpoint_path=checkpoint_path,
            )
        finally:
            self._default_output = None

    def _spec(self, features: Nested, labels: Nested, mode: str, config: Any) -> Any:
        """Calls the `model_fn`, and returns an ``EstimatorSpec``."""
        if self._engineer is not None:
            features, labels = self._engineer(features, labels)
        result = call_accepted(
            self._model_fn,
            features,
            labels,
            mode=mode,
            params=self.params,
            config=config,
            model_dir=self.model_dir,
        )
        if not hasattr(result, "eval_metric_ops"):
            if not isinstance(result, (list, tuple)) or len(result) != 3:
                raise ValueError(
                    "Unrecognized value returned by model_fn, please return ModelFnOps; got "
                    f"{result!r}."
                )
            predictions, loss, train_op = result
            result = ModelFnOps(mode, predictions, loss, train_op)
        if mode == "eval" and self._metrics:
            added = metric_ops(self._metrics, features, labels, result.predictions)
            result = replaced_spec(result, eval_metric_ops={**result.eval_metric_ops, **added})
        if isinstance(result, ModelFnOps):
            return result.estimator_spec(self._default_output)
        return result

    def _check_fitted(self) -> None:
        if tf.train.latest_checkpoint(self.model_dir) is None:
            raise NotFittedError(f"Couldn't find trained model at {self.model_dir}.")


def core_of(estimator: Any) -> Any:
    """Returns the Estimator of ``tf.estimator`` that an Estimator of either kind runs."""
    return estimator._core if isinstance(estimator, Estimator) else estimator


@contextlib.contextmanager
def evaluated_with(estimator: Any, metrics: Mapping[Any, Any] | None) -> Iterator[None]:
    """Returns a context in which evaluations of a model have these metrics as well.

    Args:
        estimator: An `Estimator`; or one of ``tf.estimator``, which takes no metrics.
        metrics: `MetricSpec` objects or functions by their names, or None.

    Raises:
        ValueError: `metrics` is not a dictionary.
    """
    if metrics is None:
        yield
        return
    if not isinstance(metrics, Mapping):
        raise ValueError(f"Metrics argument should be None or dict. Got {metrics}.")
    before, estimator._metrics = estimator._metrics, metrics
    try:
        yield
    finally:
        estimator._metrics = before


def _check_inputs(method: str, input_fn: Any, **others: Any) -> None:
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise ValueError(
            f"Estimator.{method}: {' and '.join(given)} must be None. Pass the input as input_fn, "
            "such as tf.estimator.inputs.numpy_input_fn(x, y, batch_size, shuffle=True)."
        )
    if input_fn is None:
        raise ValueError(f"Estimator.{method}: input_fn must be provided.")
