"""Setups with what tf_condacc adds: accumulators, towers and synchronous replicas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc
from tf_condacc import estimator
from tf_condacc._typing import Nested
from tf_condacc.parity import _batches
from tf_condacc.parity._setup import Run, Setup, on_cpu
from tf_condacc.parity._training import Model, Training


def accumulators(num_micro_batches: int = 2, sparse_reduction: str = "GLOBAL_MEAN") -> Setup:
    """Returns the setup that applies the gradients of micro-batches to accumulators.

    After the last micro-batch, the optimizer applies what the accumulators hold: means, or sums if
    the loss is a sum over examples. ``tf.IndexedSlices`` go to a `SparseConditionalAccumulator`.

    Args:
        num_micro_batches: Number of equal parts of each batch.
        sparse_reduction: How sparse gradients are averaged: "GLOBAL_MEAN", or "MEAN" as in
            TensorFlow's own class, which divides each row by the number of gradients that have it.
    """
    name = _named(f"accumulators with {num_micro_batches} micro-batches", sparse_reduction)

    @on_cpu
    def begin(training: Training) -> Run:
        model, optimizer = training.new_model(), training.optimizer()
        variables: list[Any] = []  # Those that have gradients, in the order of the accumulators.
        made: list[tf_condacc.ConditionalAccumulatorBase] = []
        sparse = "SUM" if training.reduction == "sum" else sparse_reduction

        @tf.function
        def gradients(features: Nested, labels: Nested) -> list[Any]:
            pairs = training.gradients(model, features, labels)
            variables[:] = [variable for _, variable in pairs]
            return [gradient for gradient, _ in pairs]

        def step(features: Nested, labels: Nested) -> None:
            for part in _batches.split(features, labels, num_micro_batches, name):
                found = gradients(*part)
                if not made:
                    made.extend(map(functools.partial(accumulator_for, sparse), found, variables))
                for accumulator, gradient in zip(made, found, strict=True):
                    apply(accumulator, gradient, accumulator.global_step())
            taken = [take(accumulator, num_micro_batches) for accumulator in made]
            optimizer.apply_gradients(list(zip(taken, variables, strict=True)))

        return Run(model.variables, step, num_micro_batches=num_micro_batches)

    return Setup(name, begin)


def accumulator_for(
    sparse: str, gradient: Any, variable: Any
) -> tf_condacc.ConditionalAccumulatorBase:
    """Returns an accumulator of the gradients of a variable, all of which are like one.

    Args:
        sparse: The reduction of ``tf.IndexedSlices``. Dense gradients are averaged, or summed if it
            is "SUM".
        gradient: The gradient.
        variable: Its variable.
    """
    dtype, shape = gradient.dtype, variable.shape
    if isinstance(gradient, tf.IndexedSlices):
        return tf_condacc.SparseConditionalAccumulator(dtype, shape, reduction_type=sparse)
    dense = "SUM" if sparse == "SUM" else "MEAN"
    return tf_condacc.ConditionalAccumulator(dtype, shape, reduction_type=dense)


def apply(accumulator: Any, gradient: Any, local_step: Any) -> None:
    """Applies a gradient, sparse or dense."""
    if isinstance(gradient, tf.IndexedSlices):
        accumulator.apply_indexed_slices_grad(gradient, local_step)
    else:
        accumulator.apply_grad(gradient, local_step)


def take(accumulator: Any, number: int) -> Any:
    """Takes the mean or the sum of a number of gradients."""
    if isinstance(accumulator, tf_condacc.SparseConditionalAccumulator):
        return accumulator.take_indexed_slices_grad(number)
    return accumulator.take_grad(number)


def towers(num_towers: int = 2) -> Setup:
    """Returns the setup with a `TowerOptimizer` in a model that `replicate_model_fn` replicates.

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

        return Run(
            model.variables,
            step,
            lambda: session.run(model.variables),
            session.close,
            num_micro_batches=num_towers,
        )

    return Setup(name, begin)


def _model_fn(
    training: Training, made: list[Model], setup: str
) -> Callable[..., estimator.EstimatorSpec]:
    """Returns a `model_fn`, whose first call builds the model and adds it to a list."""

    def model_fn(features: Nested, labels: Nested, mode: str) -> estimator.EstimatorSpec:
        if not made:
            made.append(training.new_model())
        loss = training.loss_of(made[0], features, labels)
        optimizer = tf_condacc.TowerOptimizer(training.new_v1_optimizer(setup))
        step = v1.train.get_global_step()
        train_op = optimizer.minimize(loss, global_step=step, var_list=made[0].variables)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def sync_replicas(num_replicas: int = 2, sparse_reduction: str = "GLOBAL_MEAN") -> Setup:
    """Returns the setup with a `SyncReplicasOptimizer` and one worker, which is the chief.

    The worker computes as many gradients for each update as there are replicas, each of an equal
    part of the batch. It runs in a graph and a session, and needs an optimizer of
    ``tf.compat.v1.train``. If the loss is a sum over examples, it is multiplied by the number of
    replicas, because this optimizer averages.

    Args:
        num_replicas: Number of gradients for each update.
        sparse_reduction: How sparse gradients are averaged: "GLOBAL_MEAN", or "MEAN" as in
            TensorFlow's own class, which divides each row by the number of gradients that have it.

    Raises:
        TypeError: When the training begins: it has no optimizer of ``tf.compat.v1.train``.
    """
    name = _named(f"{num_replicas} sync replicas", sparse_reduction)

    def begin(training: Training) -> Run:
        factor = num_replicas if training.reduction == "sum" else 1
        parts = [_batches.split(*batch, num_replicas, name)[0] for batch in training.batches]
        with tf.Graph().as_default(), tf.device("/CPU:0"):
            model, step_variable = training.new_model(), v1.train.get_or_create_global_step()
            inputs = _batches.placeholders(parts)
            loss = training.loss_of(model, *inputs)
            optimizer = tf_condacc.SyncReplicasOptimizer(
                training.new_v1_optimizer(name), num_replicas, total_num_replicas=1
            )
            optimizer.configure(sparse_reduction=sparse_reduction)
            train_op = optimizer.minimize(
                loss * factor if factor > 1 else loss, step_variable, model.variables
            )
            hook = optimizer.make_session_run_hook(is_chief=True)
            session = v1.train.MonitoredTrainingSession(hooks=[hook])

        def step(features: Nested, labels: Nested) -> None:
            for part in _batches.split(features, labels, num_replicas, name):
                session.run(train_op, _batches.feed(inputs, part))

        def read() -> list:
            # Runs without the hooks, which count steps.
            return session.run_step_fn(
                lambda step_context: step_context.session.run(model.variables)
            )

        return Run(model.variables, step, read, session.close, num_micro_batches=num_replicas)

    return Setup(name, begin)


def _named(name: str, sparse_reduction: str) -> str:
    """Returns the name of a setup, which says how sparse gradients are averaged."""
    return name if sparse_reduction == "GLOBAL_MEAN" else f"{name} (sparse {sparse_reduction})"
