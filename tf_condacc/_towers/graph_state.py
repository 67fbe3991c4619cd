"""The towers of a graph, as far as they have been built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._typing import GradientAndVariable, Loss

COLLECTION = "replicate_model_fn_graph_states"


@dataclass(frozen=True)
class OptimizerCall:
    """A call of `compute_gradients` or `apply_gradients` in a tower."""

    optimizer: v1.train.Optimizer
    gradients_and_variables: Sequence[GradientAndVariable]


@dataclass
class Tower:
    """A tower, which is the copy of the model on one device.

    Attributes:
        number: Index of the tower, starting with 0.
        variable_scope: Variable scope of the tower.
        name_scope: Name scope of the tower, without a slash at the end.
        calls: Calls of `apply_gradients` in the tower, in order.
        computed: Calls of `compute_gradients` in the tower, in order.
    """

    number: int
    variable_scope: v1.VariableScope
    name_scope: str
    calls: list[OptimizerCall] = field(default_factory=list)
    computed: list[OptimizerCall] = field(default_factory=list)


@dataclass
class GraphState:
    """The towers of a graph. A graph without replication has one tower.

    Attributes:
        number_of_towers: Number of towers that the graph will have.
        loss_reduction: How the loss is reduced over examples, a
            ``tf.compat.v1.losses.Reduction``.
        has_been_used: Whether a tower has used a TowerOptimizer.
        towers: The towers that are complete or being built.
    """

    number_of_towers: int = 1
    loss_reduction: str | None = None
    has_been_used: bool = False
    towers: list[Tower] = field(default_factory=list)

    @property
    def is_last_tower(self) -> bool:
        """True if the tower that is being built is the last one."""
        return len(self.towers) == self.number_of_towers

    @property
    def scales_losses(self) -> bool:
        """True if the loss of a tower is divided by the number of towers."""
        return self.number_of_towers > 1 and self.loss_reduction != v1.losses.Reduction.SUM

    @contextmanager
    def tower(self) -> Iterator[Tower]:
        """Returns a context in which the next tower is built.

        The first tower uses the current scopes, so that its names are those of a model without
        towers. It makes the variables, and the other towers share them.
        """
        number = len(self.towers)
        with v1.variable_scope(
            v1.get_variable_scope(), reuse=number > 0, auxiliary_name_scope=False
        ) as variable_scope:
            if number == 0:
                self.towers.append(Tower(0, variable_scope, _current_name_scope()))
                yield self.towers[-1]
                return
            with v1.name_scope(f"tower_{number}"):
                self.towers.append(Tower(number, variable_scope, _current_name_scope()))
                yield self.towers[-1]

    def scale_loss(self, loss: Loss) -> Loss:
        """Returns the part of a tower in the loss of all towers.

        Args:
            loss: The loss of the tower, `[] float`, or a function that returns it.
        """
        if not self.scales_losses:
            return loss
        if callable(loss):
            return lambda: self.scale_loss(loss())
        return tf.realdiv(loss, float(self.number_of_towers), name="averaged_loss")


def of_graph() -> GraphState:
    """Returns the state of the current graph, which is made if there is none."""
    states = v1.get_default_graph().get_collection_ref(COLLECTION)
    if not states:
        states.append(GraphState())
    return states[0]


@contextmanager
def replication(number_of_towers: int, loss_reduction: str | None) -> Iterator[GraphState]:
    """Returns a context in which the current graph has the given number of towers."""
    graph = v1.get_default_graph()
    graph.clear_collection(COLLECTION)
    state = GraphState(number_of_towers, loss_reduction)
    graph.add_to_collection(COLLECTION, state)
    try:
        yield state
    finally:
        graph.clear_collection(COLLECTION)


@contextmanager
def scopes_of(tower: Tower) -> Iterator[None]:
    """Returns a context in which the scopes of a tower are current."""
    with (
        v1.variable_scope(tower.variable_scope, auxiliary_name_scope=False),
        v1.name_scope(f"{tower.name_scope}/" if tower.name_scope else ""),
    ):
        yield


def _current_name_scope() -> str:
    return v1.get_default_graph().get_name_scope()
