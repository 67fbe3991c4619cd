"""A micro-batch of ``fit``: one call of `train_step` on one replica."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tf_condacc.keras import _weights
from tf_condacc.keras._calls import Calls, with_outer
from tf_condacc.keras._options import Options


class Step:
    """A micro-batch, its weight, and the calls of optimizers in it.

    Args:
        options: What the accumulation was asked for.
        data: What `train_step` gets.

    Attributes:
        title: What error messages call the accumulation.
        calls: The calls of optimizers.
        values: What a loss of the model has returned last, before it is reduced.
    """

    def __init__(self, options: Options, data: Any) -> None:
        self.title = options.title
        self.calls = Calls(options.title)
        self.values: Any = None
        self._options = options
        self._has_compiled_loss = False
        self._sizes = _weights.first_dimensions_of(data)
        self._divisor: Any = None  # By what the loss is divided, if it is known.
        if options.weight is not None:
            # Keras keeps AutoGraph from converting what it calls, but a tf.function converts.
            of_batch = options.weight if tf.executing_eagerly() else tf.function(options.weight)
            weight = of_batch(*keras.utils.unpack_x_y_sample_weight(data))
            self._divisor = tf.convert_to_tensor(weight)

    def call_loss(
        self, call: Callable[..., Any], y_true: Any, y_pred: Any, sample_weight: Any
    ) -> Any:
        """Calls the loss that the model was compiled with, and records by what Keras divides it.

        A `compute_loss` that does not call it is weighted by the number of samples, and so are
        several losses.
        """
        model = self._options.model
        counted = _weights.num_counted_of(model, y_pred, sample_weight)
        _weights.check_added_losses(model, self.title)
        _weights.check_activity_regularizers(model, self.title, counted is not None)
        self._has_compiled_loss = True
        self.values = None
        result = call(y_true, y_pred, sample_weight)
        if self._options.weight is None:
            has_several = len(_weights.losses_of(model)) > 1
            self._divisor = None if has_several else self._num_values(counted)
        return result

    def reduction_type(self) -> str:
        """Returns how the gradients of micro-batches become those of one batch."""
        model = self._options.model
        reduction_type = _weights.reduction_type_of(model, self.title)
        if self._options.weight is not None or not self._has_compiled_loss:
            return "MEAN"  # The program divides the loss itself.
        if reduction_type == "SUM" and "compute_loss" in vars(type(model)):
            self._options.warn_once(
                "%s: the loss has the reduction 'sum' or 'none', so gradients of micro-batches are "
                "added. If compute_loss of the model divides the loss, pass weight=, the number by "
                "which it does."
            )
        return reduction_type

    def weight(self) -> tf.Tensor | None:
        """Returns by what the loss is divided, or else the number of samples: `[]`."""
        divisor, here = self._divisor, tf.compat.v1.get_default_graph()
        if divisor is not None:
            if not tf.is_symbolic_tensor(divisor) or divisor.graph in with_outer(here):
                return divisor
            self._options.warn_once(
                "%s: the loss is computed in a function of its own, such as one for XLA, where its "
                "values cannot be counted. Micro-batches are weighted by their numbers of samples. "
                "If they have other lengths or masks, pass weight=."
            )
        if len(self._sizes) > 1:
            warn = functools.partial(
                self._options.warn_once,
                "%s: a batch without targets has parts with different first dimensions, so it is "
                "not known how many samples it has. That of the first part is taken, in the order "
                "of the keys of a dictionary. If the loss is divided by something else, pass "
                "weight=.",
            )
            are_equal = tf.reduce_all(tf.equal(self._sizes, self._sizes[0]))
            tf.cond(are_equal, tf.no_op, lambda: tf.numpy_function(warn, [], []))
        return tf.cast(self._sizes[0], tf.float32) if self._sizes else None

    def check_losses(self) -> None:
        """Warns, after `train_step`, of losses that may be sums over the samples."""
        if self._options.weight is None and _weights.has_own_losses(
            self._options.model, self._has_compiled_loss
        ):
            self._options.warn_once(
                "%s: the model has losses of add_loss, or a compute_loss that does not call Keras' "
                "own. They must be means over the samples of a batch, not sums: micro-batches are "
                "averaged by their numbers of samples, and weight= does not make a sum of them."
            )

    def _num_values(self, counted: tf.Tensor | None) -> tf.Tensor | None:
        """Returns by what Keras divides the values of the only loss, if that is known.

        Args:
            counted: The divisor that the mask and the weights of the samples make, or None.
        """
        shape = None if self.values is None else tf.TensorShape(self.values.shape)
        if shape is None or (counted is None and shape.rank == 0):
            what = "returns one number for all samples"
            if shape is None:
                what = "has a method __call__ of its own, or is not shown by this version of Keras"
            self._options.warn_once(
                f"%s: the loss function {what}, so it is not known by what it is divided. "
                "Micro-batches are weighted by their numbers of samples. If the loss is divided "
                "by something else, pass weight=."
            )
            return counted
        mask = getattr(self.values, "_keras_mask", None)
        if mask is None:
            return tf.cast(tf.size(self.values), tf.float32) if counted is None else counted
        # As with ignore_class: Keras divides by the values that the mask keeps.
        _weights.check_activity_regularizers(self._options.model, self.title, True)
        if counted is not None:
            raise ValueError(
                f"{self.title}: the loss leaves out values, as with ignore_class, and there is a "
                "mask, or the reduction 'mean_with_sample_weight'. Pass weight=, the number by "
                "which the loss is divided."
            )
        return tf.reduce_sum(tf.cast(mask, tf.float32))


def undecorated(train_step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that a ``tf.function`` is made of; in a graph, converted by AutoGraph.

    Its existing traces use the accumulators of an earlier accumulation, or none. And replicas
    cannot make an update together in a function of their own.
    """
    function = getattr(train_step, "python_function", None)
    if function is None:
        return train_step
    if tf.executing_eagerly():
        return function
    try:
        converted = tf.autograph.to_graph(function)
    except Exception:  # The source is unknown: AutoGraph has errors of many types.
        return function
    if inspect.ismethod(function):  # The converted function is not bound to the object any more.
        return functools.partial(converted, function.__self__)
    return converted
