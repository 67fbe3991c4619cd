"""The predictions of a model, by batches and by examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

# The types of the operations of inputs that end begin with these.
_INPUTS_THAT_END = ("Iterator", "OneShotIterator", "QueueDequeue", "ReaderRead")


def batches_of(
    core: Any, input_fn: Callable[[], Any], outputs: Collection[str] | None
) -> Generator[Any, None, None]:
    """Yields the predictions of each batch.

    An input of constant tensors, which never ends, has one batch.

    Args:
        core: An Estimator of ``tf.estimator``.
        input_fn: Function that returns the input.
        outputs: Names of the predictions to yield; all predictions if None.
    """
    is_constant = False

    def noting_input_fn() -> Any:
        nonlocal is_constant
        result = input_fn()
        is_constant = not isinstance(result, (tf.data.Dataset, v1.data.Dataset)) and not any(
            operation.type.startswith(_INPUTS_THAT_END)
            for operation in v1.get_default_graph().get_operations()
        )
        return result

    for batch in core.predict(noting_input_fn, predict_keys=outputs, yield_single_examples=False):
        yield batch
        if is_constant:
            return


def examples_of(batches: Iterator[Any]) -> Iterator[Any]:
    """Yields the predictions of each example.

    Args:
        batches: Arrays `[n, …]`, or dictionaries of such arrays.
    """
    for batch in batches:
        if not isinstance(batch, Mapping):
            yield from batch
            continue
        for row in range(len(next(iter(batch.values()), ()))):
            yield {name: value[row] for name, value in batch.items()}
