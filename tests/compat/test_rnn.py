"""The linear maps of cells, which programs import by private names."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.compat.rnn import Linear, linear

FIRST, SECOND = np.array([[1.0, 2.0]], np.float32), np.array([[3.0]], np.float32)
KERNEL = np.arange(6, dtype=np.float32).reshape(3, 2)
PRODUCT = np.concatenate([FIRST, SECOND], 1) @ KERNEL


def _value(build):
    """Returns the value of a tensor in a new graph, and the names of the graph's variables."""
    with tf.Graph().as_default(), v1.variable_scope("cell"):
        tensor = build()
        names = [variable.op.name for variable in v1.global_variables()]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return session.run(tensor), names


def test_tensors_are_multiplied_by_one_kernel_and_a_bias_is_added():
    value, names = _value(
        lambda: linear(
            [FIRST, SECOND], 2, True, v1.constant_initializer(5.0), v1.constant_initializer(KERNEL)
        )
    )
    np.testing.assert_array_equal(value, PRODUCT + 5.0)
    assert names == ["cell/kernel", "cell/bias"]


def test_one_tensor_needs_no_list_and_the_bias_is_zero_or_left_out():
    for bias in (True, False):
        value, names = _value(
            lambda bias=bias: linear(
                FIRST, 2, bias, kernel_initializer=v1.constant_initializer(KERNEL[:2])
            )
        )
        np.testing.assert_array_equal(value, FIRST @ KERNEL[:2])
        assert names == ["cell/kernel", "cell/bias"][: 1 + bias]


def test_a_map_is_used_again_with_the_same_variables():
    def build():
        made = Linear([FIRST, SECOND], 2, True, kernel_initializer=v1.constant_initializer(KERNEL))
        with v1.variable_scope(v1.get_variable_scope(), reuse=True):
            return made([FIRST, SECOND]) + linear([FIRST, SECOND], 2, True)

    value, names = _value(build)
    np.testing.assert_array_equal(value, 2 * PRODUCT)
    assert len(names) == 2


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([], "`args` must be specified"),
        ([[1, 2, 3]], r"expecting 2D arguments, got x.*: \(1, 2, 3\)"),
        ([[1, 2], [1, None]], r"expects shape\[1\] to be provided, got x_1.*: \(1, None\)"),
    ],
)
def test_other_tensors_are_refused_and_no_variable_is_made(shapes, message):
    with tf.Graph().as_default():
        args = [v1.placeholder(tf.float32, shape, name="x") for shape in shapes]
        with pytest.raises(ValueError, match=message):
            linear(args, 2, True)
        assert v1.global_variables() == []
