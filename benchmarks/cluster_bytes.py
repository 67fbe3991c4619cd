"""Measures how long a training step takes on a cluster, by the number of parameters.

    condacc launch --ps 1 --workers 2 -- python benchmarks/cluster_bytes.py

Each worker reads all parameters and pushes a gradient of the same size, in lock step, without
computing anything else. The chief prints the median time of a step for each size.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import tensorflow as tf

import tf_condacc

v1 = tf.compat.v1
_VARIABLES = 8
_WARM_UP_STEPS = 5


def step_seconds(task: tf_condacc.cluster.Task, size: int, steps: int, transport: str) -> float:
    """Returns the median time of a step.

    Args:
        task: This process.
        size: Number of float32 parameters.
        steps: Number of steps to measure.
        transport: Data type in which gradients travel.
    """
    moments = []
    with tf.Graph().as_default(), v1.device(task.replica_device_setter()):
        step = v1.train.create_global_step()
        variables = [
            v1.get_variable(
                f"weights_{size}_{i}",
                [size // _VARIABLES],
                initializer=v1.zeros_initializer(),
                use_resource=True,
            )
            for i in range(_VARIABLES)
        ]
        # The gradient depends on the parameters, so they travel to the worker first.
        loss = tf.add_n([tf.reduce_sum(tf.square(v)) for v in variables])
        optimizer = tf_condacc.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(1e-3), task.num_worker_replicas, name=f"of_{size}"
        )
        optimizer.configure(transport_dtype=None if transport == "float32" else transport)
        train_op = optimizer.minimize(loss, step)
        hooks = [
            optimizer.make_session_run_hook(task.is_chief),
            v1.train.StopAtStepHook(num_steps=steps + _WARM_UP_STEPS),
        ]
        with task.session(hooks=hooks, log_step_count_steps=None) as session:
            while not session.should_stop():
                session.run(train_op)
                moments.append(time.perf_counter())
    return float(np.median(np.diff(moments[_WARM_UP_STEPS:])))


def main() -> None:
    """Measures all sizes, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, nargs="+", default=[0.001, 1, 4, 16])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--transport", choices=["float32", "bfloat16"], default="float32")
    options = parser.parse_args()
    with tf_condacc.cluster.start() as task:
        for millions in options.millions:
            size = int(millions * 1e6) // _VARIABLES * _VARIABLES
            seconds = step_seconds(task, size, options.steps, options.transport)
            if task.is_chief:
                print(
                    f"{task.num_ps_replicas} ps, {task.num_worker_replicas} workers, "
                    f"{options.transport}: {size:>11,} parameters, {seconds * 1e3:8.2f} ms a step",
                    flush=True,
                )


if __name__ == "__main__":
    main()
