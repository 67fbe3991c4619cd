"""Threads, waiting and drivers that the behaviour tests share."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.waiting import PATIENCE_SECS, Background, until_set

v1 = tf.compat.v1

PATIENT = v1.RunOptions(timeout_in_ms=int(1000 * PATIENCE_SECS))
_unique = itertools.count()

# Marks tests that do not depend on the kind of the accumulator.
every_kind = pytest.mark.kinds("dense", "sparse")
# Marks tests that run in modes in which the original sparse accumulator does not work.
needs_resource = pytest.mark.needs_resource


def unique_name(prefix: str = "acc") -> str:
    """Returns a name that no other test in this process uses."""
    return f"{prefix}_{next(_unique)}"


class Announcement:
    """An operation that reports, when it runs, that its step has begun."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.op = v1.py_func(self._event.set, [], [], stateful=True)

    def clear(self) -> None:
        self._event.clear()

    def wait(self) -> None:
        until_set(self._event, "the step begins")


class GraphDriver:
    """An accumulator in a v1 graph with its own session, fed through placeholders.

    Nothing in the graph has a static shape, so every check is left to the kernels. The session has
    one inter-op thread. A step that has finished therefore shows that all runnable operations of
    the steps begun before it have run; `start_take` uses this to know that a take is queued.
    """

    form = "dense"  # The attribute of the implementation that makes the accumulator.

    def __init__(self, impl: Any, dtype: Any = tf.float32, shape: Any = None, **kwargs: Any):
        self.impl, self.dtype = impl, tf.as_dtype(dtype)
        self.graph = tf.Graph()
        device = kwargs.pop("device", None)
        operation_timeout = kwargs.pop("operation_timeout_in_ms", 0)
        with self.graph.as_default(), v1.device(device):
            self.accumulator = getattr(impl, self.form)(dtype, shape, **kwargs)
            self.gradient = v1.placeholder(dtype, None)
            self.number = v1.placeholder(tf.int64, None)
            self.required = v1.placeholder(tf.int32, None)
            self._build(self.accumulator)
        self.session = v1.Session(
            graph=self.graph,
            config=v1.ConfigProto(
                inter_op_parallelism_threads=1,
                use_per_session_threads=True,
                allow_soft_placement=device is not None,
                operation_timeout_in_ms=operation_timeout,
            ),
        )

    def _build(self, acc: Any) -> None:
        self._build_applies(acc)
        self.take_op = acc.take_grad(self.required)
        self.count_op = acc.num_accumulated()
        self.set_step_op = acc.set_global_step(self.number)
        self._barrier = tf.no_op()
        self._announcement = Announcement()
        with tf.control_dependencies([self._announcement.op]):
            self._announced_take = acc.take_grad(self.required)
        if self.impl.ours:
            self.try_take_op = acc.try_take_grad(self.required)
            self.dropped_op = acc.num_dropped()
            self.step_op = acc.global_step()

    def _build_applies(self, acc: Any) -> None:
        self.apply_op = acc.apply_grad(self.gradient, self.number)
        if self.impl.ours:
            self.try_apply_op = acc.try_apply_grad(self.gradient, self.number)

    def run(self, fetches: Any, feed: Any = None, options: Any = None) -> Any:
        """Runs a step that has plenty of time, whatever the session's operation timeout."""
        return self.session.run(fetches, feed, options=options or PATIENT)

    def _gradient_feed(self, value: Any, step: Any) -> dict:
        return {
            self.gradient: np.asarray(value, self.dtype.as_numpy_dtype),
            self.number: step,
        }

    def apply(self, value: Any, step: Any = 0) -> None:
        self.run(self.apply_op, self._gradient_feed(value, step))

    def take(self, num_required: Any = 1, options: Any = None) -> np.ndarray:
        return self.run(self.take_op, {self.required: num_required}, options=options)

    def start_take(self, num_required: Any = 1) -> Background:
        """Starts a take in the background and returns once it is queued in the accumulator."""
        return self._start(self._announced_take, num_required)

    def start_cancellable_take(self, num_required: Any = 1) -> tuple[Background, Callable]:
        """Starts a take like `start_take`, and returns it with a function that cancels it.

        The function makes another operation of the take's step fail with an InvalidArgumentError.
        """
        with self.graph.as_default():
            queue = v1.FIFOQueue(1, tf.bool, [])
            fails = v1.Assert(queue.dequeue(), ["cancelled by the test"])
            cancel = queue.enqueue(False)
        take = self._start([self._announced_take, fails], num_required)
        return take, lambda: self.run(cancel)

    def _start(self, fetches: Any, num_required: Any) -> Background:
        self._announcement.clear()
        run = Background(self.run, fetches, {self.required: num_required})
        self._announcement.wait()
        self.run(self._barrier)
        return run

    def count(self) -> int:
        return int(self.run(self.count_op))

    def set_step(self, step: Any) -> None:
        self.run(self.set_step_op, {self.number: step})

    def try_apply(self, value: Any, step: Any = 0) -> bool:
        return bool(self.run(self.try_apply_op, self._gradient_feed(value, step)))

    def try_take(self, num_required: Any = 1) -> tuple[bool, np.ndarray]:
        taken, value = self.run(self.try_take_op, {self.required: num_required})
        return bool(taken), value

    def dropped(self) -> int:
        return int(self.run(self.dropped_op))

    def step(self) -> int:
        return int(self.run(self.step_op))

    def close(self) -> None:
        self.session.close()


class EagerDriver:
    """The same interface on an eager accumulator.

    TensorFlow's own eager accumulators share one state unless they have a shared_name, so
    each driver has a name of its own.
    """

    form = "dense"

    def __init__(self, impl: Any, dtype: Any = tf.float32, shape: Any = None, **kwargs: Any):
        self.impl, self.dtype = impl, tf.as_dtype(dtype)
        self._device = kwargs.pop("device", None)
        if not impl.ours:
            kwargs.setdefault("shared_name", unique_name("eager"))
        with tf.device(self._device):
            self.accumulator = getattr(impl, self.form)(dtype, shape, **kwargs)

    def _tensor(self, value: Any) -> tf.Tensor:
        with tf.device(self._device):
            return tf.constant(np.asarray(value, self.dtype.as_numpy_dtype))

    def apply(self, value: Any, step: Any = 0) -> None:
        self.accumulator.apply_grad(self._tensor(value), step)

    def take(self, num_required: Any = 1) -> np.ndarray:
        return self.accumulator.take_grad(num_required).numpy()

    def start_take(self, num_required: Any = 1) -> Background:
        run = Background(self.take, num_required)
        run.wait_until_blocked()
        return run

    def count(self) -> int:
        return int(self.accumulator.num_accumulated())

    def set_step(self, step: Any) -> None:
        self.accumulator.set_global_step(step)

    def try_apply(self, value: Any, step: Any = 0) -> bool:
        return bool(self.accumulator.try_apply_grad(self._tensor(value), step))

    def try_take(self, num_required: Any = 1) -> tuple[bool, np.ndarray]:
        taken, value = self.accumulator.try_take_grad(num_required)
        return bool(taken), value.numpy()

    def dropped(self) -> int:
        return int(self.accumulator.num_dropped())

    def step(self) -> int:
        return int(self.accumulator.global_step())

    def close(self) -> None:
        del self.accumulator


DRIVERS = {"graph": GraphDriver, "eager": EagerDriver}
