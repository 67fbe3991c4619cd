"""Tests of waiting takes: they hold no thread, and are served in the order in which they came.

The tests of cancelled takes are in test_cancellation.py.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import every_kind, needs_resource, unique_name
from tests.support.waiting import Background

v1 = tf.compat.v1
pytestmark = every_kind


def test_take_waits_for_enough_gradients(impl, driver):
    acc = driver(impl)
    waiting = acc.start_take(3)
    for value in (1.0, 2.0):
        acc.apply([value])
        assert not waiting.done
    assert acc.count() == 2
    acc.apply([6.0])
    np.testing.assert_array_equal(waiting.result(), [3.0])
    assert acc.count() == 0


def test_four_waiting_takes_in_one_step_on_one_thread_are_completed_by_its_applies(impl):
    config = v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        accumulators = [impl.dense(tf.float32, []) for _ in range(4)]
        takes = [acc.take_grad(2) for acc in accumulators]
        applies = [acc.apply_grad(v) for acc in accumulators for v in (1.0, 3.0)]
        assert session.run([takes, applies])[0] == [2.0] * 4


def test_takes_are_served_in_the_order_of_their_arrival(impl, graph_driver):
    """The takes wait on the only thread of the session, which runs the applies as well."""
    acc = graph_driver(impl)
    waiting = [acc.start_take(1) for _ in range(6)]
    for step in range(6):
        acc.apply([float(step)], step)
        assert waiting[step].result() == [float(step)]
        assert not any(w.done for w in waiting[step + 1 :])


def test_first_take_holds_back_those_behind_it(impl, driver):
    acc = driver(impl, reduction_type="SUM")
    first = acc.start_take(3)
    acc.apply([1.0])
    second = acc.start_take(1)
    acc.apply([1.0])
    assert acc.count() == 2, "take(1) must wait behind take(3)"
    assert not second.done
    acc.apply([1.0])
    assert first.result() == [3.0]
    assert acc.count() == 0 and not second.done
    acc.apply([5.0], 1)
    assert second.result() == [5.0]


@needs_resource
def test_eager_take_holds_up_only_its_own_thread(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    waiting = Background(lambda: acc.take_grad(2).numpy())
    waiting.wait_until_blocked()
    assert (tf.ones([3]) + 1.0).numpy().tolist() == [2.0] * 3
    acc.apply_grad(1.0)
    assert int(acc.num_accumulated()) == 1
    acc.apply_grad(3.0)
    assert waiting.result() == 2.0


@needs_resource
def test_take_in_a_function_is_completed_by_an_eager_apply(impl):
    acc = impl.dense(tf.float32, [], shared_name=unique_name())
    waiting = Background(lambda: tf.function(lambda: acc.take_grad(1))().numpy())
    waiting.wait_until_blocked()
    acc.apply_grad(5.0)
    assert waiting.result() == 5.0
