"""How a process ends that coordinates parameter servers of TensorFlow 2."""

from __future__ import annotations

import pytest
import tensorflow as tf

import tf_condacc.cluster
from tests.processes.forked_python import forked_python
from tests.support.waiting import run_program

# The servers are in the process of the coordinator. What follows stands in the context.
SETUP = """
import atexit, socket, sys
import tensorflow as tf, tf_condacc.cluster
atexit.register(print, "an exit handler")
spec = {}
for job in ("ps", "worker"):
    with socket.create_server(("localhost", 0)) as server:
        spec[job] = [f"localhost:{server.getsockname()[1]}"]
cluster = tf.train.ClusterSpec(spec)
servers = [tf.distribute.Server(cluster, job, 0, protocol="grpc") for job in spec]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
strategy = tf.distribute.ParameterServerStrategy(resolver)
with tf_condacc.cluster.coordinator(strategy) as coordinator:
    coordinator.schedule(tf.function(lambda: 1))
    coordinator.join()
    sys.stdout.write("it coordinates")
    """


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('it is over')", 1, "it is over\n"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
    ],
)
def test_the_process_ends_with_the_status_of_its_context(code, status, error):
    done = run_program([*forked_python(), "-c", SETUP + code])
    assert (done.returncode, done.stdout) == (status, "it coordinates"), done.stderr
    assert done.stderr.endswith(error)
    assert ("Traceback" in done.stderr) == (status in (1, 130) and "exit" not in code)


def test_a_server_without_the_package_is_told_to_import_it():
    error = "Op type not registered 'Condacc>DenseApply' in binary. /job:worker/replica:0/task:1"
    done = run_program(
        [*forked_python(), "-c", SETUP + f"raise tf.errors.NotFoundError(None, None, {error!r})"]
    )
    assert done.returncode == 1
    told = "NotFoundError: Task /job:worker/replica:0/task:1 does not know the operation"
    assert told in done.stderr, done.stderr
    assert "must `import tf_condacc` before it starts its server" in done.stderr


def test_another_kind_of_strategy_is_refused():
    expected = "expected a tf.distribute.ParameterServerStrategy, got OneDeviceStrategy"
    with pytest.raises(TypeError, match=expected):
        tf_condacc.cluster.coordinator(tf.distribute.OneDeviceStrategy("cpu")).__enter__()
