"""Tests of object-based checkpoints and of SavedModels: what they contain, and when."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.accumulators.conformance.objects import every_object


def mean(acc, apply, take, *values: float) -> float:
    for value in values:
        apply(acc, value)
    return float(tf.squeeze(take(acc)))


@every_object
def test_a_restored_state_replaces_what_came_after_the_save(make, apply, take, tmp_path, caplog):
    acc, module = make()
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=module), str(tmp_path), 2)
    apply(acc, 100.0)
    manager.save()
    acc.reset(*([] if hasattr(acc, "accumulate") else [9]))
    apply(acc, 2.0)
    manager.save()
    apply(acc, 50.0)
    assert manager.restore_or_initialize() == manager.latest_checkpoint
    assert int(acc.num_accumulated()) == 1
    assert mean(acc, apply, take, 4.0) == 3.0
    assert [each for each in caplog.records if each.name == "tf_condacc"] == []


@every_object
def test_an_object_that_is_made_after_the_restore_gets_its_state(make, apply, take, tmp_path):
    saved, module = make()
    apply(saved, 2.0)
    path = tf.train.Checkpoint(model=module).save(str(tmp_path / "saved"))
    checkpoint = tf.train.Checkpoint()
    status = checkpoint.restore(path)
    acc, checkpoint.model = make()
    status.assert_consumed()
    assert mean(acc, apply, take, 6.0) == 4.0


@every_object
def test_a_checkpoint_that_another_thread_writes_has_the_state_of_the_call(
    make, apply, take, tmp_path
):
    acc, module = make()
    checkpoint = tf.train.Checkpoint(model=module)
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    for value in (2.0, 4.0):
        apply(acc, value)
        path = checkpoint.save(str(tmp_path / "saved"), options=options)
    apply(acc, 100.0)
    checkpoint.sync()
    checkpoint.restore(path)
    assert float(tf.squeeze(take(acc))) == 3.0


@every_object
def test_each_load_of_a_saved_model_has_a_new_and_empty_object(make, apply, take, tmp_path):
    acc, module = make()
    apply(acc, 1.0)
    module.apply = tf.function(
        lambda value: (apply(acc, value), acc.num_accumulated())[1],
        input_signature=[tf.TensorSpec([])],
    )
    tf.saved_model.save(module, str(tmp_path))
    names = [name for name, _ in tf.train.list_variables(str(tmp_path / "variables/variables"))]
    assert not [name for name in names if "state" in name.lower()]
    first, second = (tf.saved_model.load(str(tmp_path)) for _ in range(2))
    one = tf.constant(1.0)
    assert [int(loaded.apply(one)) for loaded in (first, first, second, module)] == [1, 2, 1, 2]


@every_object
def test_an_object_that_is_no_attribute_cannot_be_exported(make, apply, take, tmp_path):
    acc, module = make()
    apply(acc, 1.0)
    other = tf.Module()
    other.count = tf.function(acc.num_accumulated, input_signature=[])
    with pytest.raises(AssertionError, match="untracked"):
        tf.saved_model.save(other, str(tmp_path))
