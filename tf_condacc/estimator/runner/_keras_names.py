"""Automatic names of Keras layers that are the same in every graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# The state that Keras 3 keeps for each thread. Keras has no public way to put it back.
_MODULE = "keras.src.backend.common.global_state"
# The parts of it that are of use in one graph only: how many objects have been given each automatic
# name, and the generator of ``keras.random``, which holds a variable.
_FRESH = {"object_name_uids": None, "global_seed_generator": None}


@contextmanager
def fresh() -> Iterator[None]:
    """Lets Keras 3 name the layers of the body as if it had not named any before.

    Keras 3 numbers layers over all graphs of a thread: the first dense layer is "dense" in the
    first graph and "dense_1" in the second, so that the second graph does not find its variables in
    a checkpoint of the first one. Afterwards the numbers are what they were, and the caller's own
    layers get the names that they would have got anyway. No other state of Keras is touched, and
    Keras is not imported. The older ``tf_keras`` numbers the layers of each graph separately.
    """
    before = _exchange(_FRESH)
    try:
        yield
    finally:
        _exchange(before)


def _exchange(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sets parts of Keras's state and returns their former values; None is a part's initial value.

    If Keras has not been imported, nothing is set, and the parts have their initial values.
    """
    state = sys.modules.get(_MODULE)
    if not hasattr(state, "get_global_attribute") or not hasattr(state, "set_global_attribute"):
        return _FRESH
    before = {name: state.get_global_attribute(name) for name in values}
    for name, value in values.items():
        state.set_global_attribute(name, value)
    return before
