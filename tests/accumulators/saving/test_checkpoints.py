"""Tests of accumulators in object-based checkpoints."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc
from tf_condacc._ops.native import ops

KINDS = ["dense", "sparse"]
VALUES = [0.1, 0.2, 0.7, 1e8, -1e8, 0.3]  # Their sums depend on the order of additions.

# States that were saved in version 3 of the format: a float16 sum of a gradient of contributor 7
# and one of weight 0.5, after one was dropped; and an ordered sum of 4 contributors, of which 0 and
# 3 have come, which is early.
VERSION_3 = {
    "dense": (
        "eNpLzs9LSUxOZmBmYGBwA+IDjAxgwAqhGKBcsDwIMDEggx/2jGjqSAWJCimpecWpCkA3lOaW5iSW5Bcp5KcppJRUFqQq"
        "pOXkJ5YYmukoFGckArnRxrEKiXkpCkWpKaXJJZn5efFgVcGhvgxkA2YGygA7hfoZDDbbAUPdHkKTDgA4nSFr"
    ),
    "sparse": (
        "eNrFUUsOgjAQreUCHmEOwIq6VWDhUi9gjKltCRhoST8L74h34QgW4gajBsTEl0w6k/Z9JmVKcsoYChBCF19J13zAYjC1"
        "MX50+Okeo3GgYGqqjQAfwlWupFZpUBlwe60FZKWilkQhmJz68UDC6AhUctCCO2YLJU/9u9023YdQSLC5AKW56DVWwJS0"
        "ujg7L2pe++OJed8hmMVeJt8y5+b+jU4bD8/xIIR0nOTWNOt/7O99N94+9Tm6P0in8u+rIjTK"
    ),
}


def make(kind: str = "dense", dtype: tf.DType = tf.float32, **arguments):
    cls = tf_condacc.ConditionalAccumulator
    if kind == "sparse":
        cls = tf_condacc.SparseConditionalAccumulator
    return cls(dtype, arguments.pop("shape", [3]), **arguments)


def apply(accumulator, value: float, step: int = 0, contributor=None, **arguments):
    """Applies a gradient, and returns whether it was added."""
    is_dense = isinstance(accumulator, tf_condacc.ConditionalAccumulator)
    gradient = tf.cast([value, 1.0, value] if is_dense else [value, 1.0], accumulator.dtype)
    gradient = gradient if is_dense else tf.IndexedSlices(gradient, [2, 0])
    if contributor is not None:
        apply_it = (
            accumulator.apply_contribution
            if is_dense
            else accumulator.apply_indexed_slices_contribution
        )
        outcome = apply_it(gradient, contributor, step, **arguments)
        return outcome == tf_condacc.ApplyOutcome.ADDED
    if is_dense:
        return accumulator.try_apply_grad(gradient, step, **arguments)
    return accumulator.try_apply_indexed_slices_grad(gradient, step, **arguments)


def take(accumulator, num_required: int) -> np.ndarray:
    if isinstance(accumulator, tf_condacc.ConditionalAccumulator):
        return accumulator.take_grad(num_required).numpy()
    dtype = accumulator.dtype.as_numpy_dtype
    taken = accumulator.take_indexed_slices_grad(num_required)
    return np.concatenate([taken.indices.numpy().astype(dtype), taken.values.numpy().ravel()])


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "tf_condacc"]


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16, tf.complex64])
@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_round_ends_with_the_bits_of_an_undisturbed_one(kind, dtype, tmp_path):
    undisturbed, saved = make(kind, dtype), make(kind, dtype)
    for value in VALUES:
        apply(undisturbed, value)
    for value in VALUES[:3]:
        apply(saved, value)
    path = tf.train.Checkpoint(accumulator=saved).save(str(tmp_path / "saved"))
    restored = make(kind, dtype)
    apply(restored, 100.0)
    tf.train.Checkpoint(accumulator=restored).restore(path).assert_consumed()
    assert int(restored.num_accumulated()) == 3
    for value in VALUES[3:]:
        apply(restored, value)
        apply(saved, value)
    expected = take(undisturbed, 6)
    assert take(restored, 6).tobytes() == expected.tobytes()
    assert take(saved, 6).tobytes() == expected.tobytes()


@pytest.mark.weighted_means("sparse")
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_that_came_early_are_saved_and_added_in_order(kind, tmp_path):
    def ordered(num_contributors=6):
        cls = type(make(kind))
        return cls.deterministic(num_contributors, tf.float32, [3])

    def contribute(accumulator, *contributors: int) -> None:
        for each in contributors:
            apply(accumulator, VALUES[each], contributor=each, weight=1.0 + each)

    undisturbed, saved, restored = ordered(), ordered(), ordered()
    contribute(undisturbed, *range(6))
    contribute(saved, 4, 0, 2)
    path = tf.train.Checkpoint(accumulator=saved).save(str(tmp_path / "saved"))
    tf.train.Checkpoint(accumulator=restored).restore(path).assert_consumed()
    assert not apply(restored, 9.0, contributor=4)
    contribute(restored, 5, 3, 1)
    expected = take(undisturbed, 6)
    assert take(restored, 6).tobytes() == expected.tobytes()
    for other in (ordered(7), make(kind)):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="expected a .*, got a .*in the order of 6 contrib"
        ):
            tf.train.Checkpoint(accumulator=other).restore(path)


@pytest.mark.weighted_means("sparse")
@pytest.mark.parametrize("kind", KINDS)
def test_states_of_version_3_are_read_and_written_byte_by_byte(kind):
    state = zlib.decompress(base64.b64decode(VERSION_3[kind]))
    if kind == "dense":
        accumulator = make(kind, tf.float16, reduction_type="SUM")
    else:
        accumulator = type(make(kind)).deterministic(4, tf.float32, [3, 2])
    handle = accumulator.accumulator_ref
    ops.condacc_accumulator_restore(handle, tf.constant(list(state), tf.uint8))
    assert ops.condacc_accumulator_save(handle).numpy().tobytes() == state
    if kind == "dense":
        assert (int(accumulator.global_step()), int(accumulator.num_dropped())) == (5, 1)
        assert not apply(accumulator, 1.0, step=5, contributor=7)
        assert take(accumulator, 2).tolist() == np.array([0.35, 1.5, 0.35], np.float16).tolist()
    else:
        for contributor in (1, 2):
            slices = tf.IndexedSlices(tf.ones([1, 2]), [1])
            accumulator.apply_indexed_slices_contribution(slices, contributor)
        expected = np.array([0, 1, 2, 0.7, 2, 1, 1, 0.1, 2.4], np.float32)
        np.testing.assert_allclose(take(accumulator, 4), expected)


@pytest.mark.weighted_means("sparse")
@pytest.mark.parametrize("kind", KINDS)
def test_step_drops_contributors_and_weights_are_restored(kind, tmp_path):
    saved = make(kind)
    saved.set_global_step(5)
    apply(saved, 1.0, step=3)
    apply(saved, 1.0, step=5, contributor=7)
    apply(saved, 0.5, step=5, weight=0.5)
    path = tf.train.Checkpoint(accumulator=saved).save(str(tmp_path / "saved"))
    restored = make(kind)
    tf.train.Checkpoint(accumulator=restored).restore(path)
    assert int(restored.global_step()) == 5
    assert int(restored.num_dropped()) == 1
    contribute = {"step": 5, "contributor": 7}
    assert not apply(restored, 1.0, **contribute)
    np.testing.assert_array_equal(take(restored, 2), take(saved, 2))


def test_a_restored_state_serves_a_take_that_waits(tmp_path):
    saved = make()
    apply(saved, 1.0)
    apply(saved, 3.0)
    path = tf.train.Checkpoint(accumulator=saved).save(str(tmp_path / "saved"))
    accumulator, taken = make(), []
    thread = threading.Thread(target=lambda: taken.append(take(accumulator, 2)))
    thread.start()
    tf.train.Checkpoint(accumulator=accumulator).restore(path)
    thread.join()
    assert taken[0].tolist() == [2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"dtype": tf.float64}, "dtype float64, shape [3]"),
        ({"shape": [4]}, "shape [4]"),
        ({"shape": None}, "shape <unknown>"),
        ({"reduction_type": "SUM"}, "reduction_type SUM"),
        ({"kind": "sparse"}, "a sparse accumulator"),
    ],
)
def test_the_state_of_another_accumulator_is_refused(other, expected, tmp_path):
    saved = make()
    apply(saved, 1.0)
    path = tf.train.Checkpoint(accumulator=saved).save(str(tmp_path / "saved"))
    accumulator = make(name="another", **other)
    accumulator.set_global_step(3)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        tf.train.Checkpoint(accumulator=accumulator).restore(path)
    message = raised.value.message
    assert expected in message.split(", got ")[0] + ", got "
    assert "got a dense accumulator of dtype float32, shape [3] and reduction_type MEAN" in message
    assert "(accumulator 'another')" in message
    assert (int(accumulator.num_accumulated()), int(accumulator.global_step())) == (0, 3)


def test_a_damaged_state_is_refused():
    accumulator = make(name="mine")
    apply(accumulator, 1.0)
    from tf_condacc._ops.native import ops

    handle = accumulator.accumulator_ref
    state = ops.condacc_accumulator_save(handle)
    with pytest.raises(tf.errors.InvalidArgumentError, match="damaged: .*'mine'"):
        ops.condacc_accumulator_restore(handle, state[:-1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be a vector.*'mine'"):
        ops.condacc_accumulator_restore(handle, state[tf.newaxis])
    ops.condacc_accumulator_restore(handle, state)
    assert int(accumulator.num_accumulated()) == 1


def test_a_checkpoint_of_a_graph_has_the_state_of_each_save(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        accumulator = make(name="accumulator")
        grad = v1.placeholder(tf.float32, [])
        applied, taken = apply(accumulator, grad), accumulator.take_grad(2)
        count, reset = accumulator.num_accumulated(), accumulator.reset(3)
        checkpoint = tf.train.Checkpoint(accumulator=accumulator)
        session.run(applied, {grad: 1.0})
        checkpoint.save(str(tmp_path / "saved"))
        session.run(applied, {grad: 3.0})
        path = checkpoint.save(str(tmp_path / "saved"))
        session.run(reset)
        checkpoint.restore(path).assert_consumed().run_restore_ops(session)
        assert session.run(count) == 2
        assert session.run(taken).tolist() == [2.0, 1.0, 2.0]
    eager = make()
    tf.train.Checkpoint(accumulator=eager).restore(path)
    assert take(eager, 2).tolist() == [2.0, 1.0, 2.0]


def test_a_checkpoint_is_restored_in_another_process(tmp_path):
    program = f"""
import tensorflow as tf, tf_condacc
from tests.accumulators.saving.test_checkpoints import VALUES, apply, make
accumulators = [make(kind) for kind in ("dense", "sparse")]
for each in accumulators:
    for value in VALUES[:4]:
        apply(each, value)
tf.train.Checkpoint(accumulators=accumulators).write({str(tmp_path / "saved")!r})
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    restored, undisturbed = [[make(kind) for kind in KINDS] for _ in range(2)]
    tf.train.Checkpoint(accumulators=restored).read(str(tmp_path / "saved")).assert_consumed()
    for one, other in zip(restored, undisturbed, strict=True):
        for value in VALUES[:4]:
            apply(other, value)
        for value in VALUES[4:]:
            apply(one, value)
            apply(other, value)
        assert take(one, 6).tobytes() == take(other, 6).tobytes()
