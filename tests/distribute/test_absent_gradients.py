"""Tests of gradients that are None, or have no rows, on replicas.

They share a strategy and a process: TensorFlow numbers the collective operations of each strategy
from the same number on, and those of a second one that have other shapes fail.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.distribute.training import mirrored, use_cpus
from tests.processes.isolated import isolated
from tests.support.absent_gradients import (
    OPTIMIZERS,
    TASKS,
    Functions,
    as_tensor,
    expected,
    make_variables,
)
from tests.support.wide import all_but_wide

v1 = tf.compat.v1
pytestmark = isolated()


@pytest.fixture(scope="module")
def strategy() -> tf.distribute.Strategy:
    use_cpus(2)
    return mirrored()


@pytest.mark.parametrize(
    "in_function", all_but_wide([False, True], [True]), ids=["eager", "function"]
)
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_replicas_leave_out_a_variable_that_has_no_gradient_on_any(strategy, in_function):
    with strategy.scope():
        variables, optimizer = make_variables(), OPTIMIZERS["decay"]()
        optimizer.build(variables)
        accumulator = tf_condacc.GradientAccumulator(variables, 4)

    def apply(gradients):  # Each replica has half of the gradient: the optimizer adds them up.
        halves = [None if one is None else one / 2 for one in gradients]
        return accumulator.apply_gradients(optimizer, halves)

    call: Callable = functools.partial(strategy.run, apply)
    if in_function:
        apply_in_function = Functions(apply, strategy.run)
        call = lambda args: apply_in_function(*args)  # noqa: E731
    for gradients in TASKS:
        call(([as_tensor(one) for one in gradients],))
    for variable, value in zip(variables, expected(OPTIMIZERS["decay"](), TASKS, 4), strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-6)


@pytest.mark.parametrize("rows", [([], []), ([], [2]), ([1, 2], [2])], ids=str)
@pytest.mark.parametrize(
    "in_function", all_but_wide([False, True], [True]), ids=["eager", "function"]
)
def test_replicas_may_have_sparse_gradients_without_rows(strategy, rows, in_function):
    with strategy.scope():
        variable = tf.Variable(tf.zeros([4, 2]))
        accumulator = tf_condacc.GradientAccumulator([variable], 1)
    optimizer = v1.train.GradientDescentOptimizer(1.0)

    def apply():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        ids = tf.constant(rows[tf.get_static_value(replica)], tf.int64)
        values = tf.ones([tf.size(ids), 2])
        return accumulator.apply_gradients(optimizer, [tf.IndexedSlices(values, ids)])

    run = functools.partial(strategy.run, apply)
    (tf.function(run) if in_function else run)()
    counts = np.bincount([*rows[0], *rows[1]], minlength=4)
    assert variable.numpy()[:, 0].tolist() == (-counts).tolist()


@pytest.mark.parametrize("without", [0, 1])
@pytest.mark.parametrize(
    "in_function", all_but_wide([False, True], [True]), ids=["eager", "function"]
)
def test_a_gradient_may_be_none_on_one_of_the_replicas(strategy, without, in_function):
    ones = [tf.ones(shape) for shape in ([], [], [2], [2])]
    with strategy.scope():
        variables = [tf.Variable(tf.zeros_like(one)) for one in ones]
        accumulator = tf_condacc.GradientAccumulator(variables, 2)
    optimizer = v1.train.MomentumOptimizer(1.0, 0.5)

    def apply():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        is_without = tf.get_static_value(replica) == without
        gradients = [None if is_without and at % 2 else one for at, one in enumerate(ones)]
        return accumulator.apply_gradients(optimizer, gradients)

    run = functools.partial(strategy.run, apply)
    step = tf.function(run) if in_function else run
    for _ in range(4):
        step()
    values = [variable.numpy().tolist() for variable in variables]
    assert values == [-5.0, -2.5, [-5.0] * 2, [-2.5] * 2]
