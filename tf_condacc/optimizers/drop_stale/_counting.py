"""The counters of an optimizer that drops stale gradients."""

from __future__ import annotations

import itertools

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from tf_condacc._host import on_host
from tf_condacc.optimizers.drop_stale._gate import StalenessGate, new_counter

COUNTER_NAME = "stale_counter"


class Counting:
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


def outermost_graph() -> tf.Graph | None:
    """Returns the graph around all function bodies, or None in eager mode."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def make_counting(step: tf.Variable) -> Counting:
    """Makes the counter variable, colocated with the step variable.

    Must be called in ``tf.init_scope``, where functions may make variables.
    """
    if tf.executing_eagerly():
        counter = tf.Variable(0.0, trainable=False, name=COUNTER_NAME)
        return Counting(counter, new_counter())
    with tf_ops.colocate_with(step):
        counter = tf.compat.v1.get_variable(
            _free_name(),
            shape=(),
            dtype=tf.float32,
            initializer=tf.compat.v1.zeros_initializer(),
            trainable=False,
        )
    return Counting(counter, counter.op.name)


def _free_name() -> str:
    """Returns the name of a new counter variable.

    It is the name that ``tf.contrib.opt`` gives it, with a number if another optimizer has taken
    it. In a variable scope that reuses variables, all optimizers share the counter, as they do with
    ``tf.contrib.opt``.
    """
    scope = tf.compat.v1.get_variable_scope()
    if scope.reuse:
        return COUNTER_NAME
    taken = {variable.op.name for variable in tf.compat.v1.global_variables()}
    prefix = f"{scope.name}/" if scope.name else ""
    candidates = (COUNTER_NAME if i == 0 else f"{COUNTER_NAME}_{i}" for i in itertools.count())
    return next(name for name in candidates if prefix + name not in taken)


def summarize(stale_counter: tf.Variable, step: tf.Variable, gate: StalenessGate) -> None:
    """Adds summaries of the counter and the staleness. Running them decides no update."""
    with on_host():  # Summary kernels run on the CPU.
        ratio = stale_counter / tf.cast(step + 1, tf.float32)
        tf.compat.v1.summary.scalar("Gradient staleness percentage", ratio)
        tf.compat.v1.summary.histogram("Gradient_staleness", gate.recent_staleness())
