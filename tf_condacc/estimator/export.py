"""What a model exports, and what an exported model is fed.

Mirrors ``tf.estimator.export``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from tf_condacc._typing import Nested

v1 = tf.compat.v1

# A tensor, or a dictionary of tensors by their names.
Tensors: TypeAlias = tf.Tensor | Mapping[str, tf.Tensor]
SignatureDef: TypeAlias = Any  # A ``SignatureDef`` proto of a SavedModel.


class ExportOutput:
    """One signature of an exported model. Mirrors ``tf.estimator.export.ExportOutput``."""

    def as_signature_def(self, receiver_tensors: Tensors) -> SignatureDef:
        """Makes the SignatureDef.

        Args:
            receiver_tensors: A tensor or a dictionary of tensors: what the model is fed.
        """
        raise NotImplementedError


class ClassificationOutput(ExportOutput):
    """Scores or classes or both. Mirrors ``tf.estimator.export.ClassificationOutput``.

    Args:
        scores: Float tensor, a score for each class.
        classes: String tensor.

    Raises:
        ValueError: Neither is given, or one is of another dtype.
    """

    def __init__(self, scores: tf.Tensor | None = None, classes: tf.Tensor | None = None) -> None:
        if scores is not None and not (tf.is_tensor(scores) and scores.dtype.is_floating):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (tf.is_tensor(classes) and classes.dtype == tf.string):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        self._scores = scores
        self._classes = classes

    @property
    def scores(self) -> tf.Tensor | None:
        """A score for each class, or None."""
        return self._scores

    @property
    def classes(self) -> tf.Tensor | None:
        """The classes, or None."""
        return self._classes

    def as_signature_def(self, receiver_tensors: Tensors) -> SignatureDef:
        """Makes the SignatureDef; the model must be fed one string tensor of examples."""
        examples = _only_examples(receiver_tensors, "Classification")
        return v1.saved_model.classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """A value. Mirrors ``tf.estimator.export.RegressionOutput``.

    Args:
        value: Float tensor.

    Raises:
        ValueError: It is of another dtype.
    """

    def __init__(self, value: tf.Tensor) -> None:
        if not (tf.is_tensor(value) and value.dtype.is_floating):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self._value = value

    @property
    def value(self) -> tf.Tensor:
        """The value."""
        return self._value

    def as_signature_def(self, receiver_tensors: Tensors) -> SignatureDef:
        """Makes the SignatureDef; the model must be fed one string tensor of examples."""
        examples = _only_examples(receiver_tensors, "Regression")
        return v1.saved_model.regression_signature_def(examples, self.value)


class PredictOutput(ExportOutput):
    """Any tensors. Mirrors ``tf.estimator.export.PredictOutput``.

    Args:
        outputs: A dictionary of tensors, or one tensor, which is then called "output".

    Raises:
        ValueError: A key is no string or a value no tensor.
    """

    def __init__(self, outputs: Tensors) -> None:
        self._outputs = _as_dict(outputs, "output")
        for key, value in self._outputs.items():
            if not isinstance(key, str):
                raise ValueError(f"Prediction output key must be a string; got {key}.")
            if not tf.is_tensor(value):
                raise ValueError(f"Prediction output value must be a Tensor; got {value}.")

    @property
    def outputs(self) -> dict[str, tf.Tensor]:
        """The tensors by their names."""
        return self._outputs

    def as_signature_def(self, receiver_tensors: Tensors) -> SignatureDef:
        """Makes the SignatureDef."""
        return v1.saved_model.predict_signature_def(
            _as_dict(receiver_tensors, "input"), self.outputs
        )


class ServingInputReceiver(NamedTuple):
    """What an exported model is fed. Mirrors ``tf.estimator.export.ServingInputReceiver``.

    Attributes:
        features: What the `model_fn` gets.
        receiver_tensors: A placeholder, or a dictionary of them: what is fed.
        receiver_tensors_alternatives: More such dictionaries, by names that are added to those of
            the signatures.
    """

    features: Nested
    receiver_tensors: Tensors
    receiver_tensors_alternatives: Mapping[str, Tensors] | None = None


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, tf.Tensor], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that makes a ServingInputReceiver whose placeholders are the features themselves.

    Mirrors ``tf.estimator.export.build_raw_serving_input_receiver_fn``.

    Args:
        features: A dictionary of tensors, whose shapes and dtypes the placeholders get.
        default_batch_size: Their first dimension; unknown if None.
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
    """A function that makes a ServingInputReceiver fed with serialized ``tf.train.Example`` protos.

    Mirrors ``tf.estimator.export.build_parsing_serving_input_receiver_fn``.

    Args:
        feature_spec: As of ``tf.io.parse_example``.
        default_batch_size: Number of examples; unknown if None.
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
