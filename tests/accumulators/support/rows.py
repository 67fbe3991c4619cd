"""Drivers of sparse accumulators, and the rows that pass through them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tests.support.accumulator_support import EagerDriver, GraphDriver

v1 = tf.compat.v1


class Rows(NamedTuple):
    """A sparse gradient; if `shape` is None, the shape of the whole tensor is not given."""

    indices: Any
    values: Any
    shape: Any = None


def assert_rows(got: Any, indices: Any, values: Any, shape: Any = None) -> None:
    """Checks the rows that a take returned, for exact equality."""
    np.testing.assert_array_equal(got.indices, indices)
    np.testing.assert_array_equal(got.values, values)
    assert got.indices.dtype == np.int64 and got.shape.dtype == np.int64
    if shape is not None:
        np.testing.assert_array_equal(got.shape, shape)


class RowsGraphDriver(GraphDriver):
    """A driver of a v1 session, fed with the parts of a gradient through placeholders."""

    form = "sparse"
    indices_dtype = tf.int64

    def _build_applies(self, acc: Any) -> None:
        self.indices = v1.placeholder(self.indices_dtype, None)
        self.dense_shape = v1.placeholder(tf.int64, None)
        self._applies: dict[tuple[str, bool], Any] = {}
        for method in ["apply_grad"] + ["try_apply_grad"] * self.impl.ours:
            for has_shape in (False, True):
                self._applies[method, has_shape] = getattr(acc, method)(
                    self.indices,
                    self.gradient,
                    self.dense_shape if has_shape else None,
                    self.number,
                )

    def _run_apply(self, method: str, rows: Rows, step: Any) -> Any:
        feed = self._gradient_feed(rows.values, step) | {self.indices: rows.indices}
        if rows.shape is not None:
            feed[self.dense_shape] = rows.shape
        return self.run(self._applies[method, rows.shape is not None], feed)

    def apply(self, value: Rows, step: Any = 0) -> None:
        self._run_apply("apply_grad", value, step)

    def try_apply(self, value: Rows, step: Any = 0) -> bool:
        return bool(self._run_apply("try_apply_grad", value, step))


class RowsEagerDriver(EagerDriver):
    """The same interface on an eager sparse accumulator."""

    form = "sparse"
    indices_dtype = tf.int64

    def _parts(self, rows: Rows) -> tuple:
        indices = tf.constant(np.asarray(rows.indices, self.indices_dtype.as_numpy_dtype))
        return indices, self._tensor(rows.values), rows.shape

    def apply(self, value: Rows, step: Any = 0) -> None:
        self.accumulator.apply_grad(*self._parts(value), step)

    def try_apply(self, value: Rows, step: Any = 0) -> bool:
        return bool(self.accumulator.try_apply_grad(*self._parts(value), step))

    def take(self, num_required: Any = 1) -> Any:
        taken = self.accumulator.take_grad(num_required)
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), taken)

    def try_take(self, num_required: Any = 1) -> tuple[bool, Any]:
        taken, value = self.accumulator.try_take_grad(num_required)
        return bool(taken), tf.nest.map_structure(lambda tensor: tensor.numpy(), value)


ROWS_DRIVERS = {"graph": RowsGraphDriver, "eager": RowsEagerDriver}
