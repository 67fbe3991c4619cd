"""Weights of micro-batches, which depend on the reduction of the loss."""

from __future__ import annotations

import inspect
import math
from typing import Any

import keras
import tensorflow as tf

from condacc import versions

# Keras divides a loss by the number of samples unless its reduction is one of these.
_SUMS = ("sum", "none", None)
_DEFAULT = "sum_over_batch_size"


def reductions_of(model: keras.Model) -> list[Any]:
    """Returns the reduction of each loss that the model was compiled with."""
    losses = keras.tree.flatten(vars(model).get("loss"))
    return [getattr(loss, "reduction", _DEFAULT) for loss in losses if loss is not None]


def reduction_type_of(model: keras.Model, title: str) -> str:
    """Returns how the gradients of micro-batches become those of one batch: "MEAN" or "SUM".

    Raises:
        ValueError: Some losses are sums over the samples, and others are means.
    """
    are_sums = {reduction in _SUMS for reduction in reductions_of(model)}
    if len(are_sums) == 2:
        raise ValueError(
            f"{title}: the losses have the reductions {reductions_of(model)}. Gradients of sums "
            "over the samples are added and those of means are averaged, so all losses must be "
            "of one kind."
        )
    return "SUM" if are_sums == {True} else "MEAN"


def check_added_losses(model: keras.Model, title: str) -> None:
    """Raises a ValueError if a model has added losses beside one that is a sum over the samples."""
    if set(reductions_of(model)) & set(_SUMS) and model.losses:
        raise ValueError(
            f"{title}: a loss has the reduction 'sum' and the model has added losses, such as "
            "those of regularizers, which would be added once for each micro-batch. Use the "
            "reduction 'sum_over_batch_size'."
        )


def check_activity_regularizers(model: keras.Model, title: str, is_counted: bool) -> None:
    """Checks that no weight of micro-batches is wrong for the losses of activity regularizers.

    Args:
        model: A compiled model.
        title: How error messages begin.
        is_counted: Whether the model's loss is divided by something else than the number of
            samples.

    Raises:
        ValueError: It is wrong, and a layer has an activity regularizer.
    """
    are_sums = versions.sums_activity_losses()
    names = [
        layer.name
        for layer in (model._flatten_layers() if are_sums or is_counted else ())
        if getattr(layer, "activity_regularizer", None) is not None
    ]
    if names and are_sums:
        raise ValueError(
            f"{title}: before version 3.14, Keras adds up the losses of activity regularizers over "
            f"the samples, and those of the layers {names} would count less in micro-batches than "
            "in one batch. Update Keras, which needs Python 3.11 for it, or leave out the activity "
            "regularizers."
        )
    if names:
        raise ValueError(
            f"{title}: the activity regularizers of the layers {names} are divided by the number "
            "of samples, but the loss by the entries that a mask keeps or, with the reduction "
            "'mean_with_sample_weight', by the sum of the sample weights. No weight of a "
            "micro-batch fits both. Leave out the activity regularizers, or the mask and this "
            "reduction."
        )


def has_own_losses(model: keras.Model, has_compiled_loss: bool) -> bool:
    """Returns whether a step of a model has had losses that may be sums over the samples.

    These are those of add_loss, unless they are of activity regularizers, and that of a
    compute_loss which has not called the compiled loss and does not name Keras' own method.
    """
    overrides = [
        inspect.unwrap(vars(kind)["compute_loss"])
        for kind in type(model).__mro__
        if "compute_loss" in vars(kind) and not kind.__module__.startswith("keras.")
    ]
    names = [each.__code__.co_names for each in overrides if hasattr(each, "__code__")]
    if not has_compiled_loss and not all("compute_loss" in each for each in names):
        return True
    return any(
        layer.activity_regularizer is None and layer._get_own_losses()
        for layer in model._flatten_layers()
    )


def first_dimensions_of(data: Any) -> list[tf.Tensor]:
    """Returns the first dimension of the targets or, without targets, of all inputs: `[] int32`.

    The first one is taken for the number of samples. Scalars are left out, so there may be none.

    Args:
        data: What `train_step` gets.
    """
    if isinstance(data, tuple) and len(data) > 3:  # Only a train_step of the program's takes it.
        x, y = data, None
    else:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
    parts = [
        part
        for whole in keras.tree.flatten(x if y is None else y)
        # Ragged and sparse tensors stay whole.
        for part in tf.nest.flatten(
            whole, expand_composites=isinstance(whole, tf.experimental.ExtensionType)
        )
    ]
    sizes = [
        tf.shape(part)[0]
        for part in parts
        if part is not None and tf.TensorShape(part.shape).rank != 0
    ]
    return sizes if y is None else sizes[:1]


def losses_of(model: keras.Model) -> list[keras.losses.Loss]:
    """Returns the losses of a compiled model, if they are made and Keras tells."""
    compiled = model._compile_loss
    # A list of losses until Keras 3.6, and of tuples that contain them since.
    parts = getattr(compiled, "_flat_losses", None) or getattr(compiled, "flat_losses", None)
    return [each for each in keras.tree.flatten(parts or ()) if isinstance(each, keras.losses.Loss)]


def num_counted_of(model: keras.Model, outputs: Any, sample_weight: Any) -> tf.Tensor | None:
    """Returns the divisor of a loss, or None if it is the number of its values.

    A mask leaves entries out, and "mean_with_sample_weight" divides by the sum of the weights.
    Several outputs have a divisor each, so None is returned for them, too.

    Args:
        model: A compiled model.
        outputs: What the model has returned.
        sample_weight: The samples' weights, or None.
    """
    outputs, reductions = keras.tree.flatten(outputs), reductions_of(model)
    if len(outputs) != 1 or len(reductions) != 1:
        return None
    mask = getattr(outputs[0], "_keras_mask", None)
    weights = sample_weight if reductions[0] == "mean_with_sample_weight" else None
    factors = [tf.cast(each, tf.float32) for each in (mask, weights) if each is not None]
    rank = max((len(factor.shape) for factor in factors), default=0)
    aligned = [
        tf.reshape(factor, tf.concat([tf.shape(factor), [1] * (rank - len(factor.shape))], 0))
        for factor in factors
    ]
    return tf.reduce_sum(math.prod(aligned)) if aligned else None
