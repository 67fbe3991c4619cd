"""How the gradients of the parts of a batch relate to the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_condacc._typing import Nested
from tf_condacc.parity import _batches
from tf_condacc.parity._difference import ratio_of
from tf_condacc.parity._training import Training

# A gradient may be a sum of parts that cancel. Below this fraction of them it is only roundoff.
_ROUNDOFF = 1e-4


class Parts(NamedTuple):
    """What was found by computing the gradients of parts of one batch, without any setup.

    Attributes:
        ratios: For each number of parts, the mean of their gradients divided by the gradient of the
            batch: 1 if the loss is a mean over examples, and one divided by the number of parts if
            it is a sum. None if they are not proportional. Numbers for which nothing can be said,
            because a gradient is not finite or nearly zero, are left out.
        clips: Whether the optimizer would clip the gradient of the batch or of a part.
    """

    ratios: Mapping[int, float | None]
    clips: bool


def examine(
    training: Training, weights: Sequence[np.ndarray], step: int, numbers: Collection[int]
) -> Parts:
    """Computes the gradients of a batch and of its parts with the same weights, on the CPU.

    Args:
        training: The training.
        weights: The values of the trainable variables.
        step: Number of the step whose batch is used, from 1 on.
        numbers: Numbers of parts. Those that do not divide the batch are left out. If all are 1,
            the batch is divided into as few parts as possible.
    """
    batch = list(training.batches)[step - 1]
    size = _batches.size(batch)
    wanted = set(numbers) - {1} or {next((n for n in range(2, size) if size % n == 0), size)}
    with tf.device("/CPU:0"):
        model = training.new_model()
        for variable, value in zip(model.variables, weights, strict=True):
            variable.assign(value)

        @tf.function
        def dense(features: Nested, labels: Nested) -> list[tf.Tensor]:
            pairs = training.gradients(model, features, labels)
            return [tf.convert_to_tensor(gradient) for gradient, _ in pairs]

        def gradients(features: Nested, labels: Nested) -> list[np.ndarray]:
            return [each.numpy().astype(np.float64) for each in dense(features, labels)]

        whole = gradients(*batch)
        clips, ratios = _clips(training, whole), {}
        for number in sorted(each for each in wanted if each > 1 and size % each == 0):
            parts = [gradients(*part) for part in _batches.split(*batch, number, "parts")]
            clips |= any(_clips(training, part) for part in parts)
            flat = np.stack([_flat(part) for part in parts])
            if _is_telling(flat, _flat(whole)):
                ratios[number] = ratio_of(np.mean(flat, axis=0), _flat(whole))
    return Parts(ratios, clips)


def _is_telling(parts: np.ndarray, whole: np.ndarray) -> bool:
    """Returns whether the gradients are finite, and that of the batch is more than roundoff."""
    if not (np.isfinite(parts).all() and np.isfinite(whole).all()):
        return False
    return bool(np.linalg.norm(whole) > _ROUNDOFF * np.linalg.norm(parts))


def _flat(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([value.ravel() for value in values])


def _clips(training: Training, gradients: Sequence[np.ndarray]) -> bool:
    """Returns whether the optimizer would change any of the gradients by clipping it."""
    limits = {name: limit for name, limit in training.clipping.items()}
    norms = [float(np.linalg.norm(each)) for each in gradients]
    reached = {
        "clipnorm": max(norms),
        "global_clipnorm": float(np.linalg.norm(norms)),
        "clipvalue": max(float(np.max(np.abs(each), initial=0.0)) for each in gradients),
    }
    return any(reached[name] > limit for name, limit in limits.items())
