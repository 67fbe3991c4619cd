"""Tests of the state of eager accumulators: which objects share it, and when it is freed."""

from __future__ import annotations

import gc
import signal
import weakref

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import raw
from tests.processes.isolated import isolated
from tests.support.accumulator_support import every_kind, needs_resource, unique_name
from tests.support.memory import MEGABYTE, memory
from tests.support.waiting import Background, until

# TensorFlow aborts the process if its cached operations are cleared, such as by
# `tf.random.set_seed`, after an eager accumulator is gone.
_original_goes = isolated()
# Runs a test in a process in which accumulators hold no gradients for a faster take.
_holds_nothing = isolated({"TF_CONDACC_HOLD_BYTES": "0"})


@_original_goes
def test_original_shares_one_eager_state_between_equal_objects(original):
    first = original.dense(tf.float32, [], name="shared_by_accident")
    first.apply_grad(1.0)
    second = original.dense(tf.float32, [], name="shared_by_accident")
    assert int(second.num_accumulated()) == 1


@every_kind
def test_each_object_has_its_own_state(ours):
    accumulators = [ours.dense(tf.float32, [], name="same") for _ in range(10)]
    for count, acc in enumerate(accumulators):
        for _ in range(count):
            acc.apply_grad(float(count))
    assert [int(acc.num_accumulated()) for acc in accumulators] == list(range(10))
    accumulators[3].take_grad(1)
    assert [int(acc.global_step()) for acc in accumulators] == [0, 0, 0, 1] + [0] * 6
    del accumulators[:9], acc
    gc.collect()
    assert accumulators[0].take_grad(1).numpy() == 9.0
    for _ in range(20):
        acc = ours.dense(tf.float32, [3], name="same")
        assert int(acc.num_accumulated()) == 0
        acc.apply_grad([1.0, 2.0, 3.0])
        np.testing.assert_array_equal(acc.take_grad(1), [1.0, 2.0, 3.0])
        del acc


@every_kind
def test_object_is_collected_without_the_cycle_collector(ours):
    gc.collect()
    gc.disable()
    try:
        acc = ours.dense(tf.float32, [])
        watch = weakref.ref(acc)
        acc.apply_grad(1.0)
        del acc
        assert watch() is None
    finally:
        gc.enable()


@every_kind
def test_resource_lives_as_long_as_its_handle(ours):
    acc = ours.dense(tf.float32, [])
    acc.apply_grad(1.0)
    handle = acc.accumulator_ref
    del acc
    gc.collect()
    assert int(raw(ours.kind, "count", handle, None)) == 1
    taken = tf.nest.flatten(raw(ours.kind, "take", handle, tf.float32, required=1))
    assert taken[len(taken) // 2].numpy() == 1.0  # The values of sparse ones are in the middle.


@_holds_nothing
@every_kind
def test_memory_is_given_back_with_the_object(ours):
    gradient = tf.ones([25 * MEGABYTE])
    before = memory().held
    for _ in range(3):
        acc = ours.dense(tf.float32)
        acc.apply_grad(gradient)
        acc.apply_grad(gradient * 2.0)
        assert memory().held > before + 50 * MEGABYTE, "a gradient has 100 MB"
        del acc
        until(lambda: memory().held <= before, "the object's memory is freed")


@pytest.mark.parametrize("owned", [False, True])
@_holds_nothing
@every_kind
def test_memory_does_not_grow_with_the_number_of_gradients_accumulated(ours, owned):
    acc = ours.dense(tf.float32, reduction_type="SUM")
    kept = tf.ones([MEGABYTE])
    one = tf.Variable(1.0)

    @tf.function
    def apply_owned():
        acc.apply_grad(tf.fill([MEGABYTE], 1.0) * one)

    def peak_of(times):
        memory()
        for _ in range(times):
            apply_owned() if owned else acc.apply_grad(kept)
        return memory().peak

    # An apply adds what is pending as soon as that is more than one gradient.
    assert peak_of(4) >= peak_of(16) > 0
    np.testing.assert_array_equal(acc.take_grad(20), np.full([MEGABYTE], 20.0))


@every_kind
@needs_resource
def test_a_shared_name_joins_eager_objects_one_of_which_may_go(impl):
    name = unique_name("joined")
    first = impl.dense(tf.float32, [], shared_name=name)
    second = impl.dense(tf.float32, [], shared_name=name)
    first.apply_grad(2.0)
    second.apply_grad(4.0)
    assert first.take_grad(2).numpy() == 3.0
    assert int(second.num_accumulated()) == 0
    if impl.ours:
        second.apply_grad(2.0, 1)
        del first
        gc.collect()
        assert second.take_grad(1).numpy() == 2.0


@every_kind
def test_shared_name_can_be_used_again_after_its_objects_are_gone(ours):
    name = unique_name("again")
    for _ in range(3):
        acc = ours.dense(tf.float32, [], shared_name=name)
        acc.set_global_step(0)
        before = int(acc.num_accumulated())
        acc.apply_grad(2.0, 100)
        assert int(acc.num_accumulated()) == before + 1
        del acc
        gc.collect()


@_original_goes
def test_original_is_dead_on_arrival_after_a_deleted_equal_object(original):
    acc = original.dense(tf.float32, [], name="dead_on_arrival")
    del acc
    gc.collect()
    second = original.dense(tf.float32, [], name="dead_on_arrival")
    with pytest.raises(tf.errors.NotFoundError, match="does not exist"):
        second.num_accumulated()


def clear_caches_after_an_object_is_gone(implementation) -> None:
    acc = implementation.dense(tf.float32, [], name="gone")
    del acc
    gc.collect()
    implementation.dense(tf.float32, [], name="gone")
    gc.collect()
    tf.random.set_seed(1)  # Clears the cached operations.


@isolated(status=-signal.SIGABRT)
def test_original_aborts_the_process_when_a_seed_is_set_after_an_object_is_gone(original):
    clear_caches_after_an_object_is_gone(original)


@every_kind
def test_a_seed_may_be_set_after_an_object_is_gone(ours):
    clear_caches_after_an_object_is_gone(ours)


@every_kind
def test_object_may_go_while_another_thread_waits_in_it(ours):
    acc = ours.dense(tf.float32, [])
    handle = acc.accumulator_ref
    waiting = Background(lambda: raw(ours.kind, "take", handle, tf.float32, required=1))
    waiting.wait_until_blocked()
    del acc
    gc.collect()
    other = ours.dense(tf.float32, [])
    other.apply_grad(1.0)
    assert other.take_grad(1).numpy() == 1.0
    # The resource has left its manager. The take that waits in it either fails or keeps waiting.
    if waiting.done:
        assert isinstance(waiting.error(), tf.errors.OpError)
