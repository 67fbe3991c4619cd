"""Tests of accumulators under the strategies of one process, with Keras, on two logical CPUs.

They share a process of their own, because logical CPUs are made before TensorFlow is used.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_condacc
from tests.distribute.training import (
    CPUS,
    IDS,
    TARGETS,
    Training,
    big_batch,
    largest_difference,
    make_model,
    mirrored,
    raised,
    use_cpus,
)
from tests.processes.isolated import isolated
from tests.support.versions import needs_keras3
from tests.support.wide import all_but_wide

v1 = tf.compat.v1
pytestmark = isolated()
STRATEGIES: dict[str, Callable[[], tf.distribute.Strategy]] = {
    "default": tf.distribute.get_strategy,
    "mirrored": mirrored,
    "one_device": lambda: tf.distribute.OneDeviceStrategy(CPUS[1]),
    "central_storage": lambda: tf.distribute.experimental.CentralStorageStrategy(CPUS, CPUS[0]),
}


@pytest.fixture(scope="module", autouse=True)
def two_cpus():
    use_cpus(2)


@pytest.mark.parametrize("name", all_but_wide(STRATEGIES, ["mirrored"]))
def test_micro_batches_equal_one_big_batch(name):
    training = Training(STRATEGIES[name](), "Adam", num_micro_batches=4)
    training.run(steps=3)
    assert training.num_updates == 3
    assert largest_difference(training.weights, big_batch("Adam", steps=3)) < 1e-6


def test_eager_micro_batches_on_replicas_equal_one_big_batch():
    training = Training(mirrored(), "SGD", num_micro_batches=2)
    training.run(steps=2, in_function=False)
    assert largest_difference(training.weights, big_batch("SGD", steps=2)) < 1e-6


def test_remainder_is_taken_at_the_end():
    strategy = mirrored()
    with strategy.scope():
        weights = tf.Variable([0.0])
        accumulator = tf_condacc.GradientAccumulator([weights], 4)
    accumulate = tf.function(lambda: strategy.run(lambda: accumulator.accumulate([tf.ones([1])])))
    for _ in range(3):
        accumulate()
    (mean,) = strategy.run(lambda: accumulator.take(num_required=1))
    assert [float(x[0]) for x in strategy.experimental_local_results(mean)] == [1.0, 1.0]


def test_gradient_accumulator_that_is_made_before_the_scope_is_used_on_replicas():
    accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 1)
    accumulate = lambda: accumulator.accumulate([tf.ones([1])])  # noqa: E731
    assert all(STRATEGIES["mirrored"]().run(accumulate).values)
    assert "but is now used under the default strategy" in raised(accumulate)


def test_replicas_share_an_accumulator_that_is_made_outside():
    """The take is in cross-replica context, where it sees the gradients of all replicas."""
    strategy = mirrored()
    dense = tf_condacc.ConditionalAccumulator(tf.float32, [2])
    sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [4, 2])

    def apply() -> None:
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        value = tf.fill([2], tf.cast(number, tf.float32) + 1)
        dense.apply_grad(value, local_step=dense.global_step())
        sparse.apply_grad([number], value[tf.newaxis], local_step=sparse.global_step())

    @tf.function
    def step() -> Any:
        strategy.run(apply)
        return dense.take_grad(2), sparse.take_indexed_slices_grad(2)

    for _ in range(2):
        mean, rows = step()
        assert mean.numpy().tolist() == [1.5, 1.5]
        assert rows.indices.numpy().tolist() == [0, 1]
        assert rows.values.numpy()[:, 0].tolist() == [1.0, 2.0]


def test_merge_call_and_updates_take_what_replicas_applied():
    strategy = mirrored()
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [])
    with strategy.scope():
        variable = tf.Variable(1.0)

    def merge(strategy: tf.distribute.Strategy, value: Any) -> None:
        for one in strategy.experimental_local_results(value):
            accumulator.apply_grad(one, local_step=accumulator.global_step())
        mean = accumulator.take_grad(2)
        strategy.extended.update(variable, lambda v, mean: v.assign_add(mean), args=(mean,))

    def replica() -> None:
        context = tf.distribute.get_replica_context()
        value = tf.cast(context.replica_id_in_sync_group, tf.float32) * 4.0
        context.merge_call(merge, args=(value,))

    strategy.run(replica)
    tf.function(lambda: strategy.run(replica))()
    copies = [copy.numpy() for copy in strategy.experimental_local_results(variable)]
    np.testing.assert_array_equal(copies, [5.0, 5.0])


def test_gradient_accumulator_outside_of_its_strategy_and_its_replicas_is_refused():
    strategy, another = mirrored(), mirrored()
    accumulate = lambda: accumulator.accumulate([tf.ones([1])])  # noqa: E731
    with strategy.scope():
        weights = tf.Variable([0.0])
        accumulator = tf_condacc.GradientAccumulator([weights], 2)
        assert "passed to strategy.run" in raised(accumulate)
    make = lambda: tf_condacc.GradientAccumulator([weights], 2)  # noqa: E731
    assert "in strategy.scope()" in raised(lambda: strategy.run(make))
    message = "under MirroredStrategy, but is now used under "
    for call in (accumulate, lambda: accumulator.take(1)):
        assert message + "the default strategy" in raised(call)
    assert message + "another MirroredStrategy" in raised(lambda: another.run(accumulate))
    strategy.run(accumulate)
    counts = strategy.experimental_local_results(strategy.run(accumulator.num_accumulated))
    assert [int(count) for count in counts] == [1, 1]


@pytest.mark.parametrize("where", ["tf.cond", "tf.while_loop", "tf.function"])
def test_update_that_replicas_cannot_make_together_is_refused(where):
    strategy = mirrored()
    with strategy.scope():
        accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 2, name="mine")
    optimizer = v1.train.GradientDescentOptimizer(0.1)

    def apply() -> Any:
        return accumulator.apply_gradients(optimizer, [tf.ones([1])])

    replica = {
        "tf.cond": lambda: tf.cond(tf.constant(True), apply, lambda: False),
        "tf.while_loop": lambda: tf.while_loop(lambda _: True, lambda _: apply(), [False]),
        "tf.function": lambda: tf.function(apply)(),
    }[where]
    message = raised(tf.function(lambda: strategy.run(replica)))
    assert "GradientAccumulator 'mine': apply_gradients() is called inside a " + where in message
    assert "Call it directly in the function that is passed to strategy.run" in message


@pytest.mark.parametrize("method", ["accumulate", "take"])
def test_communication_that_replicas_cannot_begin_is_refused(method):
    """Replicas communicate in these methods to skip a micro-batch, and to add up weights."""
    # Collective operations of several strategies in one process would be mistaken for each other.
    reduction = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(CPUS, cross_device_ops=reduction)
    with strategy.scope():
        accumulator = tf_condacc.GradientAccumulator(
            [tf.Variable([0.0])], 1, name="mine", skip_non_finite=True
        )
    accumulate = lambda: accumulator.accumulate([tf.ones([1])], 2.0)  # noqa: E731
    tf.function(lambda: strategy.run(accumulate))()
    call = accumulate if method == "accumulate" else lambda: accumulator.take()[0][0] > 0

    def replica() -> Any:
        return tf.cond(tf.constant(True), call, lambda: False)

    message = raised(tf.function(lambda: strategy.run(replica)))
    expected = f"GradientAccumulator 'mine': {method}() is called inside a tf.cond"
    assert expected in message and "Call it directly in the function" in message


@needs_keras3
def test_keras_cannot_accumulate_on_replicas_where_gradient_accumulator_can():
    import keras

    # Collective operations of several strategies in one process would be mistaken for each other.
    reduction = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(CPUS, cross_device_ops=reduction)
    with strategy.scope():
        weights = tf.Variable([0.0])
        of_keras = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)
        optimizer = keras.optimizers.SGD(1.0)
        accumulator = tf_condacc.GradientAccumulator([weights], 2)
    gradients = [tf.constant([0.5])]

    @tf.function
    def step_of_keras() -> None:
        strategy.run(lambda: of_keras.apply(gradients, [weights]))

    @tf.function
    def step() -> None:
        strategy.run(lambda: accumulator.apply_gradients(optimizer, gradients))

    assert "merge_call" in raised(step_of_keras)
    for _ in range(2):
        step()
    assert weights.values[1].numpy() == [-1.0]


class Counting(v1.train.Optimizer):
    """Counts its updates in a variable, which it makes in `build` or in the first update."""

    def __init__(self, builds: bool) -> None:
        super().__init__(False, "Counting")
        self.inner, self.count = v1.train.MomentumOptimizer(0.5, 0.9), None
        if builds:
            self.build = self.make

    def make(self, variables: Any) -> None:
        first = tf.VariableAggregation.ONLY_FIRST_REPLICA
        self.count = tf.Variable(0.0, trainable=False, name="count", aggregation=first)
        self.built = True

    def apply_gradients(self, pairs: Any, global_step: Any = None, name: Any = None) -> Any:
        if self.count is None:
            self.make(None)
        with tf.control_dependencies([self.count.assign_add(1.0)]):
            return self.inner.apply_gradients(list(pairs), global_step)


@pytest.mark.parametrize("builds", [True, False])
def test_an_optimizer_makes_its_variables_before_an_update_on_replicas(builds):
    strategy = tf.distribute.MirroredStrategy(
        CPUS, cross_device_ops=tf.distribute.ReductionToOneDevice()
    )
    with strategy.scope():
        weights, optimizer = tf.Variable([1.0, 2.0]), Counting(builds)
        accumulator = tf_condacc.GradientAccumulator([weights], 2)
    gradient = tf.constant([1.0, 1.0])

    @tf.function
    def step() -> None:
        strategy.run(lambda: accumulator.apply_gradients(optimizer, [gradient]))

    if not builds:
        message = r"Counting.apply_gradients makes a variable, count, .* method build\(variables\)"
        with pytest.raises(ValueError, match=message):
            step()
        return
    for _ in range(4):
        step()
    assert optimizer.count.numpy() == 2
    np.testing.assert_allclose(weights.numpy(), [-1.9, -0.9], rtol=1e-6)


@pytest.mark.parametrize("mode", ["function", "eager"])
def test_optimizer_of_stale_gradients_is_refused_on_replicas(mode):
    strategy = mirrored()
    with strategy.scope():
        variable, step = tf.Variable(1.0), tf.Variable(0, trainable=False, dtype=tf.int64)
    wrapped = v1.train.GradientDescentOptimizer(0.1)
    optimizer = tf_condacc.DropStaleGradientOptimizer(wrapped, staleness=0, name="Wrapper")

    def replica() -> None:
        optimizer.minimize(lambda: variable**2, global_step=step, var_list=[variable])

    run = functools.partial(strategy.run, replica)
    message = raised(tf.function(run) if mode == "function" else run)
    assert "DropStaleGradientOptimizer 'Wrapper' does not work under MirroredStrategy" in message


def test_shared_name_of_an_accumulator_made_on_replicas_is_warned_about():
    warnings: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("tf_condacc").addHandler(handler)
    mirrored().run(lambda: tf_condacc.ConditionalAccumulator(tf.float32, shared_name="apart"))
    assert len(warnings) == 2 and "'apart'" in warnings[0], warnings
    warnings.clear()
    mirrored().run(lambda: tf_condacc.ConditionalAccumulator(tf.float32))
    with mirrored().scope():
        tf_condacc.ConditionalAccumulator(tf.float32, shared_name="together")
    assert warnings == []


def test_gradient_accumulator_in_a_compiled_function_is_refused():
    accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 2)
    accumulate = tf.function(lambda: accumulator.accumulate([tf.ones([1])]), jit_compile=True)
    message = raised(accumulate)
    assert "Leave out jit_compile=True of tf.function or of compile()" in message
    assert "supports_jit = False" in message


@pytest.mark.parametrize("method", ["apply_grad", "take_grad", "constructor"])
def test_accumulator_in_a_compiled_function_is_refused(method):
    accumulator = tf_condacc.SparseConditionalAccumulator(tf.float32, [2], name="mine")

    def use() -> Any:
        if method == "constructor":
            tf_condacc.ConditionalAccumulator(tf.float32, name="mine")
        elif method == "apply_grad":
            accumulator.apply_grad([0], [1.0])
        else:
            accumulator.take_grad(1)

    compiled = tf.function(use, jit_compile=True)
    expected = "Accumulator 'mine' is used in a function that XLA compiles"
    for call in (compiled, tf.function(compiled), tf.function(tf.function(use), jit_compile=True)):
        assert expected in raised(call)


def test_accumulators_apply_what_a_compiled_function_computes():
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [2])
    gradient = tf.function(lambda x: 2.0 * x, jit_compile=True)

    @tf.function
    def step(x: Any) -> Any:
        accumulator.apply_grad(gradient(x), local_step=accumulator.global_step())
        return accumulator.take_grad(1)

    assert step(tf.constant([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]


def test_fit_with_accumulators_that_keras_compiles_is_refused():
    import keras

    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [], name="mine")

    class Compiled(keras.Model):
        def __init__(self, layers: Any) -> None:
            super().__init__()
            self.layers_of_model = layers

        def call(self, x: Any) -> Any:
            return self.layers_of_model(x)

        def train_step(self, data: Any) -> Any:
            accumulator.apply_grad(1.0)
            return super().train_step(data)

    model = Compiled(make_model())
    model.compile(loss="mse", jit_compile=True)
    message = raised(lambda: model.fit(IDS, TARGETS, verbose=0))
    assert "Accumulator 'mine' is used in a function that XLA compiles" in message


def test_synchronous_optimizer_under_a_strategy_is_refused():
    strategy = mirrored()
    with strategy.scope():
        weights = tf.Variable([0.0])
        step = tf.Variable(0, dtype=tf.int64)
        inner = v1.train.GradientDescentOptimizer(0.5)
        optimizer = tf_condacc.SyncReplicasOptimizer(inner, 2)

    def update() -> None:
        optimizer.apply_gradients([(tf.ones([1]), weights)], step)

    message = "Optimizer 'sync_replicas' works in graphs with sessions only"
    assert message in raised(lambda: strategy.run(update))
    assert message in raised(tf.function(lambda: strategy.run(update)))
    assert message in raised(tf.function(update))


@needs_keras3  # Optimizers of Keras 2 refuse it themselves.
@pytest.mark.parametrize("of_keras", [False, True])
def test_update_of_a_variable_from_outside_of_the_scope_is_refused(of_keras):
    import keras

    strategy = tf.distribute.MirroredStrategy(CPUS, tf.distribute.ReductionToOneDevice())
    outside = (keras.Variable if of_keras else tf.Variable)([0.0], name="w")
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.5)
        accumulator = tf_condacc.GradientAccumulator([outside], 1)
    update = lambda: accumulator.apply_gradients(optimizer, [tf.ones([1])])  # noqa: E731
    for call in (lambda: strategy.run(update), tf.function(lambda: strategy.run(update))):
        message = raised(call)
        assert "variable 'w" in message and "Make it in strategy.scope()" in message, message
