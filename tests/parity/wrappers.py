"""Wrappers of optimizers, right ones and ones with a fault, and the training that runs them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc import parity

v1 = tf.compat.v1
_SUM = tf.distribute.ReduceOp.SUM


def replicated(value: float, **options: Any) -> tf.Variable:
    """Returns a variable that all replicas set to the same value."""
    first = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return tf.Variable(value, trainable=False, aggregation=first, **options)


class Wrapper(v1.train.Optimizer):
    """Hands the gradients, which the replicas add up, to plain gradient descent."""

    def __init__(self) -> None:
        super().__init__(False, "Wrapper")
        self.inner = v1.train.GradientDescentOptimizer(0.5)
        self.variables_of: dict[str, list[tf.Variable]] = {}

    def build(self, variables: Any) -> None:
        self.state(variables)
        self.built = True

    def state(self, variables: Any) -> list[tf.Variable]:
        """Returns the variables of the wrapper, one for each that is trained."""
        key = ", ".join(variable.name for variable in variables)
        if key not in self.variables_of:
            self.variables_of[key] = [self.new_state(variable) for variable in variables]
        return self.variables_of[key]

    def new_state(self, variable: Any) -> tf.Variable:
        return replicated(1.0, name="norm")

    def apply_gradients(self, pairs: Any, global_step: Any = None, name: Any = None) -> Any:
        pairs = list(pairs)
        state = self.state([variable for _, variable in pairs])
        gradients = self.changed([gradient for gradient, _ in pairs], state)
        changed = zip(gradients, [variable for _, variable in pairs], strict=True)
        return self.inner.apply_gradients(list(changed), global_step)

    def changed(self, gradients: list[Any], state: list[Any]) -> list[Any]:
        return gradients


def scaled(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor


def everywhere(gradient: Any) -> tf.Tensor:
    """Returns the sum of the gradients of all replicas, which is that of the batch."""
    context = tf.distribute.get_replica_context()
    return context.all_reduce(_SUM, tf.convert_to_tensor(gradient))


class RunningNorm(Wrapper):
    """Divides each gradient by the root of a running mean of its square.

    Args:
        fault: What is wrong, or "".
    """

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault

    def new_state(self, variable: Any) -> tf.Variable:
        if self.fault != "state":
            return super().new_state(variable)
        local = tf.VariableSynchronization.ON_READ
        return replicated(1.0, name="norm", synchronization=local)

    def changed(self, gradients: list[Any], state: list[Any]) -> list[Any]:
        return [self._one(*each) for each in zip(gradients, state, strict=True)]

    def _one(self, gradient: Any, norm: Any) -> Any:
        dense = tf.convert_to_tensor(gradient) if self.fault == "state" else everywhere(gradient)
        new = 0.5 * norm + 0.5 * tf.reduce_sum(dense**2)
        assigned = norm.assign(new)
        if self.fault == "dependency":
            new = 0.5 * norm + 0.5
        else:
            with tf.control_dependencies([assigned]):
                new = tf.identity(new)
        factor = tf.math.rsqrt(new + 1e-6)
        if self.fault == "sum":
            factor *= float(tf.distribute.get_replica_context().num_replicas_in_sync)
        return scaled(self.with_rows(gradient), factor)

    def with_rows(self, gradient: Any) -> Any:
        """Returns a gradient as it is, or with a fault of its rows."""
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        values, indices = gradient.values, gradient.indices
        if self.fault == "densified":
            return tf.convert_to_tensor(gradient)
        if self.fault == "repeated":
            values, indices = tf.repeat(values / 2, 2, axis=0), tf.repeat(indices, 2)
        if self.fault == "rows":  # The first of repeated rows wins.
            indices, where = tf.unique(indices)
            numbers = tf.range(tf.size(where))
            first = tf.math.unsorted_segment_min(numbers, where, tf.size(indices))
            values = tf.gather(values, first)
        return tf.IndexedSlices(values, indices, gradient.dense_shape)


class Clipping(Wrapper):
    """Clips the gradients of the batch to a common norm."""

    def changed(self, gradients: list[Any], state: list[Any]) -> list[Any]:
        norm = tf.linalg.global_norm([everywhere(gradient) for gradient in gradients])
        return [scaled(gradient, 0.1 / tf.maximum(norm, 0.1)) for gradient in gradients]


class MovingAverage(Wrapper):
    """Keeps a moving average of the weights."""

    def new_state(self, variable: Any) -> tf.Variable:
        return replicated(tf.zeros(variable.shape), name="average")

    def apply_gradients(self, pairs: Any, global_step: Any = None, name: Any = None) -> Any:
        pairs = list(pairs)
        averages = self.state([variable for _, variable in pairs])
        with tf.control_dependencies([super().apply_gradients(pairs, global_step)]):
            updates = [
                average.assign(0.9 * average + 0.1 * tf.convert_to_tensor(variable))
                for average, (_, variable) in zip(averages, pairs, strict=True)
            ]
        return tf.group(*updates)


RIGHT = {"running norm": RunningNorm, "clipping": Clipping, "moving average": MovingAverage}


def build() -> dict[str, tf.Variable]:
    return {
        "table": tf.Variable(tf.random.normal([10, 4]), name="table"),
        "kernel": tf.Variable(tf.random.normal([4, 3]), name="kernel"),
    }


def loss(model: Any, words: Any, classes: Any) -> tf.Tensor:
    scores = tf.reduce_mean(tf.gather(model["table"], words), axis=1) @ model["kernel"]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, scores))


def training(optimizer: Any, **options: Any) -> parity.Training:
    """Returns a training with sparse and dense gradients, whose functions have names."""
    rng = np.random.default_rng(1)
    batches = [(rng.integers(0, 10, [8, 3]), rng.integers(0, 3, [8])) for _ in range(3)]
    return parity.Training(build, loss, optimizer, batches, **options)


def faulty(fault: str) -> parity.Training:
    """Returns a training with a planted fault."""
    if fault == "loss":  # The loss does not divide by the number of replicas.
        return training(Wrapper, divided_by_replicas=True)
    return training(functools.partial(RunningNorm, fault))


def keras_wrapper(fault: str = "") -> Any:
    """Returns an optimizer of Keras that hands its gradients to another one, with a fault."""
    import keras

    class KerasWrapper(keras.optimizers.Optimizer):
        def __init__(self) -> None:
            super().__init__(learning_rate=1.0)
            self.inner = keras.optimizers.SGD(0.5)
            self.rows = RunningNorm(fault)

        def build(self, variables: Any) -> None:
            if not self.built:
                super().build(variables)
                self.inner.build(variables)

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            self.build(trainable_variables)
            self.inner.apply([self.rows.with_rows(each) for each in grads], trainable_variables)

    return KerasWrapper()
