"""Training with towers."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc
from tf_condacc import estimator
from tf_condacc._typing import Nested
from tf_condacc.parity import _batches
from tf_condacc.parity._setup import Run, Way
from tf_condacc.parity._training import Model, Training


def towers(num_towers: int = 2) -> Way:
    """Returns the way with a `TowerOptimizer` in a model that `replicate_model_fn` replicates.

    It runs in a graph and a session, on as many CPU devices as there are towers, and needs an
    optimizer of ``tf.compat.v1.train``. All towers share the variables that `Training.build` makes.

    Args:
        num_towers: Number of towers, each of which gets an equal part of the batch.

    Raises:
        TypeError: When the training begins: it has no optimizer of ``tf.compat.v1.train``.
    """
    name = f"{num_towers} towers"

    def begin(training: Training) -> Run:
        made: list[Model] = []
        training.new_v1_optimizer(name)
        for features, labels in training.batches:
            _batches.split(features, labels, num_towers, name)
        reductions = v1.losses.Reduction
        replicated = tf_condacc.replicate_model_fn(
            _model_fn(training, made, name),
            reductions.SUM if training.reduction == "sum" else reductions.SUM_BY_NONZERO_WEIGHTS,
            devices=[f"/CPU:{tower}" for tower in range(num_towers)],
        )
        with tf.Graph().as_default() as graph:
            v1.train.get_or_create_global_step()
            inputs = _batches.placeholders(list(training.batches))
            spec = replicated(*inputs, estimator.ModeKeys.TRAIN)
            (model,) = made
            config = v1.ConfigProto(device_count={"CPU": num_towers})
            session = v1.Session(graph=graph, config=config)
            session.run(v1.global_variables_initializer())

        def step(features: Nested, labels: Nested) -> None:
            session.run(spec.train_op, _batches.feed(inputs, (features, labels)))

        return Run(model.variables, step, lambda: session.run(model.variables), session.close)

    return Way(name, begin)


def _model_fn(
    training: Training, made: list[Model], way: str
) -> Callable[..., estimator.EstimatorSpec]:
    """Returns a `model_fn`, whose first call builds the model and adds it to a list."""

    def model_fn(features: Nested, labels: Nested, mode: str) -> estimator.EstimatorSpec:
        if not made:
            made.append(training.new_model())
        loss = training.loss_of(made[0], features, labels)
        optimizer = tf_condacc.TowerOptimizer(training.new_v1_optimizer(way))
        step = v1.train.get_global_step()
        train_op = optimizer.minimize(loss, global_step=step, var_list=made[0].variables)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn
