"""Tests of what checkpoints, copies and pickles of a GradientAccumulator contain."""

from __future__ import annotations

import copy
import gc
import weakref

import keras
import pytest
import tensorflow as tf

from tests.support.versions import needs_keras3
from tf_condacc import GradientAccumulator


class Model(tf.Module):
    def __init__(self, has_accumulator: bool = True) -> None:
        super().__init__()
        self.weights = tf.Variable([0.0], name="weights")
        if has_accumulator:
            self.accumulator = GradientAccumulator([self.weights], 2, name="mine")

    def apply(self, gradient: float) -> bool:
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        gradients = [tf.constant([gradient])]
        return bool(self.accumulator.apply_gradients(optimizer, gradients))


def test_the_variables_of_a_saved_model_discard_what_was_accumulated(tmp_path, caplog):
    tf.saved_model.save(Model(), str(tmp_path))
    model = Model()
    checkpoint = tf.train.Checkpoint(weights=model.weights, accumulator=model.accumulator)
    model.apply(100.0)
    checkpoint.restore(str(tmp_path / "variables/variables")).expect_partial()
    assert [model.apply(1.0), model.apply(1.0)] == [False, True]
    assert model.weights.numpy() == [-1.0]
    assert "GradientAccumulator 'mine' discards 1 accumulated micro-batches" in caplog.text


def test_checkpoint_does_not_depend_on_what_was_accumulated(tmp_path):
    """The first gradients make accumulators, before and after which checkpoints are the same."""
    before, after = Model(), Model()
    after.apply(1.0)
    paths = [
        tf.train.Checkpoint(model=model).save(str(tmp_path / name))
        for model, name in [(before, "before"), (after, "after")]
    ]
    for model in (before, after):
        for path in paths:
            tf.train.Checkpoint(model=model).restore(path).assert_consumed()
    names = [[name for name, _ in tf.train.list_variables(path)] for path in paths]
    assert names[0] == names[1]


def test_checkpoint_of_an_object_without_an_accumulator_is_restored(tmp_path):
    without = Model(has_accumulator=False)
    without.weights.assign([7.0])
    path = tf.train.Checkpoint(model=without).save(str(tmp_path / "saved"))
    model = Model()
    model.apply(1.0)
    status = tf.train.Checkpoint(model=model).restore(path)
    with pytest.raises(AssertionError, match="not bound to checkpointed values"):
        status.assert_existing_objects_matched()
    assert model.weights.numpy() == [7.0]


def test_an_eager_call_discards_gradients_of_other_weights_after_a_restore(tmp_path, caplog):
    model = Model()
    former = tf.train.Checkpoint(weights=model.weights)
    path = former.save(str(tmp_path / "saved"))
    model.apply(100.0)
    former.restore(path)
    assert [model.apply(1.0), model.apply(3.0)] == [False, True]
    assert model.weights.numpy() == [-2.0]
    assert caplog.messages == [
        "GradientAccumulator 'mine' discards 1 accumulated micro-batches, because its variables "
        "were restored from a checkpoint, and it was not."
    ]
    former.restore(path)
    assert [model.apply(1.0), model.apply(3.0)] == [False, True]
    assert len(caplog.messages) == 1  # There was nothing to discard.


@needs_keras3
def test_a_restore_of_a_keras_variable_is_noticed_by_a_take_of_the_remainder(tmp_path, caplog):
    weights = keras.Variable([0.0])
    accumulator = GradientAccumulator([weights], 2, name="mine")
    former = tf.train.Checkpoint(weights=weights)
    path = former.save(str(tmp_path / "saved"))
    accumulator.accumulate([tf.constant([100.0])])
    former.restore(path)
    assert not accumulator.apply_remainder(keras.optimizers.SGD(1.0))
    assert "'mine' discards 1" in caplog.text


@pytest.mark.parametrize("weights_are_first", [False, True])
def test_what_another_checkpoint_restores_beside_the_weights_is_kept(
    weights_are_first, tmp_path, caplog
):
    model = Model()
    parts = [tf.train.Checkpoint(weights=model.weights), tf.train.Checkpoint(a=model.accumulator)]
    model.apply(1.0)
    paths = [each.save(str(tmp_path / f"saved{i}")) for i, each in enumerate(parts)]
    model.apply(100.0)
    pairs = list(zip(parts, paths, strict=True))
    for part, path in pairs if weights_are_first else reversed(pairs):
        part.restore(path)
    assert model.apply(3.0)
    assert model.weights.numpy() == [-2.0]
    assert caplog.messages == []


def test_eager_calls_keep_what_functions_have_accumulated_since_a_restore(tmp_path, caplog):
    model = Model()
    apply = tf.function(lambda value: model.accumulator.accumulate([value]))
    former = tf.train.Checkpoint(weights=model.weights)
    former.restore(former.save(str(tmp_path / "saved")))
    apply(tf.constant([1.0]))
    former.restore(former.save(str(tmp_path / "saved")))
    assert int(model.accumulator.num_accumulated()) == 1
    assert caplog.messages == []


def test_restored_checkpoint_discards_weights(tmp_path):
    model = Model()
    checkpoint = tf.train.Checkpoint(model=model)
    path = checkpoint.save(str(tmp_path / "saved"))
    model.accumulator.accumulate([tf.constant([100.0])], weight=100.0)
    checkpoint.restore(path)
    for gradient, weight in [(1.0, 1.0), (5.0, 3.0)]:
        model.accumulator.accumulate([tf.constant([gradient])], weight)
    assert model.accumulator.take()[0].numpy() == [4.0]


def test_deep_copy_is_empty_and_belongs_to_the_copied_variables():
    model = Model()
    model.apply(5.0)
    copied = copy.deepcopy(model)
    assert int(copied.accumulator.num_accumulated()) == 0
    assert [copied.apply(1.0), copied.apply(3.0)] == [False, True]
    assert copied.weights.numpy() == [-2.0]
    assert model.weights.numpy() == [0.0]
    assert int(model.accumulator.num_accumulated()) == 1
    assert (copied.accumulator.name, copied.accumulator.num_micro_batches) == ("mine", 2)


def test_deep_copy_of_a_subclass_has_copies_of_its_attributes():
    class Logging(GradientAccumulator):
        def __init__(self, variable: tf.Variable) -> None:
            super().__init__([variable], 2, skip_non_finite=True)
            self.log: list[float] = []

    accumulator = Logging(tf.Variable([0.0]))
    copied = copy.deepcopy(accumulator)
    copied.log.append(1.0)
    assert isinstance(copied, Logging) and accumulator.log == []
    copied.accumulate([tf.constant([float("nan")])])
    assert int(copied.num_skipped()) == 1


def test_accumulator_ends_without_a_garbage_collection():
    accumulator = GradientAccumulator([tf.Variable([0.0])], 2)
    accumulator.accumulate([tf.constant([1.0])], 2.0)
    reference = weakref.ref(accumulator)
    gc.disable()
    try:
        del accumulator
        assert reference() is None
    finally:
        gc.enable()
