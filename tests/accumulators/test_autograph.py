"""Tests of AutoGraph, which converts programs that use accumulators, but not this package."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc

v1 = tf.compat.v1


class Gradient:
    """A gradient that notes the functions of AutoGraph that lead to its conversion to an array."""

    def __init__(self) -> None:
        self.converted: set[str] = set()

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        names = [frame.function for frame in inspect.stack()]
        self.converted.update(name for name in names if name.startswith("tf__"))
        return np.ones([2], np.float32)


@pytest.mark.parametrize("is_micro_batch", [False, True], ids=["accumulator", "micro-batches"])
def test_methods_of_accumulators_are_not_converted(is_micro_batch):
    if is_micro_batch:
        variable = tf.Variable([0.0, 0.0])
        accumulator = tf_condacc.GradientAccumulator([variable], 1)
        apply = lambda gradient: accumulator.accumulate([gradient])  # noqa: E731
    else:
        apply = tf_condacc.ConditionalAccumulator(tf.float32, [2]).apply_grad
    gradient = Gradient()

    @tf.function
    def step():
        apply(gradient)

    step()
    assert gradient.converted == {"tf__step"}


def test_methods_may_be_default_values_of_arguments():
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [])
    micro_batches = tf_condacc.GradientAccumulator([tf.Variable(0.0)], 1)
    both = [accumulator.try_apply_grad, lambda gradient: micro_batches.accumulate([gradient])]
    for apply in both:
        assert tf.function(lambda x, apply=apply: apply(x))(tf.constant(1.0))
    take = tf.function(lambda take=micro_batches.take: take())
    assert float(take()[0]) == 1.0


class Halving(v1.train.GradientDescentOptimizer):
    """Halves all gradients if a variable is true, which only AutoGraph can put into a graph."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.halves = tf.Variable(False)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        factor = tf.constant(1.0)
        if self.halves:
            factor = tf.constant(0.5)
        pairs = [(gradient * factor, variable) for gradient, variable in grads_and_vars]
        return super().apply_gradients(pairs, global_step, name)


@pytest.mark.parametrize("autograph", [True, False])
def test_methods_of_the_optimizer_are_converted_if_the_caller_is(autograph):
    variable, optimizer = tf.Variable(0.0), Halving()
    accumulator = tf_condacc.GradientAccumulator([variable], 1)

    def step():
        accumulator.apply_gradients(optimizer, [tf.constant(1.0)])

    step_in_function = tf.function(step, autograph=autograph)
    if not autograph:
        with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
            step_in_function()
        return
    step_in_function()
    optimizer.halves.assign(True)
    step_in_function()
    assert float(variable) == -1.5
