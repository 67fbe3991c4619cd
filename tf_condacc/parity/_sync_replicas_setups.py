"""Training with synchronous replicas."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._optimizers.sync_replicas.optimizer import SyncReplicasOptimizer
from tf_condacc._typing import Nested
from tf_condacc.parity import _batches
from tf_condacc.parity._setup import Run, Way
from tf_condacc.parity._training import Training


def sync_replicas(num_replicas: int = 2, sparse_reduction: str = "GLOBAL_MEAN") -> Way:
    """Returns the way with a `SyncReplicasOptimizer` and one worker, which is the chief.

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
    name = f"{num_replicas} sync replicas"
    if sparse_reduction != "GLOBAL_MEAN":
        name += f" (sparse {sparse_reduction})"

    def begin(training: Training) -> Run:
        factor = num_replicas if training.reduction == "sum" else 1
        parts = [_batches.split(*batch, num_replicas, name)[0] for batch in training.batches]
        with tf.Graph().as_default(), tf.device("/CPU:0"):
            model, step_variable = training.new_model(), v1.train.get_or_create_global_step()
            inputs = _batches.placeholders(parts)
            loss = training.loss_of(model, *inputs)
            optimizer = SyncReplicasOptimizer(
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
            # Without the hooks, which count steps.
            return session.run_step_fn(
                lambda step_context: step_context.session.run(model.variables)
            )

        return Run(model.variables, step, read, session.close)

    return Way(name, begin)
