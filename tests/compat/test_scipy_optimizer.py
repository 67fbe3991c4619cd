"""`tf.contrib.opt.ScipyOptimizerInterface`, against minima that are known."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tf_condacc.compat.scipy_optimizer import ScipyOptimizerInterface


@pytest.fixture
def variables(v1_graph):
    """A [2] float32 and a [] float64 variable, and their session."""
    pytest.importorskip("scipy")
    x = tf.get_variable("x", initializer=[5.0, -3.0])
    y = tf.get_variable("y", initializer=tf.constant(4.0, tf.float64), use_resource=False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        yield session, x, y


def _loss(x, y, target):
    return tf.reduce_sum(tf.square(x - target)) + tf.cast(tf.square(y - 2.0), tf.float32)


@pytest.mark.parametrize(
    ("options", "expected_x", "expected_y"),
    [
        ({}, [1.0, -1.0], 2.0),
        ({"var_list": "x"}, [1.0, -1.0], 4.0),
        ({"var_to_bounds": ([2.0, -np.inf], [np.inf, -2.0])}, [2.0, -2.0], 2.0),
        ({"method": "SLSQP", "equalities": True}, [1.5, -0.5], 2.0),
        ({"method": "SLSQP", "inequalities": True}, [1.0, -1.0], 3.0),
    ],
    ids=["free", "one variable", "bounds", "equality", "inequality"],
)
def test_the_minimum_is_found(variables, options, expected_x, expected_y):
    session, x, y = variables
    target = tf.placeholder(tf.float32, [2])
    if "var_list" in options:
        options = {"var_list": [x]}
    if "var_to_bounds" in options:
        options = {"var_to_bounds": {x: options["var_to_bounds"]}}
    if "equalities" in options:
        options |= {"equalities": [tf.reduce_sum(x) - 1.0]}
    if "inequalities" in options:
        options |= {"inequalities": [y - 3.0]}
    optimizer = ScipyOptimizerInterface(_loss(x, y, target), **options)
    losses, steps = [], []
    optimizer.minimize(
        session,
        feed_dict={target: [1.0, -1.0]},
        fetches=[y],
        loss_callback=losses.append,
        step_callback=lambda values: steps.append(values.copy()),
    )
    found = session.run([x, y])
    assert np.allclose(found[0], expected_x, atol=1e-3)
    assert np.allclose(found[1], expected_y, atol=1e-3)
    assert losses[0] == 4.0
    size = 2 if "var_list" in options else 3
    assert {step.shape for step in steps} == {(size,)}


def test_after_an_error_the_variables_have_their_values_of_before(variables):
    session, x, y = variables
    optimizer = ScipyOptimizerInterface(_loss(x, y, 0.0))
    evaluations = []

    def fail_later():
        evaluations.append(None)
        if len(evaluations) == 3:
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        optimizer.minimize(session, loss_callback=fail_later)
    assert [each.tolist() for each in session.run([x, y])] == [[5.0, -3.0], 4.0]


def test_bad_arguments_are_refused(v1_graph):
    pytest.importorskip("scipy")
    loss = tf.square(tf.get_variable("x", []))
    with pytest.raises(ValueError, match="sets the argument bounds automatically; use var_to"):
        ScipyOptimizerInterface(loss, bounds=[(0, 1)])
    with pytest.raises(ValueError, match="no variables"):
        ScipyOptimizerInterface(loss, var_list=[])
    with pytest.raises(ValueError, match="pass session"):
        ScipyOptimizerInterface(loss).minimize()


def test_without_scipy_the_error_names_it(v1_graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ImportError, match="needs SciPy, which is missing: pip install scipy"):
        ScipyOptimizerInterface(tf.constant(1.0), var_list=[tf.get_variable("x", [])])
