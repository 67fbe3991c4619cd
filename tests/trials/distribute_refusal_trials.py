"""Trials of what is refused under strategies and in functions that XLA compiles."""

from __future__ import annotations

import functools
import logging
from typing import Any

import tensorflow as tf

import tf_condacc
from tests.support.distribute_support import (
    CPUS,
    IDS,
    TARGETS,
    make_model,
    mirrored,
    raised,
    use_two_cpus,
)
from tests.support.trial_runs import Trials

TRIALS = Trials()


@TRIALS.add
def gradient_accumulator_outside_of_the_replicas_is_refused(ours: Any) -> None:
    strategy = mirrored()
    with strategy.scope():
        accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 2)
        assert "passed to strategy.run" in raised(lambda: accumulator.accumulate([tf.ones([1])]))


@TRIALS.add
def gradient_accumulator_outside_of_its_strategy_is_refused(ours: Any) -> None:
    strategy, another = mirrored(), mirrored()
    with strategy.scope():
        accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 2)
    accumulate = lambda: accumulator.accumulate([tf.ones([1])])  # noqa: E731
    message = "under MirroredStrategy, but is now used under "
    for call in (accumulate, accumulator.num_accumulated, lambda: accumulator.take(1)):
        assert message + "the default strategy" in raised(call)
    assert message + "another MirroredStrategy" in raised(lambda: another.run(accumulate))
    strategy.run(accumulate)
    counts = strategy.experimental_local_results(strategy.run(accumulator.num_accumulated))
    assert [int(count) for count in counts] == [1, 1]


@TRIALS.add
def gradient_accumulator_made_on_a_replica_is_refused(ours: Any) -> None:
    strategy = mirrored()
    with strategy.scope():
        weights = tf.Variable([0.0])
    make = lambda: tf_condacc.GradientAccumulator([weights], 2)  # noqa: E731
    assert "in strategy.scope()" in raised(lambda: strategy.run(make))


@TRIALS.add_each(where=["tf.cond", "tf.while_loop", "tf.function"])
def update_that_replicas_cannot_make_together_is_refused(ours: Any, where: str) -> None:
    strategy = mirrored()
    with strategy.scope():
        accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 2, name="mine")
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)

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


@TRIALS.add
def keras_cannot_accumulate_on_replicas_where_gradient_accumulator_can(ours: Any) -> None:
    import keras

    use_two_cpus()
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


@TRIALS.add_each(mode=["function", "eager"])
def optimizer_of_stale_gradients_is_refused_on_replicas(ours: Any, mode: str) -> None:
    strategy = mirrored()
    with strategy.scope():
        variable, step = tf.Variable(1.0), tf.Variable(0, trainable=False, dtype=tf.int64)
    wrapped = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    optimizer = tf_condacc.DropStaleGradientOptimizer(wrapped, staleness=0, name="Wrapper")

    def replica() -> None:
        optimizer.minimize(lambda: variable**2, global_step=step, var_list=[variable])

    run = functools.partial(strategy.run, replica)
    message = raised(tf.function(run) if mode == "function" else run)
    assert "DropStaleGradientOptimizer 'Wrapper' does not work under MirroredStrategy" in message


@TRIALS.add
def shared_name_of_an_accumulator_made_on_replicas_is_warned_about(ours: Any) -> None:
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


@TRIALS.add
def gradient_accumulator_in_a_compiled_function_is_refused(ours: Any) -> None:
    accumulator = tf_condacc.GradientAccumulator([tf.Variable([0.0])], 2)
    accumulate = tf.function(lambda: accumulator.accumulate([tf.ones([1])]), jit_compile=True)
    assert "supports_jit = False" in raised(accumulate)


@TRIALS.add_each(method=["apply_grad", "take_grad", "constructor"])
def accumulator_in_a_compiled_function_is_refused(ours: Any, method: str) -> None:
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


@TRIALS.add
def accumulators_apply_what_a_compiled_function_computes(ours: Any) -> None:
    accumulator = tf_condacc.ConditionalAccumulator(tf.float32, [2])
    gradient = tf.function(lambda x: 2.0 * x, jit_compile=True)

    @tf.function
    def step(x: Any) -> Any:
        accumulator.apply_grad(gradient(x), local_step=accumulator.global_step())
        return accumulator.take_grad(1)

    assert step(tf.constant([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]


@TRIALS.add
def fit_with_accumulators_that_keras_compiles_is_refused(ours: Any) -> None:
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


@TRIALS.add
def synchronous_optimizer_under_a_strategy_is_refused(ours: Any) -> None:
    strategy = mirrored()
    with strategy.scope():
        weights = tf.Variable([0.0])
        step = tf.Variable(0, dtype=tf.int64)
        inner = tf.compat.v1.train.GradientDescentOptimizer(0.5)
        optimizer = tf_condacc.SyncReplicasOptimizer(inner, 2)

    def update() -> None:
        optimizer.apply_gradients([(tf.ones([1]), weights)], step)

    message = "Optimizer 'sync_replicas' works in graphs with sessions only"
    assert message in raised(lambda: strategy.run(update))
    assert message in raised(tf.function(lambda: strategy.run(update)))
    assert message in raised(tf.function(update))


@TRIALS.add_each(of_keras=[False, True])
def update_of_a_variable_from_outside_of_the_scope_is_refused(ours: Any, of_keras: bool) -> None:
    import keras

    use_two_cpus()
    strategy = tf.distribute.MirroredStrategy(CPUS, tf.distribute.ReductionToOneDevice())
    outside = (keras.Variable if of_keras else tf.Variable)([0.0], name="w")
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.5)
        accumulator = tf_condacc.GradientAccumulator([outside], 1)
    update = lambda: accumulator.apply_gradients(optimizer, [tf.ones([1])])  # noqa: E731
    for call in (lambda: strategy.run(update), tf.function(lambda: strategy.run(update))):
        message = raised(call)
        assert "variable 'w" in message and "Make it in strategy.scope()" in message, message
