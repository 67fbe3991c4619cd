"""The values that `Estimator.predict` yields."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tf_condacc._typing import Nested


def chosen(predictions: Nested, keys: Collection[str] | None) -> Nested:
    """Returns the predictions with the given keys, or all predictions if there are no keys.

    Raises:
        ValueError: No prediction has one of the keys.
    """
    if not keys:
        return predictions
    chosen = (
        {key: value for key, value in predictions.items() if key in keys}
        if isinstance(predictions, Mapping)
        else {}
    )
    if not chosen:
        raise ValueError(
            f"Expected to run at least one output from {predictions}, provided {keys}."
        )
    return chosen


def examples(batch: Any) -> list[Any]:
    """Splits a batch of predictions into those of its examples.

    Args:
        batch: An array `[n, …]`, or a dictionary of such arrays.

    Raises:
        ValueError: A value is not an array with a first dimension, or the first dimensions differ.
    """
    if not isinstance(batch, Mapping):
        _check_has_examples("predictions", batch)
        return list(batch)
    for key, value in batch.items():
        _check_has_examples(key, value)
    lengths = {key: len(value) for key, value in batch.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Batch length of predictions should be same. Got {lengths}.")
    length = next(iter(lengths.values()), 0)
    return [{key: value[i] for key, value in batch.items()} for i in range(length)]


def _check_has_examples(name: str, value: Any) -> None:
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        raise ValueError(
            "Expected a dense batch of predictions to yield one by one, got a "
            f"{type(value).__name__} as {name!r}. With yield_single_examples=False whole batches "
            "of any kind are yielded."
        )
