"""Accumulators under test, and calls of their methods: eagerly, in functions, and in sessions.

All modes have the same methods, which take and return arrays and numbers. So a test is written once
and runs in any mode.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.accumulators.support.rows import Rows
from tests.support.accumulator_support import PATIENT, Announcement, unique_name
from tests.support.programs import as_arrays
from tests.support.waiting import Background

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
    """An accumulator, and eager calls of it.

    Args:
        impl: The implementation.
        dtype: Data type of the gradients.
        shape: Shape of the gradients.
        rows: Whether gradients and what is taken are `Rows`. If not, a sparse accumulator is used
            like a dense one.
        device: The device of all operations.
        **arguments: Further arguments of the constructor.
    """

    def __init__(
        self,
        impl: Any,
        dtype: Any = tf.float32,
        shape: Any = None,
        *,
        rows: bool = False,
        device: str | None = None,
        **arguments: Any,
    ) -> None:
        self.impl, self.dtype, self._device = impl, tf.as_dtype(dtype), device
        self._placed = functools.partial(tf.device, device) if device else contextlib.nullcontext
        make = functools.partial(impl.sparse if rows else impl.dense, dtype, shape)
        self._make(make, arguments)

    def _make(self, make: Callable[..., Any], arguments: dict[str, Any]) -> None:
        # TensorFlow's own eager accumulators share one state unless they have a shared_name.
        if not self.impl.ours:
            arguments.setdefault("shared_name", unique_name("eager"))
        with self._placed():
            self.accumulator = make(**arguments)

    def __call__(self, name: str, *gradient: np.ndarray, **scalars: Any) -> Any:
        """Makes a call by its name in CALLS, and returns arrays."""
        return as_arrays(self._run(name, [self._tensor(part) for part in gradient], scalars))

    def _run(self, name: str, gradient: Sequence[Any], scalars: dict[str, Any]) -> Any:
        return CALLS[name](self.accumulator, *gradient, **scalars)

    def _tensor(self, part: np.ndarray) -> Any:
        with self._placed():
            return tf.constant(part)

    def _parts(self, value: Any) -> list[np.ndarray]:
        """Returns a gradient as the arguments of a call."""
        if not isinstance(value, Rows):
            return [np.asarray(value, self.dtype.as_numpy_dtype)]
        values = np.asarray(value.values, self.dtype.as_numpy_dtype)
        parts = [np.asarray(value.indices, np.int64), values]
        return parts if value.shape is None else [*parts, np.asarray(value.shape, np.int64)]

    def apply(self, value: Any, step: Any = 0) -> None:
        self("apply", *self._parts(value), step=step)

    def try_apply(self, value: Any, step: Any = 0) -> bool:
        return bool(self("try_apply", *self._parts(value), step=step))

    def contribute(self, value: Any, contributor: Any, step: Any = 0) -> int:
        return int(self("contribute", *self._parts(value), contributor=contributor, step=step))

    def take(self, required: Any = 1) -> Any:
        return self("take", required=required)

    def try_take(self, required: Any = 1) -> tuple[bool, Any]:
        taken, value = self("try_take", required=required)
        return bool(taken), value

    def take_round(self, required: Any, step: Any) -> tuple[bool, Any]:
        taken, value = self("take_round", required=required, step=step)
        return bool(taken), value

    def set_step(self, step: Any) -> None:
        self("set_step", step=step)

    def reset(self, step: Any) -> int:
        return int(self("reset", step=step))

    def count(self) -> int:
        return int(self("count"))

    def dropped(self) -> int:
        return int(self("dropped"))

    def step(self) -> int:
        return int(self("step"))

    def state(self) -> tuple[int, ...]:
        """Returns the number of gradients; of ours also the step and the number of drops."""
        return (self.count(), self.step(), self.dropped()) if self.impl.ours else (self.count(),)

    def start_take(self, required: Any = 1) -> Background:
        """Starts a take in the background, and returns once it waits in the accumulator."""
        run = Background(self.take, required)
        run.wait_until_blocked()
        return run

    def close(self) -> None:
        del self.accumulator


def raw(kind: str, name: str, handle: Any, dtype: Any, *gradient: Any, **scalars: Any) -> Any:
    """Calls the operation of a kind of accumulator that a call of CALLS leads to."""
    ops = importlib.import_module("tf_condacc._ops.native").ops
    given = {key: tf.constant(value, ARGUMENTS[key]) for key, value in scalars.items()}
    if gradient:
        shape = [tf.zeros([0], tf.int64)] if kind == "sparse" and len(gradient) < 3 else []
        apply = getattr(ops, f"condacc_{kind}_apply")
        further = [[given[key]] if key in given else [] for key in ("contributor", "weight")]
        return apply(handle, given["step"], *gradient, *shape, *further)
    if name == "take":
        return getattr(ops, f"condacc_{kind}_take")(handle, given["required"], dtype)
    if name in ("try_take", "take_round"):
        steps = [given["step"]] if "step" in given else []
        return getattr(ops, f"condacc_{kind}_try_take")(handle, given["required"], steps, dtype)
    if name == "count":
        return ops.condacc_accumulator_num_accumulated([handle])
    names = {"set_step": "set_global_step", "dropped": "num_dropped", "step": "global_step"}
    return getattr(ops, f"condacc_accumulator_{names.get(name, name)}")(handle, *given.values())


class RawCalls(Calls):
    """Calls of the operations, beneath the classes of Python."""

    def _run(self, name: str, gradient: Sequence[Any], scalars: dict[str, Any]) -> Any:
        handle = self.accumulator.accumulator_ref
        result = raw(self.impl.kind, name, handle, self.dtype, *gradient, **scalars)
        # A sparse try_take has its parts beside what it tells.
        is_flat = name in ("try_take", "take_round") and self.impl.kind == "sparse"
        return (result[0], result[1:]) if is_flat else result


class FunctionCalls(Calls):
    """Calls functions that get the accumulator as an argument."""

    def _run(self, name: str, gradient: Sequence[Any], scalars: dict[str, Any]) -> Any:
        tensors = {key: tf.constant(value, ARGUMENTS[key]) for key, value in scalars.items()}
        return self._function(name)(self.accumulator, *gradient, **tensors)

    @staticmethod
    @functools.cache
    def _function(name: str) -> Any:
        def call(*arguments: Any, **scalars: Any) -> Any:
            result = CALLS[name](*arguments, **scalars)
            return None if isinstance(result, tf.Operation) else result

        return tf.function(call, reduce_retracing=True)


class SessionCalls(Calls):
    """Calls in a session, fed through placeholders.

    Nothing in the graph has a static shape, so every check is left to the kernels. The session has
    one inter-op thread. A step that has finished therefore shows that all runnable operations of
    the steps begun before it have run; `start_take` uses this to know that a take is queued.

    Args:
        target: The server of the session; by default, it has none.
        operation_timeout_in_ms: That of the session, for steps that are not patient.
        is_cached: Whether accumulators with equal arguments have a graph in common. Each has its
            own session, and so its own state.
    """

    _computes = False  # Whether the values of a gradient are results of the step.

    def __init__(
        self,
        *args: Any,
        target: str = "",
        operation_timeout_in_ms: int = 0,
        is_cached: bool = False,
        **kwargs: Any,
    ) -> None:
        self._is_cached = is_cached
        super().__init__(*args, **kwargs)
        config = v1.ConfigProto(operation_timeout_in_ms=operation_timeout_in_ms)
        config.allow_soft_placement = self._device is not None
        if not target:  # Sessions of servers have the threads of these.
            config.inter_op_parallelism_threads, config.use_per_session_threads = 1, True
        self.session = v1.Session(target, graph=self.graph, config=config)

    def _make(self, make: Callable[..., Any], arguments: dict[str, Any]) -> None:
        new = _cached_graph if self._is_cached else _Graph
        self._graph = new(
            self._computes, self.dtype, self._placed, make.func, make.args, **arguments
        )
        self.graph, self.accumulator = self._graph.graph, self._graph.accumulator

    def run(self, fetches: Any, feed: Any = None, options: Any = None) -> Any:
        """Runs a step that has plenty of time, whatever the session's operation timeout."""
        return self.session.run(fetches, feed, options=options or PATIENT)

    def _run(self, name: str, gradient: Sequence[Any], scalars: dict[str, Any]) -> Any:
        inputs, fetch = self._graph.call(name, len(gradient), tuple(scalars))
        feed = dict(zip(inputs, [*gradient, *scalars.values()], strict=True))
        return self.run(fetch, feed | self._graph.always_fed)

    def _tensor(self, part: np.ndarray) -> np.ndarray:
        return part

    def operation(self, name: str, **scalars: Any) -> tuple[Any, dict[Any, Any]]:
        """Returns what a step of a call without a gradient fetches and is fed with."""
        inputs, fetch = self._graph.call(name, 0, tuple(scalars))
        return fetch, dict(zip(inputs, scalars.values(), strict=True))

    def take(self, required: Any = 1, options: Any = None) -> Any:
        return self.run(*self.operation("take", required=required), options)

    def start_take(self, required: Any = 1) -> Background:
        return self._start([], required)

    def start_cancellable_take(self, required: Any = 1) -> tuple[Background, Callable]:
        """Starts a take like `start_take`, and returns it with a function that cancels it.

        The function makes another operation of the take's step fail with an InvalidArgumentError.
        """
        with self.graph.as_default():
            queue = v1.FIFOQueue(1, tf.bool, [])
            fails = v1.Assert(queue.dequeue(), ["cancelled by the test"])
            cancel = queue.enqueue(False)
        return self._start([fails], required), lambda: self.run(cancel)

    def _start(self, others: list[Any], required: Any) -> Background:
        given, take, announcement, barrier = self._graph.announced_take
        announcement.clear()
        step = Background(lambda: self.run([take, others], {given: required})[0])
        announcement.wait()
        self.run(barrier)
        return step

    def close(self) -> None:
        self.session.close()


