"""Tests of rounds: what is averaged, who computes it, and how training ends."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tf_condacc import ApplyOutcome

v1 = tf.compat.v1


@pytest.mark.parametrize(("replicas", "total"), [(3, 3), (2, 3), (1, 2), (5, 3), (3, 2)])
def test_every_round_averages_one_gradient_of_each_slot(two_ps, training, replicas, total):
    run = training(two_ps, replicas, total)
    run.start(last_step=8)
    for task in range(total):
        run.train_on_thread(task)
    run.join()  # The chief of the original waits for its queue runner until a time has passed.
    assert not run.gate_state().open
    run.check()
    # With fewer slots than workers, a step that has begun when training ends may complete a round.
    assert 8 <= run.values(lambda model: model.step) <= 8 + max(total - replicas, 0)
    totals: dict[int, list[int]] = {}
    for event in run.log.events:
        if event["kind"] == "take":
            totals.setdefault(event["round"], []).append(event["total"])
    assert sum(map(len, totals.values())) >= 2 * 8
    # Both variables average the gradients of the same steps.
    assert all(len(set(each)) == 1 for each in totals.values())
    if replicas == total:
        assert run.gate_state().num_dropped == 0
        pushes = [event for event in run.log.events if event["kind"] == "push"]
        assert {event["outcome"] for event in pushes} == {ApplyOutcome.ADDED}


def test_workers_that_make_their_own_number_of_runs_and_leave_do_not_stop_the_others(
    two_ps, training
):
    run = training(two_ps, 3, 3)
    run.start()
    for task, count in enumerate((20, 12, 5)):
        run.train_on_thread(task, count)
    run.join()
    run.check()


def test_drops_are_visible_to_the_worker(two_ps, training):
    run = training(two_ps, 1, 2)
    run.start()
    run.step(0)
    run.await_state(lambda state: state.round >= 2)
    model = run.models[1]
    fetches = [model.optimizer.gradients_dropped, *model.fetches]
    assert run.sessions[1].run(fetches)[0]
    assert run.gate_state().num_dropped == 1
    assert not run.sessions[1].run(fetches)[0]
    run.await_state(lambda state: state.round >= 3)
    run.check()


def test_explicit_tokens_let_workers_run_one_after_the_other(two_ps, training):
    run = training(two_ps, 2, 2)
    run.start(num_tokens=2)
    run.step(0)  # Both return at once, with a token.
    run.step(1)
    run.await_state(lambda state: state.round >= 2)
    assert run.values(lambda model: model.step) == 1
    run.step(0)  # Their tokens belong to the first round.
    run.step(1)
    assert run.values(lambda model: model.step) == 1
    run.steps_on_thread(0)
    run.steps_on_thread(1)
    run.join()
    run.await_state(lambda state: state.round >= 3)
    run.check()
