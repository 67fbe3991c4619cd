"""Tests of reports and tolerances of the comparison of trainings."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.parity.trainings import small_training
from tf_condacc import parity
from tf_condacc.parity._report import Report

v1 = tf.compat.v1


def weights(*values: Any) -> list[list[np.ndarray]]:
    """Returns the weights of one variable before the first and after each step."""
    return [[np.float32(value)] for value in values]


def report(*setups: list[list[np.ndarray]], limit: float = 0.0) -> Report:
    names = ["baseline", "second", "third"]
    limits = np.full([len(setups[0]), 1], limit)
    return Report(["w"], dict(zip(names, setups, strict=False)), limits)


def test_variables_that_agree_at_the_first_difference_are_told():
    def steps(*values: Any) -> list[list[np.ndarray]]:
        return [[np.float32(each) for each in value] for value in values]

    one, other = steps([0, 0, 0], [1, 1, 1], [2, 2, 2]), steps([0, 0, 0], [1, 3, 1], [5, 5, 5])
    setups = {"baseline": one, "second": other}
    (found,) = Report(["bias", "hidden", "out"], setups, np.zeros([3, 3])).differences
    assert (found.agreeing, found.differing) == (("bias", "out"), ("hidden",))
    assert str(found).endswith(" times that of baseline. Variables that agree: bias, out.")
    (found,) = Report(
        ["a", "b"], {"x": steps([0, 0], [1, 1]), "y": steps([0, 0], [2, 2])}, np.zeros([2, 2])
    ).differences
    assert str(found).endswith(" All 2 variables differ.")


def test_of_many_variables_that_agree_some_are_named():
    before, after = np.zeros([20, 1], np.float32), np.eye(20, 1, dtype=np.float32)
    setups = {"baseline": [list(before)] * 2, "second": [list(before), list(after)]}
    (found,) = Report([f"v{n}" for n in range(20)], setups, np.zeros([2, 20])).differences
    assert len(found.agreeing) == 19
    assert str(found).endswith("Variables that agree: v1, v2, v3, v4, v5, v6, v7, v8 and 11 more.")


def test_the_first_step_beyond_the_tolerance_is_told_with_pair_variable_and_amount():
    one = weights([0, 0], [4, 4], [8, 8])
    other = weights([0, 0], [4, 4.5], [8, 10])
    (found,) = report(one, other, limit=1).differences
    assert (found.first, found.second, found.variable) == ("second", "baseline", "w")
    assert (found.step, found.amount, found.tolerance, found.largest) == (2, 2, 1, 2)
    assert (found.num_elements, found.size) == (1, 2)
    assert str(found) == (
        "second and baseline differ from step 2 on, most in w: by 2, in 1 of 2 elements "
        "(tolerance 1). The update of second is 1.38 times that of baseline."
    )


@pytest.mark.parametrize(
    ("update", "ratio", "words"),
    [
        ([2, 2], 2, "The update of second is 2.00 times that of baseline."),
        ([0, 0], 0, "second does not update these elements."),
        ([1.004, 1.004], 1.004, "Their updates differ by less than 1%."),
        ([-1, 2], None, "dropped or stale, or when examples differ."),
        ([np.nan, 1], None, "(tolerance 0). A weight is not finite."),
    ],
)
def test_the_ratio_of_the_updates_is_told(update, ratio, words):
    (found,) = report(weights([0, 0], [1, 1]), weights([0, 0], update)).differences
    assert found.ratio == (ratio if ratio is None else pytest.approx(ratio))
    assert str(found).endswith(words)


def test_elements_that_only_one_setup_updates_are_told():
    (found,) = report(weights([0, 0], [0, 1]), weights([0, 0], [3, 1])).differences
    assert found.ratio == np.inf
    assert str(found).endswith("baseline does not update these elements.")


def test_initial_weights_that_differ_are_told():
    (found,) = report(weights(1, 2), weights(2, 3)).differences
    assert found.step == 0
    assert str(found).endswith("Their initial weights differ.")


def test_setups_are_grouped_by_agreement():
    found = report(weights(0, 1), weights(0, 2), weights(0, 2))
    assert found.groups == [["baseline"], ["second", "third"]]
    assert len(found.differences) == 2
    assert "Setups that agree: baseline; second = third." in str(found)
    with pytest.raises(parity.ParityError, match="2.00 times") as caught:
        found.check()
    assert caught.value.report is found


def test_a_pair_without_the_baseline_is_compared_as_well():
    found = report(weights(0, 2), weights(0, 1), weights(0, 3), limit=1)
    assert [(each.first, each.second) for each in found.differences] == [("third", "second")]
    assert "third and second differ from step 1 on" in str(found)


def test_weights_that_are_not_finite_differ_and_are_told():
    found = report(weights(0, np.nan), weights(0, np.nan))
    assert found.differences
    assert "baseline diverges: its weights are not finite at step 1." in str(found)


def test_a_tolerance_that_hides_faults_is_told():
    found = report(weights(0, 1), weights(0, 1), limit=0.5)
    assert not found.differences
    assert "updates of w are 1 in all, and its tolerance is 0.5" in str(found)


def test_the_tolerance_follows_from_the_type_the_examples_the_weights_and_the_updates():
    roundoff = 2.0**-24
    limits = parity.Tolerance(factor=1).limits(weights([3, -4], [3, -6], [3, -5]), num_examples=10)
    np.testing.assert_allclose(limits[:, 0] / roundoff, [0, 6 + 20, 6 + 20 + 5 + 10])
    few = parity.Tolerance(factor=1, num_summands=1).limits(weights([3, -4], [3, -6]), 10)
    np.testing.assert_allclose(few[:, 0] / roundoff, [0, 6 + 2])


@pytest.mark.parametrize(
    ("variable", "computed", "roundoff"),
    [
        (np.float64, None, 2.0**-53),
        (np.float32, tf.bfloat16, 2.0**-8),
        (tf.bfloat16.as_numpy_dtype, None, 2.0**-8),
        (np.float16, tf.float32, 2.0**-11),
        (np.complex64, None, 2.0**-24),
    ],
)
def test_the_tolerance_is_that_of_the_least_precise_type(variable, computed, roundoff):
    values = [[np.ones([2], variable)], [np.ones([2], variable)]]
    limits = parity.Tolerance(factor=2, dtype=computed).limits(values, num_examples=4)
    assert limits[1, 0] == 2 * roundoff


def test_batches_may_come_from_a_dataset_and_have_different_sizes():
    points = tf.data.Dataset.from_tensor_slices((tf.ones([6, 2]), tf.zeros([6])))
    setups = [parity.accumulators(2), parity.towers(2), parity.sync_replicas(2)]
    found = parity.compare(small_training(batches=points.batch(4)), setups, tolerance=0)
    assert found.num_steps == 2
    assert not found.differences, str(found)


def test_variables_without_a_gradient_are_left_alone():
    def build() -> dict[str, tf.Variable]:
        return {"used": tf.Variable([1.0, 2.0]), "unused": tf.Variable(3.0)}

    def loss(model: Any, x: Any, y: Any) -> tf.Tensor:
        return tf.reduce_mean(tf.linalg.matvec(x, model["used"]))

    setups = [parity.accumulators(2), parity.towers(2), parity.sync_replicas(2)]
    found = parity.compare(small_training(build=build, loss=loss), setups, tolerance=0)
    assert not found.differences, str(found)
    assert len(set(found.variables)) == 2


def test_a_remark_of_setups_that_agree_is_a_warning():
    training = small_training(batches=[(np.float32([[1e-6, 0], [0, 1e-6]]), None)])
    with pytest.warns(UserWarning, match="smaller faults cannot be seen"):
        parity.assert_parity(training, [parity.accumulators(2)])


def test_a_run_is_closed_after_an_error():
    closed = []

    def begin(described: parity.Training) -> parity.Run:
        def step(features: Any, labels: Any) -> None:
            raise OSError("a lost disk")

        return parity.Run(described.new_model().variables, step, close=lambda: closed.append(1))

    with pytest.raises(OSError, match="a lost disk"):
        parity.compare(small_training(), [parity.Setup("failing", begin)])
    assert closed == [1]


def test_the_package_imports_pytest_only_where_it_is_used():
    folder = Path(parity.__file__).parent
    for path in set(folder.glob("*.py")) - {folder / "pytest_plugin.py"}:
        for statement in ast.parse(path.read_text("utf-8")).body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                text = ast.unparse(statement)
                assert not re.search("pytest|examples", text), f"{path.name}: {text}"
