"""Calls of accumulators in each mode: eagerly, in functions, and in a session."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import unique_name
from tests.support.programs import as_arrays

v1 = tf.compat.v1


def _shape(gradient: Sequence[Any]) -> dict[str, Any]:
    return {"grad_shape": gradient[2]} if len(gradient) == 3 else {}


ARGUMENTS = {"step": tf.int64, "contributor": tf.int64, "required": tf.int32, "weight": tf.float64}
# Each call gets the accumulator, the parts of a gradient, and the scalars that it names.
CALLS: dict[str, Callable[..., Any]] = {
    "apply": lambda acc, *g, step: acc.apply_grad(*g, local_step=step),
    "try_apply": lambda acc, *g, step: acc.try_apply_grad(*g, local_step=step),
    "weigh": lambda acc, *g, step, weight: acc.try_apply_grad(*g, local_step=step, weight=weight),
    "contribute": lambda acc, *g, step, contributor: acc.apply_contribution(
        *g[:2], contributor=contributor, local_step=step, **_shape(g)
    ),
    "take": lambda acc, required: acc.take_grad(required),
    "try_take": lambda acc, required: acc.try_take_grad(required),
    "take_round": lambda acc, required, step: acc.try_take_grad(required, global_step=step),
    "set_step": lambda acc, step: acc.set_global_step(step),
    "reset": lambda acc, step: acc.reset(step),
    "count": lambda acc: acc.num_accumulated(),
    "dropped": lambda acc: acc.num_dropped(),
    "step": lambda acc: acc.global_step(),
}


class Calls:
    """Calls an accumulator eagerly.

    Args:
        impl: The implementation.
        dtype: Data type of the gradients.
        reduction: The reduction.
    """

    def __init__(self, impl: Any, dtype: tf.DType, reduction: str) -> None:
        self._dtype = dtype
        name = None if impl.ours else unique_name("program")  # See EagerDriver.
        self._accumulator = impl.public(dtype, None, shared_name=name, reduction_type=reduction)

    def __call__(self, name: str, *gradient: np.ndarray, **scalars: Any) -> Any:
        """Calls by a name in CALLS, and returns arrays."""
        tensors = [self._tensor(part) for part in gradient]
        return as_arrays(self._call(name, tensors, scalars))

    def _call(self, name: str, gradient: Sequence[Any], scalars: dict[str, Any]) -> Any:
        return CALLS[name](self._accumulator, *gradient, **scalars)

    def _tensor(self, part: np.ndarray) -> tf.Tensor:
        return tf.constant(part)

    def close(self) -> None:
        del self._accumulator


class FunctionCalls(Calls):
    """Calls functions that get the accumulator as an argument."""

    def _call(self, name: str, gradient: Sequence[Any], scalars: dict[str, Any]) -> Any:
        tensors = {key: tf.constant(value, ARGUMENTS[key]) for key, value in scalars.items()}
        return self._function(name)(self._accumulator, *gradient, **tensors)

    @staticmethod
    @functools.cache
    def _function(name: str) -> Any:
        def call(*arguments: Any, **scalars: Any) -> Any:
            result = CALLS[name](*arguments, **scalars)
            return None if isinstance(result, tf.Operation) else result

        return tf.function(call, reduce_retracing=True)


class SessionCalls(Calls):
    """Calls in a session, fed through placeholders whose shapes are unknown."""

    def __init__(self, impl: Any, dtype: tf.DType, reduction: str) -> None:
        self._graph = _Graph.of(impl, dtype, reduction)
        self._session = v1.Session(graph=self._graph.graph)

    def _call(self, name: str, gradient: Sequence[Any], scalars: dict[str, Any]) -> Any:
        inputs, fetch = self._graph.call(name, len(gradient), tuple(scalars))
        return self._session.run(
            fetch, dict(zip(inputs, [*gradient, *scalars.values()], strict=True))
        )

    def _tensor(self, part: np.ndarray) -> np.ndarray:
        return part

    def close(self) -> None:
        self._session.close()


class _Graph:
    """A graph with an accumulator. Each session that runs it has one of its own."""

    @staticmethod
    @functools.cache
    def of(impl: Any, dtype: tf.DType, reduction: str) -> _Graph:
        return _Graph(impl, dtype, reduction)

    def __init__(self, impl: Any, dtype: tf.DType, reduction: str) -> None:
        self.graph = tf.Graph()
        self._dtype, self._calls = dtype, {}
        with self.graph.as_default():
            self._accumulator = impl.public(dtype, None, reduction_type=reduction)

    def call(self, name: str, num_parts: int, scalars: tuple[str, ...]) -> tuple[list[Any], Any]:
        """Returns the placeholders of a call, and what to fetch."""
        key = name, num_parts, scalars
        if key not in self._calls:
            dtypes = [self._dtype] if num_parts == 1 else [tf.int64, self._dtype, tf.int64]
            with self.graph.as_default():
                gradient = [v1.placeholder(dtype, None) for dtype in dtypes[:num_parts]]
                given = {each: v1.placeholder(ARGUMENTS[each], None) for each in scalars}
                fetch = CALLS[name](self._accumulator, *gradient, **given)
                self._calls[key] = [*gradient, *given.values()], fetch
        return self._calls[key]


MODES = {"eager": Calls, "function": FunctionCalls, "session": SessionCalls}
