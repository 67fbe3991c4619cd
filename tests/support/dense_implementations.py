"""The two implementations of the dense accumulator that the behavior tests run on.

TensorFlow's own class is the reference implementation. Both offer the same public class. Their raw
ops are wrapped here under one set of names, so that a test can call them directly.
"""

from __future__ import annotations

import importlib
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")

# These are the default names of operations.
NAMELESS_OPS = {
    "accumulator": "ResourceConditionalAccumulator",
    "apply_grad": "ResourceAccumulatorApplyGradient",
    "take_grad": "ResourceAccumulatorTakeGradient",
    "set_global_step": "ResourceAccumulatorSetGlobalStep",
}


class TensorFlowDense:
    """TensorFlow's own ConditionalAccumulator."""

    name = "tensorflow"
    kind = "dense"
    ours = False
    default_name = "conditional_accumulator"
    has_resource = True  # The handle is a resource, and not a reference to a string.
    reductions = '"MEAN", "SUM"'
    op_type = "ResourceConditionalAccumulator"
    nameless = NAMELESS_OPS
    dtypes = (tf.float16, tf.float32, tf.float64)

    @property
    def dense(self) -> type:
        return v1.ConditionalAccumulator

    @property
    def public(self) -> type:
        return self.dense

    def static_shape(self, shape: Any) -> tf.TensorShape:
        return tf.TensorShape(shape)

    @property
    def base(self) -> type:
        return v1.ConditionalAccumulatorBase

    def raw_apply(self, handle: Any, local_step: Any, gradient: Any) -> Any:
        return tf.raw_ops.ResourceAccumulatorApplyGradient(
            handle=handle, local_step=local_step, gradient=gradient
        )

    def raw_take(self, handle: Any, num_required: Any, dtype: Any) -> Any:
        return tf.raw_ops.ResourceAccumulatorTakeGradient(
            handle=handle, num_required=num_required, dtype=dtype
        )

    def raw_num_accumulated(self, handle: Any) -> Any:
        return tf.raw_ops.ResourceAccumulatorNumAccumulated(handle=handle)

    def raw_set_global_step(self, handle: Any, new_global_step: Any) -> Any:
        return tf.raw_ops.ResourceAccumulatorSetGlobalStep(
            handle=handle, new_global_step=new_global_step
        )


class CondaccDense:
    """tf_condacc's ConditionalAccumulator."""

    name = "tf_condacc"
    kind = "dense"
    ours = True
    default_name = "conditional_accumulator"
    has_resource = True  # The handle is a resource, and not a reference to a string.
    reductions = '"MEAN", "SUM"'
    op_type = "Condacc>DenseAccumulator"
    nameless = NAMELESS_OPS
    dtypes = (
        tf.float16,
        tf.bfloat16,
        tf.float32,
        tf.float64,
        tf.complex64,
        tf.complex128,
        tf.int32,
        tf.int64,
    )

    def __init__(self) -> None:
        self.module = importlib.import_module("tf_condacc")
        self.ops = importlib.import_module("tf_condacc._ops.library").ops

    @property
    def dense(self) -> type:
        return self.module.ConditionalAccumulator

    @property
    def public(self) -> type:
        return self.dense

    @property
    def raw_make(self) -> Any:
        return self.ops.condacc_dense_accumulator

    def static_shape(self, shape: Any) -> tf.TensorShape:
        return tf.TensorShape(shape)

    @property
    def base(self) -> type:
        return self.module.ConditionalAccumulatorBase

    def raw_apply(self, handle: Any, local_step: Any, gradient: Any) -> Any:
        return self.ops.condacc_dense_apply(handle=handle, local_step=local_step, gradient=gradient)

    def raw_take(self, handle: Any, num_required: Any, dtype: Any) -> Any:
        return self.ops.condacc_dense_take(handle=handle, num_required=num_required, dtype=dtype)

    def raw_try_take(self, handle: Any, num_required: Any, dtype: Any) -> Any:
        return self.ops.condacc_dense_try_take(
            handle=handle, num_required=num_required, dtype=dtype
        )

    def raw_num_accumulated(self, handle: Any) -> Any:
        return self.ops.condacc_accumulator_num_accumulated(handle=handle)

    def raw_contribute(self, handle: Any, gradient: Any, contributor: Any, local_step: Any) -> Any:
        return self.ops.condacc_dense_apply_contribution(
            handle=handle, local_step=local_step, gradient=gradient, contributor=contributor
        )

    def raw_take_round(self, handle: Any, global_step: Any, num_required: Any, dtype: Any) -> Any:
        return self.ops.condacc_dense_take_round(
            handle=handle, global_step=global_step, num_required=num_required, dtype=dtype
        )

    def raw_reset(self, handle: Any, global_step: Any) -> Any:
        return self.ops.condacc_accumulator_reset(handle=handle, global_step=global_step)

    def raw_num_dropped(self, handle: Any) -> Any:
        return self.ops.condacc_accumulator_num_dropped(handle=handle)

    def raw_global_step(self, handle: Any) -> Any:
        return self.ops.condacc_accumulator_global_step(handle=handle)

    def raw_set_global_step(self, handle: Any, new_global_step: Any) -> Any:
        return self.ops.condacc_accumulator_set_global_step(
            handle=handle, new_global_step=new_global_step
        )
