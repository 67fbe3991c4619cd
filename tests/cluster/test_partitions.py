"""Connections that are lost for a while, or over which nothing is sent for long."""

from __future__ import annotations

import json
import subprocess

import pytest
import tensorflow as tf

from tests.cluster import trainings
from tests.processes.forked_python import forked_python
from tests.processes.isolated import isolated
from tests.processes.separate_hosts import SeparateHosts
from tests.support.ports import free_cluster
from tests.support.waiting import Background, timed, work
from tf_condacc import cluster

# The host of each task: one parameter server on each, and the chief without the other workers.
_HOSTS = {"ps": [0, 1], "worker": [0, 1, 1]}
_PARTITIONS = [("10 s", 10, (0, 1)), ("60 s", 60, (0, 1)), ("60 s, one way", 60, (1,))]
_WAIT_SECS = 240


@pytest.fixture
def hosts():
    try:
        with SeparateHosts() as made:
            yield made
    except OSError as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces cannot be made here: {error.stderr}")


@isolated()
@pytest.mark.long
def test_training_goes_on_after_a_partition_and_nothing_counts_twice(tmp_path, hosts):
    training = trainings.SyncTraining(tmp_path, num_ps=2, replicas=3)
    training.cluster.put_on(hosts, lambda who: _HOSTS[who[0]][who[1]])
    with training.cluster as running:
        running.start()
        running.await_steps(20, 0, 1, 2)
        for name, secs, lost in _PARTITIONS:
            with hosts.partition(*lost):
                work(secs)
            # It takes up to 4 s, and took 51 s when the kernel closed no connections.
            with timed(f"the first step after {name}"):
                running.await_steps(1)
            running.await_steps(20, 0, 1, 2)
        trainings.tell_all_to_leave(running)
        assert set(running.await_end().values()) == {0}, running.messages()[-4000:]
    training.check()


@pytest.mark.long
def test_a_step_may_wait_for_minutes():
    """With gRPC's keepalive every 20 s a server ends such a step after 200 s."""
    spec = free_cluster(1, 1)
    config = {"cluster": spec, "task": {"type": "worker", "index": 0}}
    of_server = json.dumps({**config, "task": {"type": "ps", "index": 0}})
    program = f"import tf_condacc; tf_condacc.cluster.start({of_server!r})"
    server = subprocess.Popen([*forked_python(), "-c", program])
    try:
        task = cluster.start(config, report_secs=None)
        with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0/device:CPU:0"):
            queue = tf.compat.v1.FIFOQueue(1, [tf.int64], [[]], shared_name="waits")
            enqueue, dequeue = queue.enqueue(7), queue.dequeue()
        with tf.compat.v1.Session(task.master, graph=graph, config=task.session_config) as session:
            later = Background(lambda: (work(_WAIT_SECS), session.run(enqueue)))
            assert session.run(dequeue) == 7
            later.result()
    finally:
        server.kill()
        server.wait()
