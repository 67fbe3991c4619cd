"""The calls of optimizers in a ``train_step``, and the graphs in which they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tf_condacc._tensorflow import is_loop_body


class Call(NamedTuple):
    """A call of an optimizer in train_step.

    Attributes:
        optimizer: The identity of the optimizer.
        graph: The graph in which it is called.
        variables: The identities of the variables that it is given.
        present: The identities of those that have gradients.
    """

    optimizer: int
    graph: Any
    variables: frozenset[int]
    present: frozenset[int]

    def repeats_any_of(self, earlier: Sequence[tuple[Call, int]]) -> bool:
        """Returns whether an earlier call has given the optimizer one of the gradients."""
        return any(self._follows(other) and self.present & other.present for other, _ in earlier)

    def number_after(self, earlier: Sequence[tuple[Call, int]]) -> int:
        """Returns the number of the call among those of the optimizer in train_step.

        Calls with the same variables in different branches of a ``tf.cond`` share their number.
        """
        numbers = [
            number
            for other, number in earlier
            if self._follows(other)
            or (self.optimizer == other.optimizer and not self.variables & other.variables)
        ]
        return max(numbers, default=-1) + 1

    def is_in_loop(self, step: Any) -> bool:
        """Returns whether the call is in the body of a loop that train_step has in its graph."""
        return any(map(is_loop_body, self.graphs_within(step)))

    def graphs_within(self, step: Any) -> list[Any]:
        """Returns the graph of the call and those around it, as far as train_step has made them."""
        graphs = list(with_outer(self.graph))
        return graphs[: graphs.index(step)] if step in graphs else []

    def _follows(self, other: Call) -> bool:
        """Returns whether another call of the optimizer is certainly in the same micro-batch.

        Calls in two branches of a ``tf.cond`` may exclude each other.
        """
        if self.optimizer != other.optimizer:
            return False
        return other.graph in with_outer(self.graph) or self.graph in with_outer(other.graph)


def repeated_function(step: Any, calls: Sequence[tuple[Call, int]]) -> str | None:
    """Returns the name of a function that has calls of optimizers and is itself called twice.

    TensorFlow traces it once, so its calls are seen once.

    Args:
        step: The graph of train_step; None if it runs eagerly.
        calls: The calls of optimizers that were seen.
    """
    nested = {id(graph): graph for call, _ in calls for graph in call.graphs_within(step)}
    for graph in nested.values():
        # TensorFlow names a trace after its graph, with a number that makes the name unique.
        name = re.compile(rf"__inference_{re.escape(graph.name)}_\d+")
        called = Counter(
            attribute.func.name
            for op in graph.outer_graph.get_operations()
            for attribute in op.node_def.attr.values()
            if name.fullmatch(attribute.func.name)
        )
        if max(called.values(), default=0) > 1:
            return graph.name
    return None


def with_outer(graph: Any) -> Iterator[Any]:
    """Yields a graph, and the graphs around it."""
    while graph is not None:
        yield graph
        graph = getattr(graph, "outer_graph", None)
