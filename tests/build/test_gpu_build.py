"""Tests of the GPU kernels that need no GPU: they are registered, and do no harm without one."""

import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

import tf_condacc
from tests.support.tower_support import initialized_session, rows, sums_one_by_one, to_dense
from tests.support.waiting import run_program
from tf_condacc._towers.reduction import sum_gradients

v1 = tf.compat.v1

HAS_CUDA = tf_condacc.build_info()["cuda"] is not None
HAS_GPU = bool(tf.config.list_physical_devices("GPU"))
ON_THE_DEVICE = {
    *("gradient", "gradients", "average", "indices", "values", "sum"),
    # These belong to the operation through which taken gradients pass in synchronous training.
    *("value", "output"),
}

needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="built without CUDA")
needs_no_gpu = pytest.mark.skipif(HAS_GPU, reason="this machine has a GPU")


# The kernels of these operations serve devices of every type: no gradient passes through them.
FOR_EVERY_DEVICE = {
    *("Condacc>HeldBytes", "Condacc>Import_tf_condacc_first"),
    *(
        f"Condacc>Accumulator{what}"
        for what in (
            *("GlobalStep", "NumAccumulated", "NumDropped", "Reset", "SetGlobalStep"),
            *("Save", "Restore"),  # The state is in host memory.
        )
    ),
}


def kernels_by_op(device_type: str) -> dict:
    registered = kernels.get_all_registered_kernels().kernel
    return {
        kernel.op: kernel
        for kernel in registered
        if kernel.op.startswith("Condacc>") and kernel.device_type == device_type
    }


def run_python(code: str, **environment: str) -> str:
    root = str(Path(tf_condacc.__file__).resolve().parents[1])
    prelude = f"import sys; sys.path.insert(0, {root!r})\n"
    result = run_program(
        [sys.executable, "-c", prelude + textwrap.dedent(code)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.strip()


@needs_cuda
def test_every_op_that_has_a_kernel_has_one_for_gpus():
    ops = set(kernels_by_op("CPU"))
    assert len(ops | FOR_EVERY_DEVICE) >= 32
    # The gate of synchronous training is on a CPU, gradients are sent in bundles from CPUs, and on
    # these alone does a multiplication take less time than the call of an eager operation.
    only_there = ("Condacc>SyncGate", "Condacc>Gradients", "Condacc>Multiply")
    on_cpus = {op for op in ops if op.startswith(only_there)}
    assert set(kernels_by_op("GPU")) == ops - on_cpus


def test_ops_without_gradients_have_one_kernel_for_devices_of_every_type():
    assert set(kernels_by_op("DEFAULT")) == FOR_EVERY_DEVICE
    assert not FOR_EVERY_DEVICE & (kernels_by_op("CPU").keys() | kernels_by_op("GPU").keys())


@pytest.mark.skipif(HAS_CUDA, reason="built with CUDA")
def test_a_build_without_cuda_has_no_gpu_kernels():
    assert kernels_by_op("GPU") == {}


@needs_cuda
def test_gradients_alone_are_in_device_memory():
    for op, kernel in (kernels_by_op("GPU") | kernels_by_op("DEFAULT")).items():
        op_def = op_def_registry.get(op)
        arguments = {arg.name for arg in [*op_def.input_arg, *op_def.output_arg]}
        on_device = ON_THE_DEVICE | ({"step"} if op.endswith("DecideRef") else set())
        assert set(kernel.host_memory_arg) == arguments - on_device, op


def test_all_symbols_are_found_when_they_are_bound_at_once():
    # Symbols are usually bound at their first use, so a missing one would go unnoticed until then.
    assert run_python("import tf_condacc; print('loaded')", LD_BIND_NOW="1") == "loaded"


@needs_no_gpu
def test_soft_placement_finds_the_cpu_eagerly():
    with tf.device("/GPU:0"):
        accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [2])
        accumulator.apply_grad(tf.constant([2.0, 4.0]), 0)
        taken = accumulator.take_grad(1).numpy()
    np.testing.assert_array_equal(taken, [2.0, 4.0])


@needs_no_gpu
@pytest.mark.parametrize("one_by_one", [False, True], ids=["at once", "one by one"])
def test_soft_placement_finds_the_cpu_in_a_session(one_by_one: bool):
    with tf.Graph().as_default(), sums_one_by_one(one_by_one):
        with tf.device("/GPU:0"):
            variable = v1.get_variable("v", initializer=[0.0, 0.0], use_resource=True)
            gradients = [tf.constant([1.0, 2.0]), tf.constant([10.0, 20.0])]
            dense = sum_gradients(gradients, variable)
            sparse = sum_gradients([rows([1], [20.0], [2]), rows([0, 1], [1, 2], [2])], variable)
            count = tf_condacc.ConditionalAccumulator(tf.float32, [2]).num_accumulated()
        with initialized_session(allow_soft_placement=True) as session:
            taken, taken_rows, number = session.run([dense, sparse, count])
    assert number == 0
    np.testing.assert_array_equal(taken, [11.0, 22.0])
    np.testing.assert_array_equal(to_dense(taken_rows, [2]), [1.0, 22.0])


@needs_no_gpu
def test_without_soft_placement_the_error_names_the_device_that_is_missing():
    with tf.Graph().as_default():
        with tf.device("/GPU:0"):
            accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [2])
        config = v1.ConfigProto(allow_soft_placement=False)
        with (
            v1.Session(config=config) as session,
            pytest.raises(tf.errors.InvalidArgumentError, match="GPU:0"),
        ):
            session.run(accumulator.num_accumulated())
