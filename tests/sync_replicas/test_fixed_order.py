"""Tests of rounds whose gradients are added in the order of their slots."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

import tf_condacc
from tests.support.sync_replicas_program import monitored, own_step
from tests.support.waiting import in_threads, work
from tests.sync_replicas.training import OneProcess

v1 = tf.compat.v1
ROUNDS, SLOTS = 6, 3
# Numbers of very different sizes, so that the order of additions shows in the weights.
_RANDOM = np.random.default_rng(5)
EXAMPLES = (
    _RANDOM.standard_normal([ROUNDS, SLOTS, 8])
    * 10.0 ** _RANDOM.integers(-4, 5, [ROUNDS, SLOTS, 8])
).astype(np.float32)
_numbers = itertools.count()


class Worker:
    """A worker whose gradients depend on nothing but the weights and its round and slot."""

    def __init__(self, task: int, name: str, device: Any, deterministic: bool | None) -> None:
        self.graph = tf.Graph()
        self.is_chief = task == 0
        self._chance = random.Random(task)
        worker = f"/job:worker/task:{task}" if device is not None else ""
        with self.graph.as_default(), v1.device(device):
            self.step = own_step(f"{name}_step")
            shape, initializer = [8], v1.ones_initializer()
            self.dense = v1.get_variable(f"{name}_w", shape, initializer=initializer)
            self.rows = v1.get_variable(f"{name}_e", [4, 8], initializer=initializer)
            self.optimizer = tf_condacc.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(0.125), SLOTS, name=name
            )
            self.optimizer.configure(deterministic=deterministic)
            with v1.device(worker):
                self.place = self.optimizer.round_and_slot()
                example = tf.gather_nd(
                    EXAMPLES, [tf.minimum(self.place.round, ROUNDS - 1), self.place.slot]
                )
                wait = v1.py_func(self._wait, [self.place.slot], [])
                with tf.control_dependencies([wait]):
                    example = tf.identity(example)
                indices = tf.stack([self.place.slot, 3])  # All slots have row 3.
                rows = tf.IndexedSlices(tf.stack([example, example * 0.5]), indices)
                gradients = [(example + self.dense * 0.125, self.dense), (rows, self.rows)]
            self.train = self.optimizer.apply_gradients(gradients, global_step=self.step)

    def _wait(self, slot: int) -> None:
        """Delays the step that has claimed a slot."""
        work(self._chance.random() / 50)

    def open(self, target: str) -> None:
        """Makes the session. The chief's must be made first."""
        with self.graph.as_default():
            self.session = monitored(self.optimizer, target, self.is_chief)

    def run(self, seen: list[Any]) -> None:
        """Trains until the end. The chief appends the weights."""
        with self.session as session:
            while not session.should_stop() and session.run(self.step) < ROUNDS:
                seen.append(tuple(session.run([self.train, *self.place])[1:]))
            if self.is_chief:
                seen.append(session.run([self.dense, self.rows]))


def trained(place: Any, deterministic: bool | None, workers: int) -> tuple[bytes, list[Any]]:
    """Trains, and returns the bits of the weights, and the places of all steps."""
    name = f"ordered{next(_numbers)}"
    made = [Worker(task, name, place.device(task), deterministic) for task in range(workers)]
    for worker, target in zip(made, place.targets, strict=False):
        worker.open(target)
    seen: list[list[Any]] = [[] for _ in made]
    in_threads(*(lambda w=w, p=p: w.run(p) for w, p in zip(made, seen, strict=True)))
    weights = seen[0].pop()
    return b"".join(each.tobytes() for each in weights), list(itertools.chain(*seen))


def expected(order: Sequence[int] = range(SLOTS)) -> bytes:
    """Makes the same updates with numpy, and adds gradients in this order of the slots."""
    dense, rows = np.ones([8], np.float32), np.ones([4, 8], np.float32)
    three, half, eighth = np.float32(3), np.float32(0.5), np.float32(0.125)
    for examples in EXAMPLES:
        first, *others = examples[list(order)]
        total = first + dense * eighth
        common = first * half
        for example in others:
            total = total + (example + dense * eighth)
            common = common + example * half
        dense = dense - eighth * (total / three)
        change = np.concatenate([examples, [common / three]])
        rows = rows - eighth * change
    return dense.tobytes() + rows.tobytes()


