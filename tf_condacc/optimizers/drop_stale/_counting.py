"""What counts the updates of an optimizer that drops stale gradients."""

from __future__ import annotations

import itertools

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from tf_condacc._host import on_host
from tf_condacc.optimizers.drop_stale._gate import StalenessGate, new_counter

COUNTER_NAME = "stale_counter"


class Counting:
    """What counts an optimizer's updates in one graph, or eagerly.

    Attributes:
        stale_counter: A float32 variable.
        name: Of the counters in the gates.
        gates: By the identity of their step variables, which they keep.
    """

    def __init__(self, stale_counter: tf.Variable, name: str) -> None:
        self.stale_counter = stale_counter
        self.name = name
        self.gates: dict[int, StalenessGate] = {}


def outermost_graph() -> tf.Graph | None:
    """The graph that is not a function's body, or None eagerly."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def make_counting(step: tf.Variable) -> Counting:
    """Makes the variable, beside the step. To be called where variables may be made."""
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
    """The original's name of the counter variable, with a number where an instance has it already.

    Where variables are reused the original's instances share the counter, and so do ours.
    """
    scope = tf.compat.v1.get_variable_scope()
    if scope.reuse:
        return COUNTER_NAME
    taken = {variable.op.name for variable in tf.compat.v1.global_variables()}
    prefix = f"{scope.name}/" if scope.name else ""
    candidates = (COUNTER_NAME if i == 0 else f"{COUNTER_NAME}_{i}" for i in itertools.count())
    return next(name for name in candidates if prefix + name not in taken)


def summarize(stale_counter: tf.Variable, step: tf.Variable, gate: StalenessGate) -> None:
    """Adds summaries that read what is there when they are run, and decide nothing themselves."""
    with on_host():  # where summaries are made
        ratio = stale_counter / tf.cast(step + 1, tf.float32)
        tf.compat.v1.summary.scalar("Gradient staleness percentage", ratio)
        tf.compat.v1.summary.histogram("Gradient_staleness", gate.recent_staleness())
