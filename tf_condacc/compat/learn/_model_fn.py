"""What a `model_fn` is called with, and what it returns. Mirrors tf.contrib.learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import checked_hooks, checked_loss
from tf_condacc._typing import Nested, TensorLike
from tf_condacc.compat._estimator import estimator_module

_DEFAULT_SIGNATURE = v1.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class ModeKeys:
    """The names of the three modes. Mirrors ``tf.contrib.learn.ModeKeys``.

    The modes of ``tf.estimator`` have the same values.
    """

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"

    @classmethod
    def validate(cls, key: str) -> None:
        """Checks the name of a mode.

        Raises:
            ValueError: There is no such mode.
        """
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")


class ProblemType:
    """The kinds of outputs of a model. Mirrors ``tf.contrib.learn.ProblemType``."""

    UNSPECIFIED = 0
    CLASSIFICATION = 1
    LINEAR_REGRESSION = 2
    LOGISTIC_REGRESSION = 3


class PredictionKey:
    """The usual names of predictions. Mirrors ``tf.contrib.learn.PredictionKey``."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    TOP_K = "top_k"
    GENERIC = "output"


class _Fields(NamedTuple):
    predictions: Nested
    loss: tf.Tensor | None
    train_op: tf.Operation | None
    eval_metric_ops: dict[str, Any]
    output_alternatives: Mapping[str, tuple[int, Mapping[str, tf.Tensor]]] | None
    training_chief_hooks: Sequence[v1.train.SessionRunHook]
    training_hooks: Sequence[v1.train.SessionRunHook]
    scaffold: v1.train.Scaffold | None
    mode: str


class ModelFnOps(_Fields):
    """The result of a `model_fn`. Mirrors ``tf.contrib.learn.ModelFnOps``.

    Args:
        mode: One of `ModeKeys`.
        predictions: A tensor, or a dictionary of tensors. Required in modes EVAL and INFER.
        loss: The loss, a tensor of one element: `[] float`. Required in modes TRAIN and EVAL.
        train_op: The operation, or a tensor of it, that makes one step. Required in mode TRAIN.
        eval_metric_ops: A dictionary from names to pairs ``(value, update_op)``, or to values.
        output_alternatives: A dictionary from names to pairs of a `ProblemType` and a dictionary of
            tensors: the outputs of an exported model.
        training_chief_hooks: Hooks that the chief runs in training.
        training_hooks: Hooks that all workers run in training.
        scaffold: A ``tf.compat.v1.train.Scaffold`` for initialization and saving.

    Raises:
        ValueError: A value that the mode requires is missing, there is no such mode, the loss has
            more than one element, or `eval_metric_ops` is not a dictionary.
        TypeError: A hook is not a ``SessionRunHook``.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Nested = None,
        loss: TensorLike | None = None,
        train_op: tf.Operation | tf.Tensor | None = None,
        eval_metric_ops: dict[str, Any] | None = None,
        output_alternatives: Mapping[str, tuple[int, Mapping[str, tf.Tensor]]] | None = None,
        training_chief_hooks: Sequence[v1.train.SessionRunHook] | None = None,
        training_hooks: Sequence[v1.train.SessionRunHook] | None = None,
        scaffold: v1.train.Scaffold | None = None,
    ) -> ModelFnOps:
        ModeKeys.validate(mode)
        if train_op is None and mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        if train_op is not None and not isinstance(train_op, tf.Operation):
            train_op = tf.convert_to_tensor(train_op).op
        if predictions is None and mode != ModeKeys.TRAIN:
            raise ValueError("Missing predictions.")
        if eval_metric_ops is not None and not isinstance(eval_metric_ops, dict):
            raise ValueError(f"eval_metric_ops must be a dict; got {eval_metric_ops!r}.")
        checked_hooks([*(training_hooks or ()), *(training_chief_hooks or ())])
        return super().__new__(
            cls,
            _tensors(predictions),
            checked_loss(loss, mode),
            train_op,
            {} if eval_metric_ops is None else eval_metric_ops,
            output_alternatives,
            training_chief_hooks or [],
            training_hooks or [],
            scaffold,
            mode,
        )

    def estimator_spec(self, default_serving_output_alternative_key: str | None = None) -> Any:
        """Returns the ``tf.estimator.EstimatorSpec`` with the same contents.

        Args:
            default_serving_output_alternative_key: Which of several `output_alternatives` is the
                default signature of an exported model.

        Raises:
            ValueError: A problem type is unknown, or there are several `output_alternatives` and
                none of them has the given name.
        """
        estimator = estimator_module()
        metrics = self.eval_metric_ops
        return estimator.EstimatorSpec(
            mode=self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops={key: _pair(each) for key, each in metrics.items() if key != "loss"},
            export_outputs=self._export_outputs(estimator, default_serving_output_alternative_key),
            training_chief_hooks=self.training_chief_hooks,
            training_hooks=self.training_hooks,
            scaffold=self.scaffold,
        )

    def _export_outputs(self, estimator: Any, default: str | None) -> dict[str, Any] | None:
        alternatives = dict(self.output_alternatives or {})
        if len(alternatives) > 1 and _DEFAULT_SIGNATURE not in alternatives:
            if self.mode != ModeKeys.INFER and default is None:
                return None
            if default not in alternatives:
                raise ValueError(
                    "Please specify a default_output_alternative. Available output_alternatives "
                    f"are: {sorted(alternatives)}; got {default!r}."
                )
            alternatives[_DEFAULT_SIGNATURE] = alternatives[default]
        outputs = {
            name: _export_output(estimator.export, problem_type, tensors)
            for name, (problem_type, tensors) in alternatives.items()
        }
        return outputs or None


def _tensors(predictions: Nested) -> Nested:
    """Converts predictions to tensors, apart from sparse ones."""
    if isinstance(predictions, Mapping):
        return {name: _tensors(value) for name, value in predictions.items()}
    is_tensor = predictions is None or isinstance(predictions, tf.SparseTensor)
    return predictions if is_tensor else tf.convert_to_tensor(predictions)


def _pair(metric: Any) -> tuple[Any, Any]:
    """Returns a metric as ``tf.estimator`` takes it, with an update."""
    if isinstance(metric, (list, tuple)) and len(metric) == 2:
        return tuple(metric)
    return tf.convert_to_tensor(metric), tf.no_op()


def _export_output(export: Any, problem_type: int, tensors: Mapping[str, tf.Tensor]) -> Any:
    scores = tensors.get(PredictionKey.SCORES, tensors.get(PredictionKey.PROBABILITIES))
    if problem_type == ProblemType.UNSPECIFIED:
        return export.PredictOutput(dict(tensors))
    if problem_type == ProblemType.LINEAR_REGRESSION:
        return export.RegressionOutput(scores if len(tensors) > 1 else next(iter(tensors.values())))
    if problem_type in (ProblemType.CLASSIFICATION, ProblemType.LOGISTIC_REGRESSION):
        classes = tensors.get(PredictionKey.CLASSES)
        if classes is not None and classes.dtype != tf.string:  # Only names can be served.
            classes = None
        return export.ClassificationOutput(scores, classes)
    raise ValueError(f"Unknown problem_type={problem_type}")