def test_the_weights_do_not_depend_on_which_worker_comes_first(two_ps):
    assert expected([1, 2, 0]) != expected(), "with these examples, the order must matter"
    weights, places = trained(two_ps, True, SLOTS)
    assert weights == expected()
    assert set(places) >= set(itertools.product(range(ROUNDS), range(SLOTS)))


def test_fewer_workers_than_slots_make_the_same_updates():
    weights, _ = trained(OneProcess(), True, 1)
    assert weights == expected()


def test_op_determinism_adds_in_the_order_of_the_slots():
    config.enable_op_determinism()
    try:
        with tf.Graph().as_default() as graph:
            for deterministic, ordered in ((None, True), (False, False), (True, True)):
                name = f"by_config_{deterministic}"
                weights = v1.get_variable(name, initializer=tf.zeros([2]))
                step = v1.train.get_or_create_global_step()
                optimizer = tf_condacc.SyncReplicasOptimizer(
                    v1.train.GradientDescentOptimizer(1.0), 2, name=name
                )
                optimizer.configure(deterministic=deterministic)
                optimizer.apply_gradients([(tf.ones([2]), weights)], step)
                (made,) = (
                    op
                    for op in graph.get_operations()
                    if op.type == "Condacc>DenseAccumulator" and op.name.startswith(name)
                )
                assert made.get_attr("num_contributors") == (2 if ordered else 0)
            backups = tf_condacc.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(1.0), 2, 3, name="backups"
            )
            with pytest.raises(
                ValueError, match=r"'backups' expects .*enable_op_determinism.* 2 and 3"
            ):
                backups.apply_gradients([(tf.ones([2]), weights)], step)
            backups.configure(deterministic=False)
            backups.apply_gradients([(tf.ones([2]), weights)], step)
    finally:
        config.disable_op_determinism()


def _optimizer(*counts: int) -> Any:
    return tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), *counts)


def test_backup_workers_have_no_order_and_no_slot_before_their_gradients():
    with tf.Graph().as_default():
        optimizer = _optimizer(2, 3)
        with pytest.raises(
            ValueError, match="deterministic=True, got 2 and 3: with backup workers"
        ):
            optimizer.configure(deterministic=True)
        assert optimizer._is_deterministic is None  # What was refused is not in effect.
        step = v1.train.get_or_create_global_step()
        with pytest.raises(ValueError, match=r"round_and_slot\(\), got 2 and 3"):
            optimizer.round_and_slot()
        optimizer.configure()
        optimizer.apply_gradients([(tf.ones([2]), v1.get_variable("w", [2]))], step)
        assert [each.shape.rank for each in optimizer.round_and_slot()] == [0, 0]


def test_the_slot_of_a_step_serves_one_list_of_gradients():
    with tf.Graph().as_default() as graph:
        optimizer = _optimizer(2)
        with pytest.raises(ValueError, match="expects a global step"):
            optimizer.round_and_slot()
        step = v1.train.get_or_create_global_step()
        weights = v1.get_variable("w", [2])
        place = optimizer.round_and_slot()
        assert optimizer.round_and_slot(step) is place
        with pytest.raises(ValueError, match=r"configure\(\) before"):
            optimizer.configure()
        other = v1.get_variable("other", initializer=tf.constant(0, tf.int64))
        with pytest.raises(ValueError, match="one global_step .* got 'other' after 'global_step'"):
            optimizer.apply_gradients([(tf.ones([2]), weights)], other)
        optimizer.apply_gradients([(tf.ones([2]), weights)], step)
        assert optimizer.round_and_slot() is place
        claims = [op for op in graph.get_operations() if op.type == "Condacc>SyncGateClaim"]
        assert len(claims) == 1
        with pytest.raises(ValueError, match="one call of apply_gradients"):
            optimizer.apply_gradients([(tf.ones([2]), weights)], step)
    with tf.Graph().as_default():  # Another graph begins anew.
        step = v1.train.get_or_create_global_step()
        optimizer.apply_gradients([(tf.ones([2]), v1.get_variable("w", [2]))], step)
        assert optimizer.round_and_slot().round.graph is v1.get_default_graph()
