"""The two implementations of the accumulators that the behaviour tests run on.

TensorFlow's own classes are the reference implementation. Both offer the same public classes.

A sparse implementation has two forms. `sparse` is the public class. `dense` is the same class
behind the interface of a dense accumulator, where a gradient consists of all its rows. Through it,
the tests of the dense accumulator also run on the sparse one, as far as they do not depend on the
kind.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, ClassVar

import tensorflow as tf

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")

# The default names of operations.
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
        self.ops = importlib.import_module("tf_condacc._ops.native").ops

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


def all_rows(gradient: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the numbers and the values of all rows of a tensor; a scalar is one row."""
    if gradient.shape.rank == 0:
        gradient = tf.reshape(gradient, [1])
    return tf.range(tf.shape(gradient, out_type=tf.int64)[0]), gradient


class AllRows:
    """A sparse accumulator that is used like a dense one."""

    sparse: ClassVar[type]

    def __init__(self, dtype: Any, shape: Any = None, *args: Any, **kwargs: Any):
        self._accumulator = self.sparse(dtype, shape, *args, **kwargs)
        self._shape = tf.TensorShape(shape)

    def __getattr__(self, name: str) -> Any:
        if name == "_accumulator":
            raise AttributeError(name)
        return getattr(self._accumulator, name)

    def _gradient(self, grad: Any) -> tuple[tf.Tensor, tf.Tensor]:
        grad = tf.convert_to_tensor(grad, dtype=self.dtype)
        grad.shape.assert_is_compatible_with(self._shape)
        return all_rows(tf.reshape(grad, [1]) if self._shape.rank == 0 else grad)

    def _value(self, taken: Any) -> tf.Tensor:
        if self._shape.rank == 0:
            return tf.reshape(taken.values[:1], [])
        return taken.values

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Any:
        indices, values = self._gradient(grad)
        return self._accumulator.apply_grad(indices, values, None, local_step, name)

    def take_grad(self, num_required: Any, name: str | None = None) -> tf.Tensor:
        return self._value(self._accumulator.take_grad(num_required, name))

    def try_apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> tf.Tensor:
        indices, values = self._gradient(grad)
        return self._accumulator.try_apply_grad(indices, values, None, local_step, name)

    def apply_contribution(
        self, grad: Any, contributor: Any, local_step: Any = 0, name: str | None = None
    ) -> tf.Tensor:
        indices, values = self._gradient(grad)
        return self._accumulator.apply_contribution(
            indices, values, contributor, None, local_step, name
        )

    def try_take_grad(
        self, num_required: Any, name: str | None = None, global_step: Any = None
    ) -> tuple:
        taken, value = self._accumulator.try_take_grad(num_required, name, global_step)
        if self._shape.rank == 0:  # The tensor may have no row that could become a scalar.
            return taken, tf.reduce_sum(value.values)
        return taken, value.values


class AnySparse:
    """The parts that both implementations have in common."""

    kind = "sparse"
    default_name = "sparse_conditional_accumulator"
    reductions = '"MEAN", "SUM"'
    nameless: ClassVar[dict[str, str]] = {
        "accumulator": "SparseConditionalAccumulator",
        "apply_grad": "SparseAccumulatorApplyGradient",
        "take_grad": "SparseAccumulatorTakeGradient",
        "set_global_step": "AccumulatorSetGlobalStep",
    }

    @property
    def public(self) -> type:
        return self.sparse

    @functools.cached_property
    def dense(self) -> type:
        return type("AllRows", (AllRows,), {"sparse": self.sparse})

    def static_shape(self, shape: Any) -> tf.TensorShape:
        """Returns the static shape of values taken from `dense(dtype, shape)`."""
        shape = tf.TensorShape(shape)
        return tf.TensorShape(None) if shape.rank else shape


class TensorFlowSparse(AnySparse, TensorFlowDense):
    """TensorFlow's own SparseConditionalAccumulator."""

    name = "tensorflow-sparse"
    has_resource = False
    op_type = "SparseConditionalAccumulator"

    @property
    def sparse(self) -> type:
        return v1.SparseConditionalAccumulator


class CondaccSparse(AnySparse, CondaccDense):
    """tf_condacc's SparseConditionalAccumulator."""

    name = "tf_condacc-sparse"
    op_type = "Condacc>SparseAccumulator"
    reductions = '"MEAN", "SUM", "GLOBAL_MEAN"'

    @property
    def sparse(self) -> type:
        return self.module.SparseConditionalAccumulator

    @property
    def raw_make(self) -> Any:
        return self.ops.condacc_sparse_accumulator


IMPLEMENTATIONS = {
    cls.name: cls for cls in (TensorFlowDense, CondaccDense, TensorFlowSparse, CondaccSparse)
}


def load_implementation(name: str) -> Any:
    """Returns the implementation called `name`, and imports its modules."""
    return IMPLEMENTATIONS[name]()
