"""Tests of the warning about an accepted update that does not end."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import tensorflow as tf

from tests.processes.isolated import isolated
from tf_condacc import DropStaleGradientOptimizer

v1 = tf.compat.v1
LIMIT_SECS = 1
NUM_DROPPED = 5
pytestmark = isolated(
    {"TF_CPP_MIN_LOG_LEVEL": "1", "TF_CONDACC_STALL_WARNING_SECS": str(LIMIT_SECS)}
)


class WaitingOptimizer(v1.train.GradientDescentOptimizer):
    """Reports that it may apply gradients, and waits until it is told to go on."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.begun, self.may_go_on = (tf.queue.FIFOQueue(1, [tf.bool], [[]]) for _ in range(2))

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        with tf.control_dependencies([self.begun.enqueue(True)]):
            go_on = self.may_go_on.dequeue()
        with tf.control_dependencies([go_on]):
            grads_and_vars = [(tf.identity(gradient), var) for gradient, var in grads_and_vars]
        return super().apply_gradients(grads_and_vars, *args, **kwargs)


def train(name: str, seconds_under_way: float) -> None:
    """Delays one update for some time, while others are dropped."""
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=1.0, use_resource=True)
        step = v1.train.get_or_create_global_step()
        waiting = WaitingOptimizer()
        held_up = DropStaleGradientOptimizer(waiting, 0, name=name)
        other = DropStaleGradientOptimizer(v1.train.GradientDescentOptimizer(1.0), 0)
        train, train_other = (opt.minimize(weight * 3, step) for opt in (held_up, other))
        begun, go_on = waiting.begun.dequeue(), waiting.may_go_on.enqueue(True)
        num_dropped = other.num_dropped()
        session.run(v1.global_variables_initializer())
        session.run(step.assign(7))
        thread = threading.Thread(target=session.run, args=[train])
        thread.start()
        session.run(begun)
        for _ in range(NUM_DROPPED):
            session.run(train_other)
        assert session.run(num_dropped) == NUM_DROPPED
        time.sleep(seconds_under_way)
        session.run(go_on)
        thread.join()


def warnings_about(optimizer: str, capfd: Any) -> list[str]:
    lines = capfd.readouterr().err.splitlines()
    return [line for line in lines if "under way" in line and f"'{optimizer}'" in line]


def test_update_that_does_not_end_is_warned_about_once(ours, capfd):
    # The update takes several times the limit, so that a second warning would show.
    train("HeldUp", 3.5 * LIMIT_SECS)
    (line,) = warnings_about("HeldUp", capfd)
    assert re.search(r"step 7\b", line)
    assert re.search(r"\b1 s\b", line), "how long"
    assert re.search(rf"\b{NUM_DROPPED} updates .*were dropped", line)
    assert "must not" in line, "names the likely cause"


def test_update_that_ends_in_time_is_not_warned_about(ours, capfd):
    train("Quick", 0)
    time.sleep(1.5 * LIMIT_SECS)
    assert warnings_about("Quick", capfd) == []
