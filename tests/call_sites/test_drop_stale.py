"""Tests of DropStaleGradientOptimizer in the shapes in which legacy programs call it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.support.drop_stale_support import (
    START,
    Interlude,
    LateTraining,
    drop_stale,
    global_step,
    half_square,
)
from tests.support.drop_stale_support import new_session as session_for_nested_steps

v1 = tf.compat.v1


def clip_by_global_norm(optimizer, loss, step, variables):
    """Trains as programs that clip gradients do, with gradients that are too long by far."""
    gradients, variables = zip(*optimizer.compute_gradients(loss, variables), strict=True)
    clipped, norm = tf.clip_by_global_norm(gradients, 2.0)
    v1.add_to_collection("norms", norm)
    return optimizer.apply_gradients(zip(clipped, variables, strict=True), global_step=step)


def two_vectors(interlude):
    """Returns a loss whose gradients, of 2.0 each, are known when the interlude is over."""
    first = v1.get_variable("first", initializer=tf.constant([8.0, 8.0]))
    second = v1.get_variable("second", initializer=tf.constant([8.0, 8.0]))
    ones = tf.stop_gradient(tf.sign(interlude(tf.convert_to_tensor(first))))
    return tf.reduce_sum((first + second) * ones * 2.0), [first, second]


def test_gradients_clipped_by_their_global_norm_are_applied_or_dropped_together(switches):
    training = LateTraining(model=two_vectors, apply=clip_by_global_norm)
    (norm,) = v1.get_collection("norms")
    assert training.value(norm) == 4.0
    drops = [training.run(late_by=late) for late in (0, 2, 0, 1, 0)]
    assert drops == [0.0, 1.0, 1.0, 2.0, 2.0]
    # Three updates are applied. Gradients are halved, and the learning rate is one half.
    np.testing.assert_array_equal(training.value(training.variables), np.full([2, 2], 6.5))
    assert training.counts() == (3, 2)
    assert training.value(training.step) == 6
    training.close()


def test_update_ops_grouped_with_minimize_run_for_dropped_gradients_too(switches):
    step, interlude = global_step(), Interlude()
    weights = v1.get_variable("w", initializer=tf.constant(START))
    average = v1.get_variable("average", [], initializer=v1.zeros_initializer(), trainable=False)
    batch = v1.placeholder(tf.float32, [2])
    update = v1.assign_sub(average, (average - tf.reduce_mean(batch)) * 0.5)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    loss = half_square(interlude(tf.convert_to_tensor(weights)))
    optimizer = drop_stale()
    train = tf.group(
        optimizer.minimize(loss, global_step=step), *v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    )
    advance = v1.assign_add(step, 1)
    with session_for_nested_steps() as session:
        session.run(v1.global_variables_initializer())
        seen = []
        for late in (False, True, False):
            interlude.action = (lambda: session.run(advance)) if late else (lambda: None)
            session.run(train, {batch: [4.0, 12.0]})
            seen.append(session.run([weights[0], average, step]))
        counts = session.run([optimizer.num_accepted(), optimizer.num_dropped()])
    assert seen == [[2.0, 4.0, 1], [2.0, 6.0, 2], [1.0, 7.0, 3]]
    assert counts == [2, 1]
