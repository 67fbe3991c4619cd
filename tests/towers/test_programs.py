"""Models with towers that Hypothesis makes, compared with a NumPy model of their gradients."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, note
from hypothesis import strategies as st

import tf_condacc
from tests.support.programs import programs_settings
from tests.support.tower_support import (
    Recording,
    initialized_session,
    replicate,
    sums_one_by_one,
    to_dense,
)
from tf_condacc import estimator

v1 = tf.compat.v1
STEPS = 3
ROWS, WIDTH = 6, 3
KINDS = ["dense", "sparse", "none"]
REDUCTIONS = [v1.losses.Reduction.SUM, v1.losses.Reduction.MEAN]


class Model:
    """A model of some variables, whose gradients are drawn anew for each tower and variable.

    The loss is a sum of products, so every gradient consists of numbers of the batch. They are
    integers, so sums are exact, even if they are divided by 1, 2, 4 or 8 towers.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.num_towers = rng.choice([1, 2, 2, 3, 4, 8])
        self.reduction = rng.choice(REDUCTIONS if self.num_towers != 3 else REDUCTIONS[:1])
        self.dtype = rng.choice([tf.float32, tf.float64])
        self.num_variables = rng.randint(1, 3)
        # At least one tower has a gradient of each variable.
        self.kinds = [
            [rng.choice(KINDS) for _ in range(self.num_towers)] for _ in range(self.num_variables)
        ]
        for kinds in self.kinds:
            kinds[rng.randrange(self.num_towers)] = rng.choice(KINDS[:2])
        self.ids = [
            [[rng.randrange(ROWS) for _ in range(rng.randint(0, 5))] for _ in kinds]
            for kinds in self.kinds
        ]
        self.optimizer = Recording()
        self.tower = 0

    def model_fn(self, features, labels, mode):
        number = tf.reshape(features, [])
        loss = number * 0
        for k in range(self.num_variables):
            v = v1.get_variable(
                f"v{k}", [ROWS, WIDTH], self.dtype, v1.zeros_initializer(), use_resource=True
            )
            kind, ids = self.kinds[k][self.tower], self.ids[k][self.tower]
            if kind == "dense":
                loss += number * tf.reduce_sum(v)
            elif kind == "sparse":
                loss += number * tf.reduce_sum(tf.gather(v, tf.constant(ids, tf.int64)))
        self.tower += 1
        optimizer = tf_condacc.TowerOptimizer(self.optimizer)
        step = v1.train.get_or_create_global_step()
        gradients = optimizer.compute_gradients(loss, v1.trainable_variables())
        train = optimizer.apply_gradients(gradients, step)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def gradients(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Returns the gradients that the optimizer must get for each variable."""
        scale = self.num_towers if self.reduction != v1.losses.Reduction.SUM else 1
        totals = []
        for kinds, ids in zip(self.kinds, self.ids, strict=True):
            total = np.zeros([ROWS, WIDTH])
            for number, kind, rows in zip(numbers, kinds, ids, strict=True):
                if kind == "dense":
                    total += number / scale
                elif kind == "sparse":
                    np.add.at(total, rows, number / scale)
            totals.append(total)
        return totals

    def is_sparse(self, k: int) -> bool:
        return "dense" not in self.kinds[k]


def check_training(model: Model, rng: random.Random) -> None:
    """Trains a model, and compares its gradients and variables with what they must be."""
    numbers = 8.0 * np.array(
        [[rng.randrange(-64, 64) for _ in range(model.num_towers)] for _ in range(STEPS)]
    )
    expected = np.zeros([model.num_variables, ROWS, WIDTH])
    with tf.Graph().as_default():
        features = v1.placeholder(model.dtype, [model.num_towers])
        with sums_one_by_one(rng.random() < 0.5):
            spec = replicate(
                model.model_fn, model.num_towers, features, loss_reduction=model.reduction
            )
        given = {variable.op.name: gradient for gradient, variable in model.optimizer.given}
        with initialized_session(inter_op_parallelism_threads=4) as session:
            for step in range(STEPS):
                batch = numbers[step]
                fetched, _ = session.run([given, spec.train_op], {features: batch})
                for k, gradient in enumerate(model.gradients(batch)):
                    value = fetched[f"v{k}"]
                    assert hasattr(value, "indices") == model.is_sparse(k)
                    np.testing.assert_array_equal(to_dense(value, [ROWS, WIDTH]), gradient)
                    expected[k] -= gradient
                variables = {v.op.name: v for v in v1.trainable_variables()}
                for name, value in session.run(variables).items():
                    np.testing.assert_array_equal(value, expected[int(name[1:])])
            assert session.run(v1.train.get_global_step()) == STEPS


@pytest.mark.parametrize("number", [12, pytest.param(150, marks=pytest.mark.long)])
def test_models_train_as_the_numpy_model_says(number: int):
    @programs_settings(number, is_long=number > 12)
    @given(st.randoms(use_true_random=False))
    def check(rng: random.Random) -> None:
        model = Model(rng)
        note(str(vars(model)))
        check_training(model, rng)

    check()
