"""The part of an accumulator that TensorFlow's SavedModels refer to."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.trackable import resource

from tf_condacc._ops.library import nodes


class ExportableHandle(resource.CapturableResource):
    """A handle that functions may capture, and the way to make another one for a SavedModel.

    Accumulators hold such an object instead of deriving from its class, whose constructor has other
    arguments.

    Args:
        handle: Handle of the accumulator: `[] resource`.
        make: Function that makes another accumulator and returns its handle. Its argument tells
            whether each execution of the operation makes an accumulator of its own.
    """

    def __init__(self, handle: tf.Tensor, make: Callable[[bool], tf.Tensor]) -> None:
        super().__init__()
        self._resource_handle = handle
        self._make = make

    def _create_resource(self) -> tf.Tensor:
        nodes.begin(tf.compat.v1.get_default_graph())
        # A function makes the accumulators of a SavedModel that is loaded as an object. They would
        # share their state if their operations had equal names and were not anonymous. A session
        # executes its operation in each run, so the accumulator has to belong to the operation.
        return self._make(tf.inside_function())
