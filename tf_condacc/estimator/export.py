"""The outputs of an exported model, and the inputs that it is fed with.

Mirrors ``tf.estimator.export``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._typing import Nested

__all__ = [
    "ClassificationOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
    "ServingInputReceiver",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
]

Tensors: TypeAlias = tf.Tensor | Mapping[str, tf.Tensor]
SignatureDef: TypeAlias = Any  # A ``SignatureDef`` proto of a SavedModel.


class ExportOutput(abc.ABC):
    """One signature of an exported model. Mirrors ``tf.estimator.export.ExportOutput``."""

    @abc.abstractmethod
    def as_signature_def(self, receiver_tensors: Tensors) -> SignatureDef:
        """Returns the SignatureDef of the output.

        Args:
            receiver_tensors: The tensors that the model is fed with, a tensor or a dictionary. For
                classes and predicted values, serialized examples alone: `[n] string`.

        Raises:
            ValueError: The output cannot be computed from such inputs.
        """


class ClassificationOutput(ExportOutput):
    """Scores, classes or both. Mirrors ``tf.estimator.export.ClassificationOutput``.

    Attributes:
        scores: Score of each class: `[n, …] float`, or None.
        classes: Names of the classes: `[n, …] string`, or None.

    Raises:
        ValueError: Neither is given, or one has another dtype.
    """

    def __init__(self, scores: tf.Tensor | None = None, classes: tf.Tensor | None = None) -> None:
        if scores is not None and not (tf.is_tensor(scores) and scores.dtype.is_floating):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (tf.is_tensor(classes) and classes.dtype == tf.string):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        self.scores, self.classes = scores, classes

    def as_signature_def(self, receiver_tensors: Tensors) -> SignatureDef:
        examples = _only_examples(receiver_tensors, "Classification")
        return v1.saved_model.classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """A predicted value. Mirrors ``tf.estimator.export.RegressionOutput``.

    Attributes:
        value: The predicted value of each example: `[n, …] float`.

    Raises:
        ValueError: `value` has another dtype.
    """

    def __init__(self, value: tf.Tensor) -> None:
        if not (tf.is_tensor(value) and value.dtype.is_floating):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self.value = value

    def as_signature_def(self, receiver_tensors: Tensors) -> SignatureDef:
        examples = _only_examples(receiver_tensors, "Regression")
        return v1.saved_model.regression_signature_def(examples, self.value)


class PredictOutput(ExportOutput):
    """Outputs of any kind. Mirrors ``tf.estimator.export.PredictOutput``.

    Args:
        outputs: A dictionary from names to tensors, or one tensor, which gets the name "output".

    Attributes:
        outputs: The dictionary.

    Raises:
        ValueError: A key is not a string, or a value is not a tensor.
    """

    def __init__(self, outputs: Tensors) -> None:
        self.outputs = _as_dict(outputs, "output")
        for key, value in self.outputs.items():
            if not isinstance(key, str):
                raise ValueError(f"Prediction output key must be a string; got {key}.")
            if not tf.is_tensor(value):
                raise ValueError(f"Prediction output value must be a Tensor; got {value}.")

    def as_signature_def(self, receiver_tensors: Tensors) -> SignatureDef:
        return v1.saved_model.predict_signature_def(
            _as_dict(receiver_tensors, "input"), self.outputs
        )


class ServingInputReceiver(NamedTuple):
    """The inputs of an exported model. Mirrors ``tf.estimator.export.ServingInputReceiver``.

    Attributes:
        features: The features that the `model_fn` is called with.
        receiver_tensors: The placeholders that are fed, one or a dictionary of them.
        receiver_tensors_alternatives: Further ways to feed the model: dictionaries of tensors, by
            names that are added to the names of the signatures.
    """

    features: Nested
    receiver_tensors: Tensors
    receiver_tensors_alternatives: Mapping[str, Tensors] | None = None


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, tf.Tensor], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Returns a function that makes a ServingInputReceiver for models fed with the features.

    Mirrors ``tf.estimator.export.build_raw_serving_input_receiver_fn``.

    Args:
        features: A dictionary from names to tensors `[n, …]`. The placeholders get their dtypes
            and, apart from the first dimension, their shapes.
        default_batch_size: First dimension of the placeholders; None if unknown.
    """
    specs = {
        name: (tensor.dtype, [default_batch_size, *tensor.shape[1:]])
        for name, tensor in features.items()
    }

    def serving_input_receiver_fn() -> ServingInputReceiver:
        placeholders = {
            name: v1.placeholder(dtype, shape, name=name) for name, (dtype, shape) in specs.items()
        }
        return ServingInputReceiver(placeholders, placeholders)

    return serving_input_receiver_fn


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Returns a function that makes a ServingInputReceiver for models fed with serialized examples.

    Mirrors ``tf.estimator.export.build_parsing_serving_input_receiver_fn``. The model is fed with
    serialized ``tf.train.Example`` protos: `[n] string`.

    Args:
        feature_spec: The features to parse, as ``tf.io.parse_example`` takes them.
        default_batch_size: Number of examples; None if unknown.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        examples = v1.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        features = tf.io.parse_example(examples, feature_spec)
        return ServingInputReceiver(features, {"examples": examples})

    return serving_input_receiver_fn


def _as_dict(tensors: Tensors, name: str) -> dict[str, tf.Tensor]:
    return dict(tensors) if isinstance(tensors, Mapping) else {name: tensors}


def _only_examples(receiver_tensors: Tensors, kind: str) -> tf.Tensor:
    tensors = list(_as_dict(receiver_tensors, "examples").values())
    if len(tensors) != 1 or tensors[0].dtype != tf.string:
        raise ValueError(f"{kind} input must be a single string Tensor; got {receiver_tensors}")
    return tensors[0]
