"""Tests of gradients that travel in packages."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tf_condacc._ops.native import ops
from tf_condacc._optimizers.sync_replicas.packing import travelled

v1 = tf.compat.v1
KIB = 1 << 10


def made(shapes, devices=("/job:ps/task:0",), dtype=tf.float32, worker="/job:worker/task:0"):
    """Returns gradients on a worker, and variables that are spread over devices."""
    pairs = []
    for i, shape in enumerate(shapes):
        with v1.device(devices[i % len(devices)]):
            variable = v1.get_variable(f"v{i}", shape, dtype)
        with v1.device(worker):
            pairs.append((tf.ones(shape, dtype, name=f"g{i}"), variable))
    return pairs


def packages(pairs) -> list[list[str]]:
    """Returns the names of the gradients in each package."""
    travelled(pairs)
    found = tf.compat.v1.get_default_graph().get_operations()
    return [
        [each.op.name for each in op.inputs] for op in found if op.type == "Condacc>GradientsPack"
    ]


def test_gradients_to_each_process_are_packed_in_their_order(v1_graph):
    pairs = made([[2], [3], [], [4], [0]], devices=("/job:ps/task:0", "/job:ps/task:1"))
    assert packages(pairs) == [["g0", "g2", "g4"], ["g1", "g3"]]


def test_gradients_of_several_data_types_share_a_package(v1_graph):
    pairs = made([[2]])
    with v1.device("/job:worker/task:0"):
        half = tf.cast(pairs[0][0], tf.float16, name="half")
    pairs.append((half, pairs[0][1]))
    arrived = travelled(pairs)
    assert arrived[0].op is arrived[1].op
    assert [each.dtype for each in arrived] == [tf.float32, tf.float16]
    assert [each.shape for each in arrived] == [[2], [2]]
    assert {each.device for each in arrived} == {"/job:ps/task:0"}


def test_a_package_has_at_most_256_kib_of_gradients_of_at_most_64_kib(v1_graph):
    small, large = [16 * KIB], [16 * KIB + 1]
    assert packages(made([small, large, small, small, small, small, [1]])) == [
        ["g0", "g2", "g3", "g4"],
        ["g5", "g6"],
    ]


def test_gradients_that_gain_nothing_travel_as_they_are(v1_graph):
    pairs = made([[2], [3], [4]])
    with v1.device("/job:worker/task:0"):
        rows = tf.IndexedSlices(tf.ones([1]), tf.constant([0]))
        unknown = v1.placeholder(tf.float32, [None])
    variables = [variable for _, variable in pairs]
    alone = [pairs[0], (rows, variables[1]), (unknown, variables[2])]
    assert travelled(alone) == [pairs[0][0], rows, unknown]


@pytest.mark.parametrize(
    "device, worker",
    [
        ("", ""),
        ("/job:localhost/replica:0/task:0/device:CPU:0", "/job:localhost/task:0/device:CPU:1"),
        ("/device:GPU:0", "/device:CPU:0"),
    ],
)
def test_gradients_within_a_process_are_not_packed(v1_graph, device, worker):
    pairs = made([[2], [3]], devices=(device,), worker=worker)
    assert travelled(pairs) == [gradient for gradient, _ in pairs]


def test_gradients_on_gpus_are_packed_on_the_cpus_beside_them(v1_graph):
    pairs = made(
        [[2], [3]], devices=("/job:ps/task:0/device:GPU:0",), worker="/job:worker/task:1/GPU:1"
    )
    (message,) = {each.op.inputs[0] for each in travelled(pairs)}
    assert message.device == "/job:worker/task:1/device:CPU:0"
    assert message.consumers()[0].device == "/job:ps/task:0/device:CPU:0"


def test_one_message_takes_all_small_gradients_to_a_server(two_ps):
    """The weights are those of one process, whose losses are the means of the workers' losses."""
    shapes = {"a": [], "b": [3, 2], "c": [0], "d": [5], "e": [40 * KIB]}
    dtypes = [tf.float32, tf.float64]
    with tf.Graph().as_default():
        with v1.device(two_ps.device(0)):
            step = v1.train.get_or_create_global_step()
            variables = [
                v1.get_variable(name + dtype.name, shape, dtype, v1.ones_initializer())
                for name, shape in shapes.items()
                for dtype in dtypes
            ]
            number = v1.placeholder(tf.float32, [])
            losses = [
                tf.cast(tf.reduce_sum(variable), tf.float32) * number * 2.0**i
                for i, variable in enumerate(variables)
            ]
            optimizer = tf_condacc.SyncReplicasOptimizer(
                v1.train.GradientDescentOptimizer(1.0), 2, 1, name="packing"
            )
            train = optimizer.minimize(tf.add_n(losses), step)
        with v1.train.MonitoredTrainingSession(
            two_ps.targets[0],
            hooks=[optimizer.make_session_run_hook(True)],
            save_checkpoint_secs=None,
            save_summaries_steps=None,
        ) as session:
            metadata = v1.RunMetadata()
            options = v1.RunOptions(output_partition_graphs=True)
            for value in (1.0, 3.0):
                session.run(train, {number: value}, options, metadata)
            weights = session.run(variables)
    for i, weight in enumerate(weights):
        np.testing.assert_array_equal(weight, np.full(weight.shape, 1.0 - 2.0 * 2.0**i))
    received = [
        [node.attr["tensor_name"].s.decode() for node in partition.node if "Recv" in node.op]
        for partition in metadata.partition_graphs
    ]
    messages = sorted(sum("packed" in name for name in names) for names in received)
    assert messages == [0, 1, 1], received


def test_numbers_arrive_as_they_were():
    gradients = [
        tf.constant([np.nan, -0.0, np.inf, 1e-45], tf.float32),
        tf.constant(7, tf.int64),
        tf.zeros([0, 3], tf.float16),
        tf.constant([[1 - 2j]], tf.complex64),
        tf.constant([1.5, -3.0, 2.0**-130], tf.bfloat16),
    ]
    packed = ops.condacc_gradients_pack(gradients)
    assert packed.shape == [16 + 8 + 0 + 8 + 6]
    arrived = ops.condacc_gradients_unpack(
        packed, [each.dtype for each in gradients], [each.shape for each in gradients]
    )
    for one, other in zip(gradients, arrived, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        assert one.numpy().tobytes() == other.numpy().tobytes()


@pytest.mark.parametrize(
    "packed, shapes, message",
    [
        (np.zeros(7), [[2]], "Expected packed gradients of 8 bytes, got 7"),
        (np.zeros(9), [[2]], "Expected packed gradients of 8 bytes, got 9"),
        (np.zeros(8), [[None]], "Expected shapes to be fully defined, got [?]"),
        (np.zeros(8), [[2], [2]], "Expected as many shapes as dtypes, got 2 shapes and 1 dtypes"),
        (np.zeros(8), [[1 << 40, 1 << 40]], ""),
    ],
)
def test_other_packages_are_refused(packed, shapes, message):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)) as info:
        ops.condacc_gradients_unpack(packed.astype(np.uint8), [tf.float32], shapes)
    assert message in str(info.value)
