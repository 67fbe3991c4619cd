"""The spec that a `model_fn` returns to an Estimator.

Mirrors ``tf.estimator.EstimatorSpec``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import ModeKeys, checked_hooks, checked_loss
from tf_condacc._typing import Nested, TensorLike
from tf_condacc.estimator.export import ExportOutput, PredictOutput

_DEFAULT_SIGNATURE = v1.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class _Fields(NamedTuple):
    mode: str
    predictions: Nested
    loss: tf.Tensor | None
    train_op: tf.Operation | tf.Tensor | None
    eval_metric_ops: Mapping[str, tuple[Any, Any]]
    export_outputs: Mapping[str, Any] | None
    training_chief_hooks: Sequence[v1.train.SessionRunHook]
    training_hooks: Sequence[v1.train.SessionRunHook]
    scaffold: v1.train.Scaffold
    evaluation_hooks: Sequence[v1.train.SessionRunHook]
    prediction_hooks: Sequence[v1.train.SessionRunHook]


class EstimatorSpec(_Fields):
    """The operations and objects that a `model_fn` returns to an Estimator.

    Mirrors ``tf.estimator.EstimatorSpec``, with the same fields in the same order.

    Args:
        mode: One of `ModeKeys`.
        predictions: A tensor, or a dictionary of tensors. Required in mode PREDICT.
        loss: The loss, a tensor of one element: `[] float`. Required in modes TRAIN and EVAL.
        train_op: The operation, or a tensor of it, that makes one step. Required in mode TRAIN.
        eval_metric_ops: A dictionary from names to pairs ``(metric_value, update_op)``, as the
            functions of ``tf.compat.v1.metrics`` return them.
        export_outputs: A dictionary from signature names to `export.ExportOutput` objects. In mode
            PREDICT, one of them must have the name of the default signature, "serving_default". If
            there is only one, it is the default too. If there is none, the default is an
            `export.PredictOutput` of `predictions`.
        training_chief_hooks: Hooks that the chief runs in training.
        training_hooks: Hooks that all workers run in training.
        scaffold: A ``tf.compat.v1.train.Scaffold`` for initialization and saving.
        evaluation_hooks: Hooks to run in evaluation.
        prediction_hooks: Hooks to run in prediction.

    Raises:
        ValueError: A value that the mode requires is missing, the loss has more than one element,
            there are several export outputs and none is the default, or a tensor belongs to another
            graph.
        TypeError: A field has the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Nested = None,
        loss: TensorLike | None = None,
        train_op: tf.Operation | tf.Tensor | None = None,
        eval_metric_ops: Mapping[str, tuple[Any, Any]] | None = None,
        export_outputs: Mapping[str, ExportOutput] | None = None,
        training_chief_hooks: Iterable[v1.train.SessionRunHook] | None = None,
        training_hooks: Iterable[v1.train.SessionRunHook] | None = None,
        scaffold: v1.train.Scaffold | None = None,
        evaluation_hooks: Iterable[v1.train.SessionRunHook] | None = None,
        prediction_hooks: Iterable[v1.train.SessionRunHook] | None = None,
    ) -> EstimatorSpec:
        hooks = [training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks]
        chief_hooks, training_hooks, evaluation_hooks, prediction_hooks = map(checked_hooks, hooks)
        if scaffold is not None and not isinstance(scaffold, v1.train.Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        train_op = _checked_train_op(train_op, mode)
        predictions = _checked_predictions(predictions, mode)
        spec = super().__new__(
            cls,
            mode,
            predictions,
            checked_loss(loss, mode),
            train_op,
            _checked_metrics(eval_metric_ops),
            _checked_export_outputs(export_outputs, predictions, mode),
            chief_hooks,
            training_hooks,
            scaffold or v1.train.Scaffold(),
            evaluation_hooks,
            prediction_hooks,
        )
        _check_graph(spec)
        return spec

    def _replace(self, **fields: Any) -> EstimatorSpec:
        """Returns a spec with other values of some fields, and checks it.

        Raises:
            ValueError: The mode would change, or the new spec is invalid.
            TypeError: A field has the wrong type.
        """
        mode = fields.get("mode", self.mode)
        if mode != self.mode:
            raise ValueError(
                f"mode of EstimatorSpec cannot be changed: expected {self.mode!r}, got {mode!r}."
            )
        return type(self)(**{**self._asdict(), **fields})


def _checked_predictions(predictions: Nested, mode: str) -> Nested:
    if predictions is None and mode == ModeKeys.PREDICT:
        raise ValueError("Missing predictions.")
    if predictions is None:
        return {}
    for name, value in _items(predictions):
        if not _is_tensor(value):
            raise TypeError(f"predictions must be tensors, given for {name!r}: {value}")
    return predictions


def _checked_train_op(train_op: Any, mode: str) -> tf.Operation | tf.Tensor | None:
    if train_op is None and mode == ModeKeys.TRAIN:
        raise ValueError("Missing train_op.")
    if train_op is not None and not (_is_tensor(train_op) or isinstance(train_op, tf.Operation)):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
    return train_op


def _checked_metrics(metrics: Any) -> Mapping[str, tuple[Any, Any]]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    for key, pair in metrics.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples, given: "
                f"{pair} for key: {key}"
            )
    return metrics


def _checked_export_outputs(
    outputs: Any, predictions: Nested, mode: str
) -> Mapping[str, Any] | None:
    if mode != ModeKeys.PREDICT:
        return outputs
    if outputs is None or outputs == {}:
        return _default_export_outputs(predictions)
    if not isinstance(outputs, Mapping):
        raise TypeError(f"export_outputs must be dict, given: {outputs}")
    for key, output in outputs.items():
        if not (isinstance(output, ExportOutput) or hasattr(output, "as_signature_def")):
            raise TypeError(
                "Values in export_outputs must be ExportOutput objects. Given: "
                f"{output} for key: {key}"
            )
    if _DEFAULT_SIGNATURE in outputs:
        return outputs
    if len(outputs) > 1:
        raise ValueError(
            "Multiple export_outputs were provided, but none of them is specified as the default. "
            f"Do this by naming one of them {_DEFAULT_SIGNATURE!r}."
        )
    return {**outputs, _DEFAULT_SIGNATURE: next(iter(outputs.values()))}


def _default_export_outputs(predictions: Nested) -> Mapping[str, ExportOutput] | None:
    """Returns the predictions as the default output; None if they cannot form a signature."""
    if not all(isinstance(name, str) for name, _ in _items(predictions)):
        return None
    return {_DEFAULT_SIGNATURE: PredictOutput(predictions)}


def _check_graph(spec: EstimatorSpec) -> None:
    graph = v1.get_default_graph()
    metrics = [(name, part) for name, pair in spec.eval_metric_ops.items() for part in pair]
    named = [("loss", spec.loss), ("train_op", spec.train_op), *metrics, *_items(spec.predictions)]
    for name, value in named:
        if not tf.executing_eagerly() and getattr(value, "graph", graph) is not graph:
            raise ValueError(f"{name} must be from the default graph, given: {value}")


def _items(predictions: Nested) -> list[tuple[Any, Any]]:
    """Returns the names and values of predictions, which may be a single tensor."""
    if isinstance(predictions, Mapping):
        return list(predictions.items())
    return [("predictions", predictions)]


def _is_tensor(value: Any) -> bool:
    return tf.is_tensor(value) or isinstance(value, tf.Variable)
