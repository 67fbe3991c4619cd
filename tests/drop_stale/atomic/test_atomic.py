"""Tests of gradients that become ready together: the limit holds between all accepted ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf

from tests.support.drop_stale_atomic_support import (
    Descent,
    check_at_rest,
    dropping,
    last_decision,
    reach,
)
from tests.support.drop_stale_support import every_switches, half_square
from tests.support.many_threads import many_threaded_session

v1 = tf.compat.v1
NUM_WORKERS = 5


@every_switches
@pytest.mark.parametrize("num_optimizers", [1, NUM_WORKERS])
def test_of_updates_that_are_ready_together_one_is_accepted(switches, num_optimizers, rounds):
    """The workers have optimizers of their own, or use one of them several times."""
    graph = v1.get_default_graph()
    step = v1.train.get_or_create_global_step()
    weights = v1.get_variable("weights", initializer=tf.constant(0.0))
    optimizers = [dropping(0)(Descent()) for _ in range(num_optimizers)]
    workers = optimizers * (NUM_WORKERS // num_optimizers)
    computed = [each.compute_gradients(half_square(weights * 1.0))[0][0] for each in workers]
    with tf.control_dependencies(computed):
        ones = [gradient * 0.0 + 1.0 for gradient in computed]
    trains, accepted = [], []
    for worker, gradient in zip(workers, ones, strict=True):
        trains.append(worker.apply_gradients([(gradient, weights)], step))
        accepted.append(last_decision(graph).outputs[0])
    num_accepted = tf.add_n([each.num_accepted() for each in optimizers])
    num_dropped = tf.add_n([each.num_dropped() for each in optimizers])
    jump_to = v1.placeholder(tf.int64, [])
    jump = v1.assign(step, jump_to, use_locking=True)
    at_rest = SimpleNamespace(step=step, reach=reach(step), jump_to=jump_to, jump=jump)
    init = v1.global_variables_initializer()
    with many_threaded_session(graph) as session:
        session.run(init)
        for number in range(1, rounds + 1):
            assert sum(session.run([accepted, trains])[0]) == 1
            assert session.run([step, weights]) == [number, -number]
        assert session.run([num_accepted, num_dropped]) == [rounds, (NUM_WORKERS - 1) * rounds]
        check_at_rest(at_rest, session.run)
