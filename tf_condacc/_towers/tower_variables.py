"""The variables that each tower makes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._towers.graph_state import Tower

_LOG = logging.getLogger("tf_condacc")


@contextmanager
def recorded(collection: str) -> Iterator[list[tf.Variable]]:
    """Yields a list that holds the variables that the body added to a collection, when it ends."""
    before = {id(variable) for variable in v1.get_collection(collection)}
    made: list[tf.Variable] = []
    yield made
    made.extend(v for v in v1.get_collection(collection) if id(v) not in before)


def warn_of_unshared(towers: Sequence[Tower], made: Sequence[Sequence[tf.Variable]]) -> None:
    """Logs a warning if a tower after the first one trains variables of its own.

    In a tower that calls an optimizer, only variables with a gradient count. Each tower may make
    others, such as a learning rate.

    Args:
        towers: All towers of the graph.
        made: The trainable variables that each tower has made.
    """
    for tower, variables in zip(towers[1:], made[1:], strict=True):
        trained = {
            variable.name
            for call in tower.calls
            for gradient, variable in call.gradients_and_variables
            if gradient is not None
        }
        own = [v.name for v in variables if not tower.calls or v.name in trained]
        if own:
            _LOG.warning(
                "Tower %d has made %d trainable variable(s) of its own, the first of which is %s. "
                "It does not share them with tower 0, so the %d towers are separate models. Towers "
                "share variables that are made by tf.compat.v1.get_variable; Keras layers and "
                "tf.Variable make new ones.",
                tower.number,
                len(own),
                own[0],
                len(towers),
            )
            return