class OwnedCalls(SessionCalls):
    """Applies values that the step has computed itself, so that nothing else holds them."""

    _computes = True


class _Graph:
    """A graph with an accumulator. Each session that runs it has one of its own."""

    def __init__(
        self, computes: bool, dtype: tf.DType, placed: Any, make: Any, args: Any, **arguments: Any
    ) -> None:
        self.graph = tf.Graph()
        self._dtype, self._placed = dtype, placed
        self._made: dict[Any, tuple[list[Any], Any]] = {}
        with self.graph.as_default(), placed():
            self.accumulator = make(*args, **arguments)
            self._one = v1.placeholder(dtype, []) if computes else None
        self.always_fed = {self._one: 1} if computes else {}

    def call(self, name: str, num_parts: int, scalars: tuple[str, ...]) -> tuple[list[Any], Any]:
        """Returns the placeholders of a call, and what to fetch."""
        key = name, num_parts, scalars
        if key not in self._made:
            dtypes = [self._dtype] if num_parts == 1 else [tf.int64, self._dtype, tf.int64]
            with self.graph.as_default(), self._placed():
                parts = [v1.placeholder(dtype, None) for dtype in dtypes[:num_parts]]
                given = {each: v1.placeholder(ARGUMENTS[each], None) for each in scalars}
                gradient = list(parts)
                if parts and self._one is not None:
                    gradient[min(1, num_parts - 1)] *= self._one
                fetch = CALLS[name](self.accumulator, *gradient, **given)
            self._made[key] = [*parts, *given.values()], fetch
        return self._made[key]

    @functools.cached_property
    def announced_take(self) -> tuple[Any, ...]:
        """A number, a take of so many gradients, its announcement, and an operation that ends."""
        with self.graph.as_default(), self._placed():
            required, announcement = v1.placeholder(tf.int32, None), Announcement()
            with tf.control_dependencies([announcement.op]):
                take = self.accumulator.take_grad(required)
            return required, take, announcement, tf.no_op()


_cached_graph = functools.cache(_Graph)
MODES = {
    "eager": Calls,
    "function": FunctionCalls,
    "session": functools.partial(SessionCalls, is_cached=True),
}


@contextlib.contextmanager
def running(impl: Any) -> Iterator[Callable[[Any], Any]]:
    """Yields a function that runs operations: eagerly for our dense accumulator, or in a session.

    As `driver`, for tests that give arguments in any form to the methods of an accumulator.
    """
    if impl.name == "tf_condacc":
        yield as_arrays
        return
    with tf.Graph().as_default(), v1.Session() as session:
        yield session.run
