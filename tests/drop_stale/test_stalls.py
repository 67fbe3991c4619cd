"""Tests of the warning about an accepted update that does not end."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from tests.processes.isolated import isolated
from tests.support.waiting import Background, until
from tf_condacc import DropStaleGradientOptimizer

v1 = tf.compat.v1
NUM_DROPPED = 5
# The test is repeated with longer and longer limits, until five drops are made within one.
LIMITS = [0.05 * 4**n for n in range(7)]
pytestmark = isolated({"TF_CPP_MIN_LOG_LEVEL": "1"})


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


@contextlib.contextmanager
def under_way(name: str, drops: int = 0) -> Iterator[None]:
    """Delays an update until the end of the context, which begins when others were dropped."""
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
        session.run(train_other)  # The first run takes longer than the others.
        session.run(step.assign(7))
        update = Background(session.run, train)
        session.run(begun)
        for _ in range(drops):
            session.run(train_other)
        assert session.run(num_dropped) == drops
        yield
        session.run(go_on)
        update.result()


class Warnings:
    """The warnings on the standard error so far, and the limit of an update."""

    def __init__(self, capfd: Any, monkeypatch: Any) -> None:
        self._capfd, self._monkeypatch, self._text = capfd, monkeypatch, ""

    def set_limit(self, secs: float) -> None:
        self._monkeypatch.setenv("TF_CONDACC_STALL_WARNING_SECS", str(secs))

    def about(self, optimizer: str) -> list[str]:
        self._text += self._capfd.readouterr().err
        lines = self._text.rpartition("\n")[0].splitlines()
        return [line for line in lines if "under way" in line and f"'{optimizer}'" in line]

    def await_one_about_another(self, name: str) -> None:
        """Lets another update be warned about. Warnings come in the order of their times."""
        with under_way(name):
            until(lambda: self.about(name), f"a warning about {name}")


@pytest.fixture
def warnings(capfd, monkeypatch) -> Warnings:
    return Warnings(capfd, monkeypatch)


def test_update_that_does_not_end_is_warned_about_once(ours, warnings):
    for limit in LIMITS:
        warnings.set_limit(limit)
        name = f"HeldUp{limit:g}"
        with under_way(name, NUM_DROPPED):
            until(lambda name=name: warnings.about(name), "the warning")
            # A second warning after the same time would come before this one.
            warnings.await_one_about_another(f"Later{limit:g}")
            (line,) = warnings.about(name)
        assert re.search(r"step 7\b", line)
        assert f"after {limit:g} s" in line
        assert "must not" in line, "names the likely cause"
        (dropped,) = re.findall(r"\b(\d+) updates .*were dropped", line)
        assert int(dropped) <= NUM_DROPPED
        if int(dropped) == NUM_DROPPED:
            return
    pytest.fail("the number of dropped updates was never right")


def test_update_that_ends_in_time_is_not_warned_about(ours, warnings):
    for limit in LIMITS:
        warnings.set_limit(limit)
        name = f"Quick{limit:g}"
        with under_way(name):
            pass
        warnings.await_one_about_another(f"HeldUp{limit:g}")
        if not warnings.about(name):
            return
    pytest.fail("updates that ended at once were warned about")
