"""Tests of GradientAccumulators in checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc

NUM_MICRO_BATCHES = 4


class Model(tf.Module):
    """A model whose second variable has slices, and whose third one has few gradients."""

    def __init__(self, num_micro_batches=NUM_MICRO_BATCHES, **arguments) -> None:
        super().__init__()
        self.dense = tf.Variable(tf.zeros([3]))
        self.table = tf.Variable(tf.zeros([9, 2]))
        self.rare = tf.Variable(tf.ones([2]))
        self.optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.1)
        self.optimizer.build(self.all)
        self.accumulator = tf_condacc.GradientAccumulator(self.all, num_micro_batches, **arguments)

    @property
    def all(self) -> list[tf.Variable]:
        return [self.dense, self.table, self.rare]

    def train(self, number: int, has_weights: bool = True) -> bool:
        values = np.random.default_rng(number).normal(size=3).astype(np.float32)
        gradients = [
            tf.constant(values),
            tf.IndexedSlices(tf.constant([values[:2]]), [number % 9]),
            tf.constant(values[1:]) if number % 8 == 7 else None,
        ]
        weight = 1.0 + number % 3 if has_weights and number % 2 else None
        return bool(self.accumulator.apply_gradients(self.optimizer, gradients, weight=weight))

    def bits(self) -> bytes:
        return b"".join(variable.numpy().tobytes() for variable in self.all)


@pytest.mark.parametrize("saved_after", [0, 1, 2, 5, 7, 8])
def test_a_restored_object_continues_with_the_bits_of_an_undisturbed_one(saved_after, tmp_path):
    undisturbed, saved, restored = Model(), Model(), Model()
    for number in range(16):
        undisturbed.train(number)
    for number in range(saved_after):
        saved.train(number)
    path = tf.train.Checkpoint(model=saved).save(str(tmp_path / "saved"))
    tf.train.Checkpoint(model=restored).restore(path).assert_consumed()
    assert int(restored.accumulator.num_accumulated()) == saved_after % NUM_MICRO_BATCHES
    for number in range(saved_after, 16):
        updated = restored.train(number)
        assert updated == (number % NUM_MICRO_BATCHES == NUM_MICRO_BATCHES - 1)
    assert restored.bits() == undisturbed.bits()


def test_the_number_of_updates_is_restored(tmp_path):
    saved, restored = [Model(lambda step: 1 + step, name="growing") for _ in range(2)]
    assert [saved.train(number) for number in range(4)] == [True, False, True, False]
    path = tf.train.Checkpoint(model=saved).save(str(tmp_path / "saved"))
    tf.train.Checkpoint(model=restored).restore(path)
    assert [restored.train(number) for number in range(4, 7)] == [False, True, False]


def test_a_state_from_before_the_first_micro_batch_restores_a_new_object(tmp_path):
    model = Model(lambda step: tf.where(step < 1, 1, 3), skip_non_finite=True)
    checkpoint = tf.train.Checkpoint(model=model)
    path = checkpoint.save(str(tmp_path / "saved"))
    assert [model.train(number) for number in range(4)] == [True, False, False, True]
    model.accumulator.accumulate([tf.fill([3], np.inf), tf.zeros([9, 2]), None])
    assert int(model.accumulator.num_skipped()) == 1
    for _ in range(2):
        checkpoint.restore(path)
        assert int(model.accumulator.num_skipped()) == 0
        assert [model.train(number) for number in range(4)] == [True, False, False, True]


def test_a_traced_function_continues_from_a_restored_state(tmp_path):
    def trained(model: Model) -> Callable[[float], tf.Tensor]:
        @tf.function
        def train(value: tf.Tensor) -> tf.Tensor:
            gradients = [value * tf.ones([3]), tf.IndexedSlices(tf.fill([1, 2], value), [4]), None]
            return model.accumulator.apply_gradients(model.optimizer, gradients, weight=value)

        return lambda value: train(tf.constant(value))

    saved, restored = Model(), Model()
    train = trained(saved)
    for value in (0.1, 0.7):
        train(value)
    path = tf.train.Checkpoint(model=saved).save(str(tmp_path / "saved"))
    tf.train.Checkpoint(model=restored).restore(path)
    train_again = trained(restored)
    for value in (0.3, 1e7, 0.2, 0.9):
        train(value)
        train_again(value)
    assert int(restored.accumulator.num_accumulated()) == 2
    assert restored.bits() == saved.bits()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"reduction_type": "SUM"}, "'reduction_type': 'SUM'"),
        ({"variables": 2}, "'float32', '(3,)'"),
    ],
)
def test_the_state_of_another_object_is_refused(arguments, expected, tmp_path):
    saved = Model()
    saved.train(0)
    path = tf.train.Checkpoint(accumulator=saved.accumulator).save(str(tmp_path / "saved"))
    variables = Model().all[: arguments.pop("variables", 3)]
    other = tf_condacc.GradientAccumulator(variables, 4, name="other", **arguments)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        tf.train.Checkpoint(accumulator=other).restore(path)
    message = raised.value.message
    assert "expected" in message and expected in message and "'other'" in message
    assert int(other.num_accumulated()) == 0


def layout_with(tensors: dict[str, tf.Tensor], **changes) -> dict[str, tf.Tensor]:
    layout = json.loads(tensors["layout"].numpy())
    return {**tensors, "layout": tf.constant(json.dumps({**layout, **changes}))}


def test_damaged_states_are_refused():
    model, expected = Model(), Model()
    for each in (model, expected):
        for number in range(2):
            each.train(number)
    (state,) = model.accumulator._trackable_children().values()
    tensors = state._serialize_to_tensors()
    expected.train(2)
    model.train(2)
    none = {"sizes": tf.zeros([0], tf.int64), "states": tf.zeros([0], tf.uint8)}
    kinds = json.loads(tensors["layout"].numpy())["replicas"]["0"]
    flipped = tensors["states"].numpy()
    flipped[int(tensors["sizes"][0])] ^= 255  # The first accumulator can still be restored.
    for damaged in (
        {**tensors, "layout": tf.constant("{")},
        {**tensors, "layout": tf.constant('{"version": 1}')},
        layout_with({**tensors, **none}, spec=[], absences=[], replicas={}),
        layout_with(tensors, replicas={"7": kinds}),
        layout_with(tensors, replicas={"-1": kinds}),
        layout_with(tensors, absences=[[3]]),
        layout_with(tensors, absences=[[-1]]),
        {**tensors, "sizes": tensors["sizes"][1:]},
        {**tensors, "sizes": -tensors["sizes"]},
        {**tensors, "states": tensors["states"][1:]},
        {**tensors, "states": tf.constant(flipped)},
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="gradient_accumulator"):
            state._restore_from_tensors(damaged)
        assert int(model.accumulator.num_accumulated()) == 3
    assert list(model.accumulator._replicas.layout()) == [0]
    for number in range(3, 8):
        model.train(number)
        expected.train(number)
    assert model.bits() == expected.bits()


def test_a_state_of_a_later_version_is_not_called_damaged():
    model = Model()
    (state,) = model.accumulator._trackable_children().values()
    tensors = {**state._serialize_to_tensors(), "layout": tf.constant('{"version": 2}')}
    with pytest.raises(tf.errors.InvalidArgumentError, match="version: expected 1, got 2"):
        state._restore_from_tensors(tensors)


def test_weights_of_sums_are_refused():
    model = Model(reduction_type="SUM")
    model.train(0, has_weights=False)
    (state,) = model.accumulator._trackable_children().values()
    tensors = state._serialize_to_tensors()
    kinds = json.loads(tensors["layout"].numpy())["replicas"]["0"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="got weights of sums"):
        state._restore_from_tensors(
            layout_with(tensors, replicas={"0": {**kinds, "weights": True}})
        )


def test_weights_for_a_function_that_was_traced_without_them_are_refused(tmp_path):
    saved, other = Model(), Model()
    for number in range(2):
        saved.train(number)
        other.train(number, has_weights=False)
    path = tf.train.Checkpoint(model=saved.accumulator).save(str(tmp_path / "saved"))
    tf.function(lambda: other.accumulator.take(1))()
    other.train(0, has_weights=False)
    with pytest.raises(RuntimeError, match="the first weight is given after a function was traced"):
        tf.train.Checkpoint(model=other.accumulator).restore(path)
    assert int(other.accumulator.num_accumulated()) == 1


def test_accumulators_of_another_kind_are_refused(tmp_path):
    saved, other = Model(), Model()
    saved.train(0)
    path = tf.train.Checkpoint(model=saved).save(str(tmp_path / "saved"))
    other.train(7)  # The third variable has a gradient.
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected a dense .* got a sparse"):
        tf.train.Checkpoint(model=other).restore(path)
    assert int(other.accumulator.num_accumulated()) == 1


def test_replicas_continue_and_another_number_of_them_is_refused(tmp_path):
    devices = [f"CPU:{i}" for i in range(2)]
    if len(tf.config.list_logical_devices("CPU")) < 2:
        devices = ["CPU:0"]
    strategy = tf.distribute.MirroredStrategy(devices)

    def made() -> tuple[tf.Variable, tf_condacc.GradientAccumulator, Callable[[float], None]]:
        with strategy.scope():
            variable = tf.Variable([0.0])
            accumulator = tf_condacc.GradientAccumulator([variable], 4)
            optimizer = tf.keras.optimizers.SGD(1.0)
            optimizer.build([variable])

        @tf.function
        def step(value: tf.Tensor) -> None:
            def replica() -> None:
                number = tf.distribute.get_replica_context().replica_id_in_sync_group
                gradient = [value + tf.cast(number, tf.float32)]
                accumulator.apply_gradients(optimizer, [gradient])

            strategy.run(replica)

        return variable, accumulator, lambda value: step(tf.constant(value))

    saved, accumulator, train = made()
    for value in (0.1, 0.7, 1e6):
        train(value)
    path = tf.train.Checkpoint(v=saved, a=accumulator).save(str(tmp_path / "saved"))
    restored, other, train_again = made()
    tf.train.Checkpoint(v=restored, a=other).restore(path)
    train(0.3)
    train_again(0.3)
    assert restored.numpy() == saved.numpy() != 0.0
    if len(devices) == 2:
        single = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 4)
        with pytest.raises(tf.errors.InvalidArgumentError, match="'num_replicas': 1.*: 2"):
            tf.train.Checkpoint(a=single).restore(path)


def test_a_session_continues_from_a_saver(tmp_path):
    for is_restored in (False, True):
        with tf.Graph().as_default(), v1.Session() as session:
            variable = v1.get_variable("v", [1], initializer=v1.zeros_initializer())
            accumulator = tf_condacc.GradientAccumulator([variable], 3)
            value = v1.placeholder(tf.float32, [1])
            train = accumulator.apply_gradients(v1.train.GradientDescentOptimizer(1.0), [value])
            saver = v1.train.Saver([*v1.global_variables(), *tf_condacc.saveables()])
            if is_restored:
                saver.restore(session, str(tmp_path / "saved"))
            else:
                session.run(v1.global_variables_initializer())
                for each in (1.0, 2.0):
                    session.run(train, {value: [each]})
                saver.save(session, str(tmp_path / "saved"))
            session.run(train, {value: [6.0]})
            assert session.run(variable) == [-3.0]


@pytest.mark.parametrize("is_early", [False, True])
def test_a_graph_restores_only_accumulators_that_are_made(is_early, tmp_path):
    saved = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 3)
    saved.accumulate([[1.0]])
    path = tf.train.Checkpoint(accumulator=saved).save(str(tmp_path / "saved"))
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", [1], use_resource=True)
        accumulator = tf_condacc.GradientAccumulator([variable], 3)
        if not is_early:
            accumulator.accumulate([[1.0]])
        status = tf.train.Checkpoint(accumulator=accumulator).restore(path)
        if is_early:
            with pytest.raises(tf.errors.InvalidArgumentError, match="restore .* after it"):
                status.run_restore_ops(session)
        else:
            status.run_restore_ops(session)
            assert session.run(accumulator.num_accumulated()) == 1
