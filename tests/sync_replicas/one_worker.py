"""Trains with one worker. As a program, it also runs on TensorFlow 1.15, and prints the weights."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def updates_of(kind: Any, replicas: int, total: int, count: int) -> dict[int, np.ndarray]:
    """Returns the weights by the number of updates, of a training with one worker."""
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable("w", initializer=np.float32([0.7, -1.3]))
        optimizer = kind(v1.train.MomentumOptimizer(0.1, 0.9), replicas, total)
        train = optimizer.minimize(tf.reduce_sum(weight**4 / 3), global_step=step)
        tokens = optimizer.get_init_tokens_op()
        updates: dict[int, np.ndarray] = {}
        coordinator = tf.train.Coordinator()
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            session.run(optimizer.chief_init_op)
            runner = optimizer.get_chief_queue_runner()
            runner.create_threads(session, coordinator, daemon=True, start=True)
            session.run(tokens)
            while max(updates, default=0) < count:
                session.run(train)
                # The chief of the original may update between two reads.
                before, values, after = session.run(step), session.run(weight), session.run(step)
                if before == after:
                    updates[int(before)] = values
            coordinator.request_stop()
    return updates


def main() -> None:
    """Prints the bytes of the weights of TensorFlow's optimizer, by its numbers and the update."""
    for replicas, total in itertools.product(range(1, 5), range(1, 5)):
        updates = updates_of(v1.train.SyncReplicasOptimizer, replicas, total, 3)
        texts = {number: weights.tobytes().hex() for number, weights in updates.items()}
        print(json.dumps([replicas, total, texts]))


if __name__ == "__main__":
    main()
