"""The calls of optimizers in a ``train_step``, one of each optimizer."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tf_condacc._tensorflow import is_loop_body


@dataclass(frozen=True, eq=False)
class Call:
    """A call of `apply_gradients` or `apply` of an optimizer.

    Attributes:
        optimizer: The optimizer.
        pairs: The gradients that it is given, and their variables.
        update: Makes the same call with other pairs.
    """

    optimizer: keras.Optimizer
    pairs: Sequence[tuple[Any, Any]]
    update: Callable[[Sequence[tuple[Any, Any]]], Any]

    @property
    def variables(self) -> list[Any]:
        return [variable for _, variable in self.pairs]

    @property
    def present(self) -> list[tuple[Any, Any]]:
        """The gradients that are not None, and their variables."""
        return [pair for pair in self.pairs if pair[0] is not None]


class Calls:
    """The calls in a step that begins now, of which each optimizer may have one.

    Args:
        title: What error messages call the accumulation.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        # The graph of train_step; None if it runs eagerly.
        self._step = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        # The graphs in which an optimizer, by its identity, was called.
        self._graphs: dict[int, list[Any]] = defaultdict(list)

    def add(self, call: Call) -> None:
        """Adds a call.

        Raises:
            ValueError: It may be one of several of the optimizer, or its gradients have no mean.
        """
        graph = tf.compat.v1.get_default_graph()
        if any(getattr(variable, "overwrite_with_gradient", False) for variable in call.variables):
            raise ValueError(
                f"{self._title}: the model trains in float8. The scales of its layers are computed "
                "as gradients, but have no mean. Use another dtype policy."
            )
        if len({id(variable) for _, variable in call.present}) < len(call.present):
            raise self._repeats("gives an optimizer two gradients of one variable")
        if any(map(is_loop_body, self._between(graph))):
            raise self._repeats("calls an optimizer in a loop of the graph")
        if self._step is None and not tf.executing_eagerly():
            raise ValueError(
                f"{self._title}: train_step runs eagerly, but calls an optimizer in a tf.function, "
                "which would keep the weight of the micro-batch with which it was traced, and may "
                "be called several times unseen. Call tf.config.run_functions_eagerly(True), or "
                "leave out run_eagerly=True."
            )
        earlier = self._graphs[id(call.optimizer)]
        if not all(self._is_another_trace(graph, each) for each in earlier):
            raise self._repeats("calls an optimizer twice")
        earlier.append(graph)

    def check_functions(self) -> None:
        """Checks, after ``train_step``, that functions that call an optimizer are called once.

        A call in a function is seen when TensorFlow traces it. That may be once for several calls,
        and twice for the first one.

        Raises:
            ValueError: A function is called twice.
        """
        traces = defaultdict(set)
        for graph in itertools.chain(*self._graphs.values()):
            for each in self._between(graph):
                traces[each.outer_graph, each.name].add(each)
        for (outer, function), same in traces.items():
            # TensorFlow names a trace after its graph, with a number that makes the name unique.
            name = re.compile(rf"__inference_{re.escape(function)}_\d+")
            called = Counter(
                attribute.func.name
                for op in outer.get_operations()
                for attribute in op.node_def.attr.values()
                if name.fullmatch(attribute.func.name)
            )
            if max(called.values(), default=0) > 1 or len(called) > 1 < len(same):
                raise self._repeats(
                    f"calls the function '{function}', which calls an optimizer, twice"
                )

    def _between(self, graph: Any) -> list[Any]:
        """Returns a graph and those around it, as far as ``train_step`` has made them."""
        graphs = list(with_outer(graph))
        return graphs[: graphs.index(self._step)] if self._step in graphs else []

    def _is_another_trace(self, graph: Any, other: Any) -> bool:
        """Returns whether two graphs are traces of one function, or within such traces."""
        for one, two in zip(self._between(graph)[::-1], self._between(other)[::-1], strict=False):
            if one is not two:
                return one.name == two.name
        return False

    def _repeats(self, what: str) -> ValueError:
        return ValueError(
            f"{self._title}: train_step {what}, but one call of train_step is one micro-batch, and "
            "each optimizer gets its gradients in one call. Give it all gradients at once, or "
            "train in a loop of your own with tf_condacc.GradientAccumulator."
        )


def with_outer(graph: Any) -> Iterator[Any]:
    """Yields a graph, and the graphs around it."""
    while graph is not None:
        yield graph
        graph = getattr(graph, "outer_graph", None)
