"""What is observed of optimizers: the gradients that wrapped ones get, and state of replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc.parity._difference import ratio_of
from tf_condacc.parity._training import Training


def _parts(optimizer: Any) -> Iterator[Any]:
    """Yields the optimizers and the variables that are attributes of an optimizer, and itself."""
    seen: dict[int, Any] = {}  # Keeps the objects, so that their ids stay theirs.
    left = [optimizer]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, Mapping):
            left.extend(each.values())
        elif isinstance(each, (list, tuple)):
            left.extend(each)
        elif isinstance(_variable(each), tf.Variable):
            yield _variable(each)
        elif hasattr(each, "apply_gradients"):
            yield each
            left.extend(getattr(each, "__dict__", {}).values())


def _variable(each: Any) -> Any:
    """Returns the ``tf.Variable`` of a variable of Keras 3, and anything else as it is."""
    value = None if isinstance(each, tf.Variable) else getattr(each, "value", None)
    return value if isinstance(value, tf.Variable) else each


def build(optimizer: Any, variables: Any) -> None:
    """Has an optimizer make its variables, if it has a method for that."""
    if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(variables)


def unequal_state(optimizer: Any) -> list[str]:
    """Returns a sentence about each variable of an optimizer that differs between replicas."""
    found = []
    for each in _parts(optimizer):
        values = getattr(each, "values", None) if isinstance(each, tf.Variable) else None
        if isinstance(values, tuple) and len({value.numpy().tobytes() for value in values}) > 1:
            found.append(f"the variable {each.name} of the optimizer differs between replicas.")
    return list(dict.fromkeys(found))


def examine_rows(training: Training) -> list[str]:
    """Returns sentences about rows that an optimizer loses, repeats or makes dense.

    The first step runs eagerly, on the CPU, and the gradients are recorded that reach the
    optimizers which this one wraps.
    """
    with tf.device("/CPU:0"):
        model, optimizer = training.new_model(), training.optimizer()
        build(optimizer, model.variables)
        found: dict[int, tuple[str, Any]] = {}
        for each in list(_parts(optimizer)):
            if each is not optimizer and not isinstance(each, tf.Variable):
                _record(each, model.variables, found)
        given = training.gradients(model, *next(iter(training.batches)))
        optimizer.apply_gradients(given)
    remarks = []
    for gradient, variable in given:
        name, got = found.get(id(_variable(variable)), ("", None))
        if isinstance(gradient, tf.IndexedSlices) and (fault := _fault(gradient, got)):
            remarks.append(
                f"The optimizer gets {_described(gradient)} of {_variable(variable).name}, and "
                f"{name}, which it wraps, gets {_described(got)}: {fault}."
            )
    return remarks


def _record(optimizer: Any, variables: list[Any], found: dict[int, tuple[str, Any]]) -> None:
    """Makes an optimizer record the gradients that it is given."""
    is_apply = hasattr(optimizer, "apply")  # That of Keras 3, with separate lists.
    method = "apply" if is_apply else "apply_gradients"
    original: Callable[..., Any] = getattr(optimizer, method)

    def recording(gradients: Any, *arguments: Any, **options: Any) -> Any:
        gradients = list(gradients)
        pairs = gradients
        if is_apply:
            given = arguments[0] if arguments else options.get("trainable_variables")
            pairs = list(zip(gradients, given or variables, strict=False))
        for gradient, variable in pairs:
            found[id(_variable(variable))] = (type(optimizer).__name__, gradient)
        return original(gradients, *arguments, **options)

    object.__setattr__(optimizer, method, recording)


def _fault(given: tf.IndexedSlices, got: Any) -> str:
    """Returns what was done to the rows of a gradient, or "" if nothing or it is not known."""
    if got is None or not hasattr(getattr(got, "values", got), "numpy"):
        return ""  # In a function, the rows have no values.
    if not isinstance(got, tf.IndexedSlices):
        return "it is made dense"
    before, after = given.indices.numpy(), got.indices.numpy()
    if set(before) - set(after):
        return "rows are lost"
    if len(after) > len(before):
        return "rows are repeated"
    sums = [tf.convert_to_tensor(each).numpy().astype(np.float64) for each in (got, given)]
    is_scaled = all(
        ratio_of(*pair) is not None for pair in zip(*(each[after] for each in sums), strict=True)
    )
    return "" if len(after) == len(before) or is_scaled else "rows that are repeated are lost"


def _described(gradient: Any) -> str:
    """Returns the kind of a gradient, its number of rows and its size in memory."""
    if isinstance(gradient, tf.IndexedSlices):
        rows = gradient.indices.numpy()
        size = gradient.values.numpy().nbytes + rows.nbytes
        return f"a sparse gradient of {len(rows)} rows, {len(set(rows))} different ({size} bytes)"
    return f"a dense gradient of {len(gradient)} rows ({gradient.numpy().nbytes} bytes)"
