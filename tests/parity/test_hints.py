"""Tests of the hints in reports: each names the cause that was planted, and no other."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.parity.trainings import (
    cross_entropy,
    exact,
    mean_of_products,
    products,
    rounded,
    scores,
    small_training,
)
from tests.processes.isolated import isolated
from tests.support.versions import needs_keras3
from tf_condacc import parity
from tf_condacc.parity._strategy_setups import big_batch, reversed_batch

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
v1 = tf.compat.v1
pytestmark = isolated()


@pytest.fixture(scope="module", autouse=True)
def four_cpus():
    parity.use_logical_cpus(4)


def loop(
    number: int, *, reduction_type: str = "MEAN", divisor: int = 1, **told: Any
) -> parity.Setup:
    """Returns a setup with a training loop that accumulates micro-batches of one or two."""

    def begin(training: parity.Training) -> parity.Run:
        model, optimizer = training.new_model(), training.optimizer()
        accumulator = tf_condacc.GradientAccumulator(model.variables, number, reduction_type)

        def step(features: Any, labels: Any) -> None:
            size = len(labels) // number
            for k in range(number):
                part = slice(k * size, (k + 1) * size)
                pairs = training.gradients(model, features[part], labels[part], divisor)
                accumulator.apply_gradients(optimizer, [gradient for gradient, _ in pairs])

        return parity.Run(model.variables, step, **told)

    return parity.Setup("my loop", begin)


_REPLICAS = "the loss is not divided by the number of replicas, 2 "
_SUMMED = "the gradients of {} micro-batches are summed, not averaged"


@pytest.mark.parametrize(
    ("setup", "ratio", "causes"),
    [
        (loop(2, reduction_type="SUM", num_micro_batches=2), "2", [_SUMMED.format(2)]),
        (loop(4, reduction_type="SUM", num_micro_batches=4), "4", [_SUMMED.format(4)]),
        # If their numbers are equal, replicas and micro-batches cannot be told apart.
        (
            loop(2, reduction_type="SUM", num_replicas=2, num_micro_batches=2),
            "2",
            [_REPLICAS, _SUMMED.format(2)],
        ),
        (
            loop(2, reduction_type="SUM", num_replicas=2),
            "2",
            [_REPLICAS, _SUMMED.format(2) + ", if that is their number"],
        ),
        (loop(4, reduction_type="SUM", num_replicas=2), "4", [_SUMMED.format(4) + ", if that"]),
        (loop(4, reduction_type="SUM"), "4", ["Run(num_micro_batches=4)"]),
        (
            loop(2, divisor=2, num_micro_batches=2),
            "1/2",
            ["the gradients of 2 micro-batches are divided by their number twice"],
        ),
        # Four times too large: both are wrong.
        (
            loop(4, reduction_type="SUM", num_replicas=2, num_micro_batches=2),
            "4",
            [_REPLICAS, f"and {_SUMMED.format(2)}"],
        ),
    ],
)
def test_a_ratio_names_replicas_or_micro_batches_or_both(setup, ratio, causes):
    report = parity.compare(exact(), [setup], tolerance=0)
    (hint,) = report.hints
    assert hint.startswith(f"my loop: the ratio is {ratio}. Probably ")
    for cause in causes:
        assert cause in hint
    named = hint.count("replicas, 2") + hint.count("of 2 micro-b") + hint.count("of 4 micro-b")
    assert named == len(causes)


def test_one_variable_whose_micro_batches_are_summed_is_not_blamed_on_the_loss():
    def begin(training: parity.Training) -> parity.Run:
        model, optimizer = training.new_model(), training.optimizer()
        table, vector = model.variables
        mean, total = (
            tf_condacc.GradientAccumulator([each], 2, reduction)
            for each, reduction in ((table, "MEAN"), (vector, "SUM"))
        )

        def step(rows: Any, factors: Any) -> None:
            for part in (slice(0, 2), slice(2, 4)):
                pairs = training.gradients(model, rows[part], factors[part])
                mean.accumulate([pairs[0][0]]), total.accumulate([pairs[1][0]])
            taken = zip(mean.take() + total.take(), model.variables, strict=True)
            optimizer.apply_gradients(list(taken))

        return parity.Run(model.variables, step, num_replicas=2, num_micro_batches=2)

    report = parity.compare(exact(), [parity.Setup("my loop", begin)], tolerance=0)
    (found,) = report.differences
    assert (found.differing, found.agreeing) == (("vector",), ("table",))
    assert report.hints == [f"my loop: the ratio is 2. Probably {_SUMMED.format(2)}."]


def keras_mirrored(divided: bool) -> parity.Setup:
    """Returns a setup with plain Keras in a strategy, whose loss is divided or not."""

    def begin(training: parity.Training) -> parity.Run:
        strategy = tf.distribute.MirroredStrategy(
            ["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
        )
        with strategy.scope():
            model, optimizer = training.new_model(), training.optimizer()

        @tf.function
        def replica_step(features: Any, labels: Any) -> None:
            pairs = training.gradients(model, features, labels, 2 if divided else 1)
            optimizer.apply_gradients(pairs)

        def step(features: Any, labels: Any) -> None:
            data = tf.data.Dataset.from_tensor_slices((features, labels)).batch(len(features))
            for parts in strategy.experimental_distribute_dataset(data):
                strategy.run(replica_step, parts)

        return parity.Run(model.variables, step, num_replicas=2, num_micro_batches=1)

    return parity.Setup("my loop", begin)


def sgd(**clipping: float) -> Callable[[], Any]:
    import keras

    return lambda: keras.optimizers.SGD(0.01, **clipping)


@needs_keras3  # Keras 2 clips the sum of the replicas.
@pytest.mark.parametrize("setting", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_clipping_of_the_parts_of_replicas_is_not_called_a_missing_division(setting):
    training = small_training(optimizer=sgd(**{setting: 0.1}))
    report = parity.compare(training, [parity.mirrored(2), parity.accumulators(2)])
    (hint,) = report.hints
    assert hint.startswith("MirroredStrategy with 2 replicas: ")
    assert f"Probably the optimizer clips the gradient of each replica ({setting}=0.1)" in hint
    assert report.groups[0] == ["one big batch", "accumulators with 2 micro-batches"]


def test_a_limit_that_clips_nothing_is_not_blamed():
    training = small_training(optimizer=sgd(clipnorm=100.0))
    report = parity.compare(training, [keras_mirrored(divided=False)])
    (hint,) = report.hints
    assert hint.startswith(f"my loop: the ratio is 2. Probably {_REPLICAS}")


def test_a_loss_that_is_a_sum_gives_one_hint():
    training = exact(loss=lambda *given: tf.reduce_sum(products(*given)))
    report = parity.compare(training, [parity.mirrored(2), parity.mirrored(2, 2), loop(4)])
    assert len(report.groups) == 3
    (hint,) = report.hints
    assert hint.startswith("The loss is a sum over examples, and not a mean")
    assert 'Pass Training(reduction="sum")' in hint


def test_a_loss_that_is_a_mean_and_called_a_sum_gives_one_hint():
    report = parity.compare(exact(reduction="sum"), [parity.mirrored(2), parity.accumulators(4)])
    (hint,) = report.hints
    assert hint.startswith("The loss is a mean over examples, and not a sum")


def test_a_sum_and_another_fault_are_both_told():
    training = exact(loss=lambda *given: tf.reduce_sum(products(*given)))
    summing = loop(2, reduction_type="SUM", divisor=8, num_micro_batches=2)
    report = parity.compare(training, [parity.accumulators(2), summing])
    assert report.hints[0].startswith("The loss is a sum over examples")
    assert len(report.groups) == 3


@pytest.mark.parametrize(
    "setups",
    [
        [parity.mirrored(2)],
        [parity.towers(2)],
        [parity.sync_replicas(2)],
        [parity.accumulators(4)],
        [parity.mirrored(2), parity.mirrored(2, 2)],  # Parts of different sizes.
        [parity.mirrored(2), loop(4)],  # The loop does not say how many parts it has.
    ],
    ids=lambda setups: ", ".join(setup.name for setup in setups),
)
def test_batch_statistics_are_told_wherever_a_setup_divides_the_batch(setups):
    def loss(model: Any, points: Any, classes: Any) -> tf.Tensor:
        return cross_entropy(scores(model, points, normalize=True), classes)

    report = parity.compare(rounded(loss=loss), setups)
    (hint,) = report.hints
    assert "as with batch statistics" in hint
    for setup in setups:
        assert setup.name in hint


@pytest.mark.parametrize("replicas", [2, 4])
def test_updates_that_differ_by_little_get_no_cause(replicas):
    def begin(training: parity.Training) -> parity.Run:
        model, optimizer = training.new_model(), training.optimizer()

        def step(*batch: Any) -> None:
            pairs = training.gradients(model, *batch)
            optimizer.apply_gradients([(1.003 * gradient, v) for gradient, v in pairs])

        return parity.Run(model.variables, step, num_replicas=replicas, num_micro_batches=2)

    report = parity.compare(small_training(), [parity.Setup("my loop", begin)])
    assert report.differences and not report.hints


class Scaled(v1.train.GradientDescentOptimizer):
    """Descends along each gradient divided by a norm, with a fault."""

    fault = ""

    def __init__(self) -> None:
        super().__init__(0.5)
        self.step = tf.Variable(1.0, trainable=False)

    def apply_gradients(self, pairs: Any, global_step: Any = None, name: Any = None) -> Any:
        context = tf.distribute.get_replica_context()
        factor = 1.0
        if self.fault == "sum":
            factor = float(context.num_replicas_in_sync)
        elif self.fault == "dependency":
            self.step.assign(2.0)
            factor = tf.convert_to_tensor(self.step)
        scaled = []
        for gradient, variable in pairs:
            if self.fault == "rows" and isinstance(gradient, tf.IndexedSlices):
                rows, where = tf.unique(gradient.indices)
                first = tf.math.unsorted_segment_min(tf.range(tf.size(where)), where, tf.size(rows))
                gradient = tf.IndexedSlices(tf.gather(gradient.values, first), rows)
            norm = 1.0
            if self.fault == "norm":
                norm = 1.0 + tf.reduce_sum(tf.abs(tf.convert_to_tensor(gradient)))
            if isinstance(gradient, tf.IndexedSlices):
                gradient = tf.IndexedSlices(gradient.values * (factor / norm), gradient.indices)
            else:
                gradient = gradient * (factor / norm)
            scaled.append((gradient, variable))
        return super().apply_gradients(scaled, global_step, name)


@pytest.mark.parametrize(
    ("fault", "setups", "cause"),
    [
        ("sum", "MirroredStrategy with 2 replicas", "the optimizer sums over the replicas what is"),
        ("norm", "MirroredStrategy with 2 replicas", "the optimizer uses the gradient or the"),
        ("dependency", "2 towers, 2 sync replicas", "lacks a control dependency"),
        ("rows", "MirroredStrategy with 2 replicas", "the optimizer loses or alters rows that are"),
    ],
)
def test_a_fault_of_the_optimizer_is_named(fault, setups, cause):
    optimizer = type("Optimizer", (Scaled,), {"fault": fault})
    report = parity.compare(exact(optimizer=optimizer), tolerance=1e-5)
    (hint,) = [each for each in report.hints if cause in each]
    assert hint.startswith(f"{setups}: "), str(report)
    assert hint.count(", or ") < 3
    assert "random numbers" not in str(report)


def test_a_stale_variable_is_not_called_a_batch_statistic():
    def begin(training: parity.Training) -> parity.Run:
        model, optimizer = training.new_model(), training.optimizer()
        last: list[Any] = []

        def step(rows: Any, factors: Any) -> None:
            (table, vector) = training.gradients(model, rows, factors)
            last.append(vector[0])
            optimizer.apply_gradients([table, (last[max(len(last) - 2, 0)], vector[1])])

        return parity.Run(model.variables, step)

    report = parity.compare(exact(), [parity.Setup("my loop", begin)], tolerance=0)
    assert (report.differences[0].step, report.differences[0].agreeing) == (2, ("table",))
    assert not report.hints


def test_means_of_rows_are_not_called_sums():
    training = exact(batches=[(np.array([[0, 1], [2, 3], [2, 3], [0, 2]]), np.float32([2] * 4))])
    report = parity.compare(training, [parity.accumulators(2, sparse_reduction="MEAN")])
    (hint,) = report.hints
    assert "only some rows of table have this ratio" in hint


@needs_keras3  # Keras 2 adds up repeated rows.
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Adam", {"epsilon": 1e-3}),
        pytest.param("AdamW", {"epsilon": 1e-3}, marks=pytest.mark.wide),
        pytest.param("Adagrad", {}, marks=pytest.mark.wide),
        pytest.param("RMSprop", {"epsilon": 1e-3}, marks=pytest.mark.wide),
        pytest.param("SGD", {"clipnorm": 0.05}, marks=pytest.mark.wide),
    ],
)
def test_repeated_rows_raise_no_alarm_with_optimizers_of_keras(name, settings):
    import keras

    rows = np.array([[0, 1], [0, 0], [2, 1], [3, 2]])
    training = exact(
        optimizer=lambda: getattr(keras.optimizers, name)(0.01, **settings),
        batches=[(rows, np.float32([1, 2, -1, 3]))] * 2,
        loss=lambda *given: mean_of_products(*given) / 8,
    )
    setups = [reversed_batch(), parity.accumulators(2)]
    if name == "Adam":
        setups += [parity.one_device(), parity.mirrored(2), parity.mirrored(2, 2)]
        setups += [keras_mirrored(divided=True)]
    report = parity.compare(training, setups)
    agreeing = [big_batch().name, *(setup.name for setup in setups)]
    unsummed = agreeing.pop() if agreeing[-1] == "my loop" else None
    assert report.groups == [agreeing, *([[unsummed]] if unsummed else [])]
    assert report.hints[0].startswith("Rows are repeated in the sparse gradients of table.")
    assert report.hints[1:] == [
        f"{each}: the weights are those of a big batch whose repeated rows are not summed. Nothing "
        "else is wrong. A GradientAccumulator sums them."
        for each in ([unsummed] if unsummed else [])
    ]


def test_optimizers_for_which_repeated_rows_are_right_get_no_hint():
    assert not parity.compare(exact(optimizer=sgd()), [parity.mirrored(2)], tolerance=1e-6).hints
    assert not parity.compare(exact(), [parity.mirrored(2)], tolerance=0).hints


def test_a_gradient_that_is_not_finite_or_vanishes_is_not_called_a_batch_statistic():
    def loss(model: Any, x: Any, y: Any) -> tf.Tensor:
        return tf.reduce_mean(tf.linalg.matvec(x, model)) / 0.0

    report = parity.compare(small_training(loss=loss), [parity.accumulators(2)])
    assert report.differences and "batch statistics" not in str(report)

    def begin(training: parity.Training) -> parity.Run:
        (variable,) = model = training.new_model().variables
        return parity.Run(model, lambda x, y: variable.assign_add([1.0, 1.0]))

    batches = [(np.float32([[1, 2], [-1, -2]]), None)]  # The gradients of the halves cancel.
    training = small_training(loss=lambda w, x, y: tf.reduce_mean(x @ w[:, None]), batches=batches)
    report = parity.compare(training, [parity.Setup("my loop", begin)])
    assert report.differences and not report.hints


def test_numbers_of_parts_below_1_are_refused():
    with pytest.raises(ValueError, match="Run: expected num_micro_batches of at least 1, got 0"):
        parity.Run([], lambda features, labels: None, num_micro_batches=0)
