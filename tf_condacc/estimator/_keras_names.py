"""The automatic names of Keras 3, which are numbered anew in each graph of an Estimator."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

# The module of the state that Keras 3 keeps for each thread. No public function restores it.
_MODULE = "keras.src.backend.common.global_state"
# The parts of the state that belong to one graph, and their initial values: the number of objects
# with each automatic name, and the generator of ``keras.random``, which holds a variable.
_FRESH_STATE = {"object_name_uids": None, "global_seed_generator": None}


@contextlib.contextmanager
def fresh_keras_names() -> Iterator[None]:
    """Returns a context in which Keras 3 numbers its layers from the beginning.

    Keras 3 numbers layers across all graphs of a thread. The first dense layer is called "dense" in
    the first graph and "dense_1" in the second, so the second graph does not find its variables in
    a checkpoint of the first. When the context ends, the numbers are those from before it, and the
    caller's own layers get the same names as without it. No other state of Keras changes, and Keras
    is not imported. The older ``tf_keras`` numbers the layers of each graph separately.
    """
    before = _exchange_state(_FRESH_STATE)
    try:
        yield
    finally:
        _exchange_state(before)


def _exchange_state(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sets parts of Keras's state, and returns their former values.

    If Keras has not been imported, nothing is set, and the initial values are returned.

    Args:
        values: The new values by the names of the parts. None is the initial value of every part.
    """
    state: Any = sys.modules.get(_MODULE)
    if not hasattr(state, "get_global_attribute") or not hasattr(state, "set_global_attribute"):
        return _FRESH_STATE
    before = {name: state.get_global_attribute(name) for name in values}
    for name, value in values.items():
        state.set_global_attribute(name, value)
    return before
