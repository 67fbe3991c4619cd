"""What `Estimator.predict` yields."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tf_condacc._typing import Nested


def chosen(predictions: Nested, keys: Collection[str] | None) -> Nested:
    """Those of the predictions that are wanted; all if `keys` is empty."""
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
    """The parts of a batch of predictions, one for each example."""
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
