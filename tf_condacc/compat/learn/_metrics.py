"""Metrics that are given to an evaluation. Mirrors ``tf.contrib.learn.MetricSpec``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tf_condacc._model_fn import argument_names
from tf_condacc._typing import Nested

# The names that the arguments of a metric may have.
_LABELS = frozenset(("labels", "label", "targets", "target"))
_PREDICTIONS = frozenset(("predictions", "prediction", "logits", "logit"))
_WEIGHTS = frozenset(("weights", "weight"))


class MetricSpec:
    """A metric of predictions and labels. Mirrors ``tf.contrib.learn.MetricSpec``.

    Args:
        metric_fn: Function of labels, predictions and perhaps weights, such as one of
            ``tf.compat.v1.metrics``. Its arguments are found by their names; an argument for
            predictions may have any name. Returns a pair ``(value, update_op)``, or a value.
        prediction_key: Name of the prediction, if the predictions are a dictionary of several.
        label_key: Name of the labels, if the labels are a dictionary of several.
        weight_key: Name of the feature with the weights, if any. The keys are attributes, too.

    Raises:
        ValueError: `metric_fn` has two arguments for the same, or none for labels or weights
            although `label_key` or `weight_key` is given.
    """

    def __init__(
        self,
        metric_fn: Callable[..., Any],
        prediction_key: str | None = None,
        label_key: str | None = None,
        weight_key: str | None = None,
    ) -> None:
        self._function = metric_fn
        self._labels = _argument(metric_fn, _LABELS, label_key is not None)
        self._predictions = _argument(metric_fn, _PREDICTIONS, False)
        self._weights = _argument(metric_fn, _WEIGHTS, weight_key is not None)
        self.prediction_key = prediction_key
        self.label_key, self.weight_key = label_key, weight_key

    def metric_fn(
        self,
        labels: tf.Tensor | None = None,
        predictions: tf.Tensor | None = None,
        weights: tf.Tensor | None = None,
    ) -> Any:
        """Calls the metric.

        Args:
            labels: The labels: `[n, …]`.
            predictions: The predictions: `[n, …]`.
            weights: The weights of the examples: `[n]` or `[n, …]`, or None.

        Returns:
            A pair ``(value, update_op)`` or a value, as the function returns it.
        """
        named = {self._labels: labels} if self._labels else {}
        if weights is not None and self._weights:
            named[self._weights] = weights
        if self._predictions:
            return self._function(**named, **{self._predictions: predictions})
        if (
            self._labels
            and next(iter(inspect.signature(self._function).parameters)) == self._labels
        ):
            return self._function(named.pop(self._labels), predictions, **named)
        return self._function(predictions, **named)

    def create_metric_ops(self, inputs: Nested, labels: Nested, predictions: Nested) -> Any:
        """Calls the metric with the predictions, labels and weights that it is for.

        Args:
            inputs: The features, a tensor or a dictionary.
            labels: The labels, a tensor or a dictionary.
            predictions: The predictions, a tensor or a dictionary.

        Raises:
            ValueError: A name is given and there is no dictionary, or there is a dictionary of
                several tensors and no name is given.
            KeyError: A dictionary does not have the name.
        """
        prediction = _one_of(predictions, "prediction", self.prediction_key)
        label = _one_of(labels, "label", self.label_key)
        weights = None
        if self.weight_key is not None:
            weights = _one_of(inputs, "weight", self.weight_key)
        return self.metric_fn(labels=label, predictions=prediction, weights=weights)

    def __str__(self) -> str:
        name = getattr(self._function, "__name__", str(self._function))
        return (
            f"MetricSpec(metric_fn={name}, prediction_key={self.prediction_key}, "
            f"label_key={self.label_key}, weight_key={self.weight_key})"
        )


def metric_ops(
    metrics: Mapping[Any, Any], features: Nested, labels: Nested, predictions: Nested
) -> dict[str, Any]:
    """Returns the results of metrics by their names.

    Args:
        metrics: `MetricSpec` objects by their names; or functions of predictions and labels, by
            names or by pairs of a name and that of a prediction.
        features: The features, a tensor or a dictionary.
        labels: The labels, a tensor or a dictionary.
        predictions: The predictions, a tensor or a dictionary.

    Raises:
        ValueError: A metric does not say which of several predictions it is for.
    """
    found = {}
    for key, metric in sorted(metrics.items(), key=str):
        name, prediction_key = key if isinstance(key, tuple) else (key, None)
        if isinstance(metric, MetricSpec):
            found[name] = metric.create_metric_ops(features, labels, predictions)
            continue
        if prediction_key is None and isinstance(predictions, Mapping):
            raise ValueError(
                f"The metric {name!r} must say which prediction it is for, as "
                f"({name!r}, PREDICTION) or as a MetricSpec; got the predictions "
                f"{sorted(predictions)}."
            )
        label_key = (
            prediction_key
            if isinstance(labels, Mapping) and prediction_key in labels and len(labels) > 1
            else None
        )
        found[name] = metric(
            _one_of(predictions, "prediction", prediction_key), _one_of(labels, "label", label_key)
        )
    return found


def _argument(function: Callable[..., Any], names: frozenset[str], is_required: bool) -> str | None:
    """Returns which of the names an argument of a function has, or None."""
    found = sorted(names & argument_names(function))
    if len(found) > 1:
        raise ValueError(f"Ambiguous arguments {found}, must provide only one of {sorted(names)}.")
    if is_required and not found:
        raise ValueError(
            f"{sorted(names)} missing from the arguments of {function}: {argument_names(function)}."
        )
    return found[0] if found else None


def _one_of(tensors: Nested, kind: str, key: str | None) -> Any:
    """Returns the tensor of a name in a dictionary, or the only tensor if there is no name."""
    if not isinstance(tensors, Mapping):
        if key is not None:
            raise ValueError(
                f"MetricSpec with {kind}_key specified requires {kind}s dict, got {tensors}. You "
                f"must not provide a {kind}_key if you only have a single Tensor as {kind}s."
            )
        return tensors
    if key is not None:
        if key not in tensors:
            raise KeyError(f"Key {key!r} missing from {sorted(tensors)}.")
        return tensors[key]
    if len(tensors) != 1:
        raise ValueError(
            f"MetricSpec without specified {kind}_key requires {kind}s tensor or single element "
            f"dict, got {dict(tensors)}"
        )
    return next(iter(tensors.values()))
