"""Tests of checkpoints, which the original and our optimizer can exchange in both directions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.support.drop_stale_support import (
    INNER,
    EagerTraining,
    LateTraining,
    Switches,
    drop_stale,
    every_inner_and_switches,
    stale_counter,
)

v1 = tf.compat.v1
every_inner = pytest.mark.parametrize("inner", list(INNER))


def recorded_values(inner: str, switches: Switches) -> dict[str, np.ndarray]:
    """Returns values for the variables of a program that trains a vector "w" with the original."""
    recorded = INNER[inner]
    values = {"global_step": np.int64(7), "stale_counter": np.float32(3.0)}
    for i, name in enumerate(["w", *(f"w/{suffix}" for suffix in recorded.slots.values())]):
        values[name] = np.array([1.0, 2.0, 4.0], np.float32) + i
    for name in recorded.others[switches.control_flow]:
        values[name] = np.float32(0.5)
    return values


def save(values: dict[str, np.ndarray], path: Path) -> str:
    """Writes a checkpoint of plain variables with the given names and values."""
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in values.items():
            v1.get_variable(name, initializer=value)
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(path / "model.ckpt"))


@every_inner_and_switches
def test_checkpoint_of_the_originals_layout_is_restored(switches, inner, tmp_path):
    values = recorded_values(inner, switches)
    path = save(values, tmp_path)
    training = LateTraining(drop_stale(0, INNER[inner].make()))
    saver = v1.train.Saver()
    with training.session as session:
        saver.restore(session, path)
        restored = session.run({v.op.name: v for v in v1.global_variables()})
        assert restored.keys() == values.keys()
        for name, value in values.items():
            np.testing.assert_array_equal(restored[name], value)
            assert restored[name].dtype == value.dtype
        assert training.run(late_by=1) == 4.0
        assert training.run() == 4.0
        assert training.value(training.step) == 9


@every_inner_and_switches
def test_our_checkpoint_has_the_originals_layout(switches, inner, tmp_path):
    training = LateTraining(drop_stale(0, INNER[inner].make()))
    saver = v1.train.Saver()
    for late_by in (0, 2, 0):
        training.run(late_by)
    path = saver.save(training.session, str(tmp_path / "model.ckpt"))
    expected = recorded_values(inner, switches)
    saved = {name: tuple(shape) for name, shape in tf.train.list_variables(path)}
    assert saved == {name: value.shape for name, value in expected.items()}
    assert tf.train.load_variable(path, "stale_counter") == 1.0
    assert tf.train.load_variable(path, "global_step") == 4
    # Variables with these names and dtypes can read the checkpoint.
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [v1.get_variable(name, initializer=value) for name, value in expected.items()]
        v1.train.Saver().restore(session, path)
        weights = session.run(next(v for v in variables if v.op.name == "w"))
    np.testing.assert_array_equal(weights, training.value(training.weights))


def test_training_that_is_restored_goes_on_as_if_it_had_not_been_interrupted(v1_graph, tmp_path):
    def start() -> LateTraining:
        return LateTraining(drop_stale(0, v1.train.MomentumOptimizer(0.5, 0.75)))

    whole = start()
    whole_counter = stale_counter()
    saver = v1.train.Saver()
    for late_by in (0, 1, 0):
        whole.run(late_by)
    path = saver.save(whole.session, str(tmp_path / "model.ckpt"))
    with tf.Graph().as_default():
        restored = start()
        v1.train.Saver().restore(restored.session, path)
        for late_by in (1, 0):
            assert restored.run(late_by) == whole.run(late_by)
        got = restored.value([restored.weights, restored.step, stale_counter()])
    wanted = whole.value([whole.weights, whole.step, whole_counter])
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_step_that_is_restored_while_updates_are_counted_is_believed(v1_graph, tmp_path):
    training = LateTraining()
    saver = v1.train.Saver()
    training.run()
    path = saver.save(training.session, str(tmp_path / "model.ckpt"))
    for late_by in (0, 0, 5, 0):
        training.run(late_by)
    saver.restore(training.session, path)
    assert [training.run(late_by) for late_by in (0, 1, 0)] == [0.0, 1.0, 1.0]
    assert training.value(training.step) == 4


class SavedTraining(EagerTraining):
    """An eager training of the same model."""

    def __init__(self, inner: str) -> None:
        self.inner, self.slot_names = INNER[inner].make(), list(INNER[inner].slots)
        super().__init__(0, self.inner)

    def state(self) -> list[np.ndarray]:
        slots = [self.optimizer.get_slot(self.weights, name) for name in self.slot_names]
        return [variable.numpy() for variable in (self.step, self.weights, *slots)]

    def counts(self) -> list[int]:
        return [int(self.optimizer.num_accepted()), int(self.optimizer.num_dropped())]

    def checkpoint(self) -> tf.train.Checkpoint:
        return tf.train.Checkpoint(optimizer=self.optimizer, weights=self.weights, step=self.step)


def assert_same_state(one: SavedTraining, other: SavedTraining) -> None:
    for got, wanted in zip(one.state(), other.state(), strict=True):
        np.testing.assert_array_equal(got, wanted)


@every_inner
@pytest.mark.parametrize("begun", [False, True], ids=["new", "begun"])
def test_eager_checkpoint_holds_slots_and_no_counts(inner, begun, tmp_path):
    training = SavedTraining(inner)
    assert [training.run(late_by) for late_by in (0, 1, 0, 2)] == [0.0, 1.0, 1.0, 2.0]
    path = training.checkpoint().write(str(tmp_path / "eager"))
    restored = SavedTraining(inner)
    if begun:
        restored.run()
    status = restored.checkpoint().read(path)
    assert [training.run(late_by) for late_by in (0, 1)] == [2.0, 3.0]
    assert [restored.run(late_by) for late_by in (0, 1)] == [2.0, 3.0]
    status.assert_consumed()
    assert_same_state(restored, training)
    assert training.counts() == [3, 3]
    assert restored.counts() == [2 if begun else 1, 1]


def test_eager_checkpoint_of_the_wrapped_optimizer_alone_is_restored(tmp_path):
    training = SavedTraining("adam")
    training.run()
    alone = tf.train.Checkpoint(
        optimizer=training.inner, weights=training.weights, step=training.step
    )
    path = alone.write(str(tmp_path / "eager"))
    restored = SavedTraining("adam")
    restored.checkpoint().read(path).expect_partial()
    training.run()
    restored.run()
    assert_same_state(restored, training)


def test_object_based_checkpoint_of_a_graph_is_restored(v1_graph, tmp_path):
    def start() -> tuple[LateTraining, tf.train.Checkpoint]:
        training = LateTraining(drop_stale(0, INNER["adam"].make()))
        return training, tf.train.Checkpoint(
            optimizer=training.optimizer, weights=training.weights, step=training.step
        )

    def state(training: LateTraining) -> list[np.ndarray]:
        return training.value([training.weights, *training.optimizer.variables()])

    training, checkpoint = start()
    for late_by in (0, 1, 0):
        training.run(late_by)
    with training.session.as_default():
        path = checkpoint.write(str(tmp_path / "graph"))
    wanted = state(training)
    with tf.Graph().as_default():
        restored, checkpoint = start()
        checkpoint.read(path).assert_consumed().run_restore_ops(restored.session)
        for got, want in zip(state(restored), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
        assert restored.run(late_by=1) == 2.0
