"""The counters of an optimizer that drops stale gradients."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._ops.host import on_host
from tf_condacc._optimizers.drop_stale.gate import StalenessGate, new_counter
from tf_condacc._tensorflow import colocated_with

COUNTER_NAME = "stale_counter"


class Counters:
    """The counters of an optimizer, which are made when gradients are applied for the first time.

    There is one set of counters for each graph, and one for eager mode.

    Args:
        optimizer_name: Name of the optimizer, for messages.
        on_new: Function that is called with the name and the value of a new entry of `children`.
    """

    def __init__(self, optimizer_name: str, on_new: Callable[[str, Any], object]) -> None:
        self._optimizer_name = optimizer_name
        self._on_new = on_new
        self._counters: dict[tf.Graph | None, _GraphCounters] = {}
        self._lock = threading.Lock()

    def stale_counter(self) -> tf.Variable | None:
        """Returns the variable that counts dropped updates, or None if there is none yet."""
        counters = self._counters.get(_outermost_graph())
        return None if counters is None else counters.stale_counter

    def children(self) -> dict[str, Any]:
        """Returns what checkpoints contain: the variable, if there is one."""
        counters = self._counters.get(_outermost_graph())
        return {} if counters is None else {COUNTER_NAME: counters.stale_counter}

    def of_step(self, step: tf.Variable) -> tuple[tf.Variable, StalenessGate]:
        """Returns the variable that counts dropped updates, and the gate of the step variable.

        Both are made if they do not exist.

        Args:
            step: The step variable: `[] int32 or int64`.
        """
        key = _outermost_graph()
        with self._lock, tf.init_scope():
            if key not in self._counters:
                self._counters[key] = _new_counters(step)
                self._on_new(COUNTER_NAME, self._counters[key].stale_counter)
            counters = self._counters[key]
            if id(step) not in counters.gates:
                gate = StalenessGate(step, counters.name, self._optimizer_name)
                counters.gates[id(step)] = gate
                if not tf.executing_eagerly():
                    _summarize(counters.stale_counter, step, gate)
        return counters.stale_counter, counters.gates[id(step)]

    def total(self, count: Callable[[StalenessGate], tf.Tensor], name: str | None) -> tf.Tensor:
        """Returns the sum of a count over all gates: `[] int64`.

        Args:
            count: Method of `StalenessGate` that returns the count.
            name: Name scope of the operations; None for the name of the method.

        Raises:
            ValueError: There are no counters yet, in this graph or in eager mode.
        """
        counters = self._counters.get(_outermost_graph())
        if counters is None:
            raise ValueError(
                f"Optimizer '{self._optimizer_name}' has counted nothing yet: call "
                "apply_gradients() before, in the same graph."
            )
        with tf.name_scope(name or count.__name__):
            return tf.add_n([count(gate) for gate in counters.gates.values()], name="total")


class _GraphCounters:
    """The counters of an optimizer in one graph, or in eager mode.

    Attributes:
        stale_counter: Variable that counts the dropped updates: `[] float32`.
        name: Name of the optimizer's counters in the staleness gates.
        gates: The staleness gates by the ``id`` of their step variables. A gate keeps its variable
            alive.
    """

    def __init__(self, stale_counter: tf.Variable, name: str) -> None:
        self.stale_counter = stale_counter
        self.name = name
        self.gates: dict[int, StalenessGate] = {}


def _outermost_graph() -> tf.Graph | None:
    """Returns the graph around all function bodies, or None in eager mode."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else v1.get_default_graph()


def _new_counters(step: tf.Variable) -> _GraphCounters:
    """Makes the counter variable, colocated with the step variable.

    Must be called in ``tf.init_scope``, where functions may make variables.
    """
    if tf.executing_eagerly():
        counter = tf.Variable(0.0, trainable=False, name=COUNTER_NAME)
        return _GraphCounters(counter, new_counter())
    with colocated_with(step):
        counter = v1.get_variable(
            _free_name(),
            shape=(),
            dtype=tf.float32,
            initializer=v1.zeros_initializer(),
            trainable=False,
        )
    return _GraphCounters(counter, counter.op.name)


def _free_name() -> str:
    """Returns the name of a new counter variable.

    It is the name that ``tf.contrib.opt`` gives it, with a number if another optimizer has taken
    it. In a variable scope that reuses variables, all optimizers share the counter, as they do with
    ``tf.contrib.opt``.
    """
    scope = v1.get_variable_scope()
    if scope.reuse:
        return COUNTER_NAME
    taken = {variable.op.name for variable in v1.global_variables()}
    prefix = f"{scope.name}/" if scope.name else ""
    candidates = (COUNTER_NAME if i == 0 else f"{COUNTER_NAME}_{i}" for i in itertools.count())
    return next(name for name in candidates if prefix + name not in taken)


def _summarize(stale_counter: tf.Variable, step: tf.Variable, gate: StalenessGate) -> None:
    """Adds summaries of the counter and the staleness. Running them does not decide on updates."""
    with on_host():  # Summary kernels run on the CPU.
        ratio = stale_counter / tf.cast(step + 1, tf.float32)
        v1.summary.scalar("Gradient staleness percentage", ratio)
        v1.summary.histogram("Gradient_staleness", gate.recent_staleness())
