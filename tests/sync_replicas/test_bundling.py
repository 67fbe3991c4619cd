"""Tests of gradients that are sent in bundles."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.support.gpus import skip_on_gpu
from tests.support.sync_replicas_program import monitored
from tf_condacc._ops.native import ops
from tf_condacc._optimizers.sync_replicas.bundling import sent_in_bundles

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


def bundles(pairs) -> list[list[str]]:
    """Returns the names of the gradients in each bundle."""
    sent_in_bundles(pairs)
    return [
        [each.op.name for each in op.inputs]
        for op in v1.get_default_graph().get_operations()
        if op.type == "Condacc>GradientsPack"
    ]


def test_gradients_to_each_process_are_bundled_in_their_order(v1_graph):
    pairs = made([[2], [3], [], [4], [0]], devices=("/job:ps/task:0", "/job:ps/task:1"))
    assert bundles(pairs) == [["g0", "g2", "g4"], ["g1", "g3"]]


def test_gradients_of_several_data_types_share_a_bundle(v1_graph):
    pairs = made([[2]])
    with v1.device("/job:worker/task:0"):
        half = tf.cast(pairs[0][0], tf.float16, name="half")
    pairs.append((half, pairs[0][1]))
    arrived = sent_in_bundles(pairs)
    assert arrived[0].op is arrived[1].op
    assert [each.dtype for each in arrived] == [tf.float32, tf.float16]
    assert [each.shape for each in arrived] == [[2], [2]]
    assert {each.device for each in arrived} == {"/job:ps/replica:0/task:0/device:CPU:0"}


def test_a_bundle_has_at_most_256_kib_of_gradients_of_at_most_64_kib(v1_graph):
    small, large = [16 * KIB], [16 * KIB + 1]
    assert bundles(made([small, large, small, small, small, small, [1]])) == [
        ["g0", "g2", "g3", "g4"],
        ["g5", "g6"],
    ]


def test_other_gradients_are_sent_as_they_are(v1_graph):
    pairs = made([[2], [3], [4]])
    with v1.device("/job:worker/task:0"):
        rows = tf.IndexedSlices(tf.ones([1]), tf.constant([0]))
        unknown = v1.placeholder(tf.float32, [None])
    variables = [variable for _, variable in pairs]
    alone = [pairs[0], (rows, variables[1]), (unknown, variables[2])]
    assert sent_in_bundles(alone) == [pairs[0][0], rows, unknown]


@pytest.mark.parametrize(
    "device, worker, are_bundled",
    [
        ("", "", False),
        ("/job:ps/task:0", "", False),
        ("", "/job:worker/task:0", False),
        ("/job:localhost/replica:0/task:0/CPU:0", "/job:localhost/task:0/CPU:1", False),
        ("/job:worker/task:0", "/job:worker", False),
        ("/device:GPU:0", "/device:CPU:0", False),
        ("/job:worker/task:1", "/job:worker/task:0", True),
        ("/job:worker/replica:1/task:0", "/job:worker/task:0", True),
        ("/job:ps/task:0", "/job:worker", True),
    ],
)
def test_gradients_that_may_stay_in_their_process_are_not_bundled(
    v1_graph, device, worker, are_bundled
):
    pairs = made([[2], [3]], devices=(device,), worker=worker)
    assert bundles(pairs) == ([["g0", "g1"]] if are_bundled else [])


def test_devices_of_one_process_share_a_bundle_which_is_on_cpus(v1_graph):
    devices = ("/job:ps/task:0/device:GPU:0", "/job:ps/replica:0/task:0")
    pairs = made([[2], [3]], devices=devices, worker="/job:worker/task:1/GPU:1")
    (bundle,) = {each.op.inputs[0] for each in sent_in_bundles(pairs)}
    assert bundle.device == "/job:worker/replica:0/task:1/device:CPU:0"
    assert bundle.consumers()[0].device == "/job:ps/replica:0/task:0/device:CPU:0"


def test_one_message_takes_all_small_gradients_to_a_server(two_ps):
    """The update is that of the mean of two steps: 2 * 2**i for variable i."""
    skip_on_gpu("a worker's gradients are sent from its GPU to its CPU, too")
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
        with monitored(optimizer, two_ps.targets[0]) as session:
            received = []
            for value, fetch in ((1.0, train), (3.0, train.op)):
                metadata = v1.RunMetadata()
                options = v1.RunOptions(output_partition_graphs=True)
                session.run(fetch, {number: value}, options, metadata)
                received.append(names_of_received(metadata))
            weights = session.run(variables)
    for i, weight in enumerate(weights):
        np.testing.assert_array_equal(weight, np.full(weight.shape, 1.0 - 2.0 * 2.0**i))
    # The parameters have other names.
    sent = [name for name in received[0] if "gradients" in name or "bundle" in name]
    assert len(sent) == 2 + 2, received  # Two bundles, and two gradients of over 64 KiB.
    assert sum("bundle" in name for name in sent) == 2, received
    # The local step is sent to a worker only if the worker fetches the value of the operation.
    others = [name for name in received[0] if "packing/" in name and "bundle" not in name]
    of_gate = sorted(name.split("packing/")[1] for name in others)
    assert of_gate == ["ReadVariableOp", "claim", "pushed"], received
    kinds = [{name.partition("_packing")[2] for name in names} for names in received]
    assert kinds[0] - kinds[1] == {"/ReadVariableOp"}, received


def names_of_received(metadata: v1.RunMetadata) -> list[str]:
    """Returns the names of the tensors that the parts of a step have received."""
    return [
        node.attr["tensor_name"].s.decode()
        for partition in metadata.partition_graphs
        for node in partition.node
        if "Recv" in node.op
    ]


def test_gradients_are_measured_in_the_data_type_in_which_they_are_sent(v1_graph):
    with v1.device("/job:ps/task:0"):
        step = v1.train.get_or_create_global_step()
        variables = [v1.get_variable(f"v{i}", [32 * KIB]) for i in range(2)]
    with v1.device("/job:worker/task:0"):
        gradients = [tf.ones([32 * KIB]) for _ in variables]
        optimizer = tf_condacc.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 1)
        optimizer.configure(transport_dtype=tf.bfloat16)
        optimizer.apply_gradients(zip(gradients, variables, strict=True), step)
    (pack,) = [op for op in v1_graph.get_operations() if op.type == "Condacc>GradientsPack"]
    assert [each.dtype for each in pack.inputs] == [tf.bfloat16] * 2


def test_numbers_arrive_as_they_were():
    gradients = [
        tf.constant([np.nan, -0.0, np.inf, 1e-45], tf.float32),
        tf.constant(7, tf.int64),
        tf.zeros([0, 3], tf.float16),
        tf.constant([[1 - 2j]], tf.complex64),
        tf.constant([1.5, -3.0, 2.0**-130], tf.bfloat16),
    ]
    dtypes, shapes = [each.dtype for each in gradients], [each.shape for each in gradients]
    bundle = ops.condacc_gradients_pack(gradients, shapes=shapes, names=["v"] * 5)
    assert bundle.shape == [16 + 8 + 0 + 8 + 6]
    arrived = ops.condacc_gradients_unpack(bundle, dtypes, shapes)
    for one, other in zip(gradients, arrived, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        assert one.numpy().tobytes() == other.numpy().tobytes()


def test_a_gradient_of_another_shape_is_refused_by_name():
    """A static shape may be wrong, as after ``set_shape``."""
    gradients = [tf.ones([2]), tf.ones([4])]
    words = r"expected \[3\], got \[4\] \(gradient of 'w'\)"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        ops.condacc_gradients_pack(gradients, shapes=[[2], [3]], names=["v", "w"])


@pytest.mark.parametrize(
    "size, shapes, words",
    [
        (7, [[2]], "Expected a bundle of 8 bytes, got 7"),
        (9, [[2]], "Expected a bundle of 8 bytes, got 9"),
        (8, [[None]], r"Expected shapes to be fully defined, got \[\?\]"),
        (8, [[2], [2]], "Expected as many shapes as dtypes, got 2 shapes and 1 dtypes"),
        (0, [[1 << 40, 1 << 22]], r"Expected gradients of fewer than 2\*\*63 bytes"),
    ],
)
def test_bundles_and_shapes_that_do_not_match_are_refused(size, shapes, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        ops.condacc_gradients_unpack(np.zeros(size, np.uint8), [tf.float32], shapes)


def test_another_number_of_names_than_gradients_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="got 1 names and 2 gradients"):
        ops.condacc_gradients_pack([tf.ones([2])] * 2, shapes=[[2]] * 2, names=["v"])
