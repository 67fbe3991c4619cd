"""Tests of rounds: what is averaged, who computes it, and how training ends."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tf_condacc import ApplyOutcome

v1 = tf.compat.v1


@pytest.mark.parametrize(("replicas", "total"), [(3, 3), (2, 3), (1, 2), (5, 3), (3, 2)])
def test_every_round_averages_one_gradient_of_each_slot(place, training, replicas, total):
    run = training(place, replicas, total)
    run.start(last_step=8)
    for task in range(total):
        run.train_on_thread(task)
    run.join()
    run.check()
    # With fewer slots than workers, a step that has begun when training ends may complete a round.
    assert 8 <= run.values(lambda model: model.step) <= 8 + max(total - replicas, 0)
    takes = [event for event in run.log.events if event["kind"] == "take"]
    assert len(takes) >= 2 * 8


def test_without_backups_no_gradient_is_dropped(place, training):
    run = training(place, 2, 2)
    run.start(last_step=10)
    run.train_on_thread(0)
    run.train_on_thread(1)
    run.join()
    assert run.gate_state().num_dropped == 0
    pushes = [event for event in run.log.events if event["kind"] == "push"]
    assert {event["outcome"] for event in pushes} == {ApplyOutcome.ADDED}


def test_all_variables_average_the_gradients_of_the_same_steps(place, training):
    run = training(place, 1, 3)
    run.start(last_step=8)
    for task in range(3):
        run.train_on_thread(task)
    run.join()
    takes: dict = {}
    for event in run.log.events:
        if event["kind"] == "take":
            takes.setdefault(event["round"], []).append(event["total"])
    assert all(len(set(totals)) == 1 for totals in takes.values())


def test_workers_that_make_their_own_number_of_runs_and_leave_do_not_stop_the_others(
    place, training
):
    run = training(place, 3, 3)
    run.start()
    for task, count in enumerate((20, 12, 5)):
        run.train_on_thread(task, count)
    run.join()
    run.check()


def test_a_worker_of_few_runs_takes_nothing_that_another_needs(place, training):
    """A fast worker takes the token of a slow one in the original, and both wait forever."""
    run = training(place, 2, 2)
    run.start()
    run.train_on_thread(1, 8)
    run.train_on_thread(0, 8)
    run.join()
    run.check()
    assert run.gate_state().round >= 9


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


def test_explicit_tokens_let_workers_run_one_after_the_other(place, training):
    run = training(place, 2, 2)
    for model in run.models:
        hook = model.hook(num_tokens=2)
        with model.graph.as_default():
            run.sessions[model.task] = v1.train.MonitoredTrainingSession(
                place.targets[model.task],
                model.task == 0,
                hooks=[hook],
                save_checkpoint_secs=None,
                save_summaries_steps=None,
                log_step_count_steps=None,
            )
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


def test_a_run_of_more_slots_than_workers_needs_no_token(place, training):
    run = training(place, 3, 1)
    run.start()
    for _ in range(6):
        run.step(0)
    run.await_state(lambda state: state.round >= 3)
    run.check()
