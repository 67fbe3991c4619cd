"""Setups with one big batch and under strategies of ``tf.distribute``, and their logical CPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_condacc import GradientAccumulator
from tf_condacc._typing import Nested
from tf_condacc.parity import _batches, _rows
from tf_condacc.parity._optimizers import unequal_state
from tf_condacc.parity._setup import Run, Setup, on_cpu
from tf_condacc.parity._training import Training

_REMEDY = (
    "Call tf_condacc.parity.use_logical_cpus({number}) before TensorFlow runs its first operation "
    "in the process, for example at the top of conftest.py. With pytest, the plugin "
    "tf_condacc.parity.pytest_plugin does so."
)


def big_batch() -> Setup:
    """Returns the setup that takes each batch as a whole. It is the baseline of comparisons.

    Its optimizer gets one gradient of each batch. Rows that repeat in a sparse gradient are summed
    first, because optimizers of Keras compute other updates from repeated rows than from their sum,
    and others may do so by mistake.
    """
    return Setup("one big batch", _whole(lambda nested: nested), divides=False)


def unsummed_batch() -> Setup:
    """Returns the setup that is like `big_batch`, but leaves repeated rows to the optimizer."""
    begin = _whole(lambda nested: nested, sums_rows=False)
    return Setup("one big batch with repeated rows", begin, divides=False)


def reversed_batch() -> Setup:
    """Returns the setup that takes each batch as a whole, with its examples in reverse order.

    Its sums are rounded differently. If its weights are not those of `big_batch`, the training uses
    random numbers, depends on the order of the examples, or amplifies rounding errors. Then
    differences of other setups mean nothing.
    """
    return Setup("the batch in reverse", _whole(_batches.reverse), divides=False)


def _whole(order: Callable[[Nested], Nested], sums_rows: bool = True) -> Callable[[Training], Run]:
    @on_cpu
    def begin(training: Training) -> Run:
        model, optimizer = training.new_model(), training.optimizer()

        @tf.function
        def step(features: Nested, labels: Nested) -> None:
            pairs = training.gradients(model, features, labels)
            optimizer.apply_gradients(_rows.summed(pairs) if sums_rows else pairs)

        return Run(model.variables, lambda features, labels: step(order(features), order(labels)))

    return begin


def one_device() -> Setup:
    """Returns the setup under a ``tf.distribute.OneDeviceStrategy``."""
    setup = under(lambda: tf.distribute.OneDeviceStrategy("/CPU:0"), "OneDeviceStrategy")
    return dataclasses.replace(setup, divides=False)


def mirrored(num_replicas: int = 2, num_micro_batches: int = 1) -> Setup:
    """Returns the setup under a ``tf.distribute.MirroredStrategy`` on logical CPUs.

    Args:
        num_replicas: Number of replicas, each of which gets an equal part of the batch.
        num_micro_batches: Number of equal parts of a replica's part, as in `under`.

    Raises:
        RuntimeError: When the training begins: there are fewer logical CPUs. `use_logical_cpus`
            must be called before TensorFlow runs its first operation.
    """
    name = f"MirroredStrategy with {num_replicas} replicas"
    if num_micro_batches > 1:
        name += f" and {num_micro_batches} micro-batches"

    def new_strategy() -> tf.distribute.Strategy:
        # The default, collective reduction, requires the same number of devices in all strategies
        # of a process.
        return tf.distribute.MirroredStrategy(
            _require_logical_cpus(num_replicas, name),
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )

    return under(new_strategy, name, num_micro_batches)


def under(
    new_strategy: Callable[[], tf.distribute.Strategy], name: str, num_micro_batches: int = 1
) -> Setup:
    """Returns the setup under a strategy, each of whose replicas gets an equal part of the batch.

    The optimizer sums the gradients of the replicas. If the loss is a mean over examples, it is
    divided by the number of replicas, unless the training says that it has been
    (``Training(divided_by_replicas=True)``). An optimizer of Keras gets the sums of rows that
    repeat in the sparse gradients of all replicas, as in `big_batch`.

    Args:
        new_strategy: Function that returns the strategy, in whose scope the model is built.
        name: Name of the setup in reports.
        num_micro_batches: Number of equal parts of a replica's part. If there are several, a
            `GradientAccumulator` makes one update of their gradients.

    Raises:
        ValueError: When the training begins: the strategy is a ``ParameterServerStrategy``, under
            which the training would run on the coordinator alone.
        RuntimeError: In a step: not all replicas of the strategy took part in it.
    """

    def begin(training: Training) -> Run:
        strategy, apply = new_strategy(), None
        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            raise ValueError(
                f"{name}: the training would run on the coordinator of the ParameterServerStrategy "
                "alone, and not on its workers. Use parity.parameter_servers, or write a Setup "
                "that schedules steps on them with a ClusterCoordinator."
            )
        reduction = training.reduction.upper()
        with strategy.scope():
            model, optimizer = training.new_model(), training.optimizer()
            if num_micro_batches > 1:
                accumulator = GradientAccumulator(model.variables, num_micro_batches, reduction)
                apply = accumulator.apply_gradients
        number = strategy.num_replicas_in_sync
        divisor = number
        if training.reduction == "sum" or training.divided_by_replicas:
            divisor = 1

        def replica_step(features: Nested, labels: Nested) -> tf.Tensor:
            pairs = training.gradients(model, features, labels, divisor)
            if apply is None:
                optimizer.apply_gradients(_rows.for_optimizer(optimizer, pairs))
            else:
                given = {id(variable): gradient for gradient, variable in pairs}
                apply(optimizer, [given.get(id(variable)) for variable in model.variables])
            context = tf.distribute.get_replica_context()
            this = tf.one_hot(context.replica_id_in_sync_group, number)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, this)

        @tf.function
        def step(features: Nested, labels: Nested) -> tf.Tensor:
            counts = strategy.run(replica_step, (features, labels))
            return strategy.experimental_local_results(counts)[0]

        def split_step(features: Nested, labels: Nested) -> None:
            parts = _batches.split(features, labels, number * num_micro_batches, name)
            for micro_batch in range(num_micro_batches):
                counts = step(*_distributed(strategy, parts[micro_batch::num_micro_batches]))
                if (counts.numpy() != 1).any():
                    raise RuntimeError(
                        f"{name}: expected that each of {number} replicas takes part in a step "
                        f"once, got {counts.numpy().astype(int).tolist()} times. The strategy does "
                        "not train on the replicas that it claims to have."
                    )

        return Run(
            model.variables,
            split_step,
            num_replicas=number,
            num_micro_batches=num_micro_batches,
            remarks=lambda: unequal_state(optimizer),
        )

    return Setup(name, begin)


def _distributed(strategy: tf.distribute.Strategy, parts: list[Any]) -> Any:
    """Returns values that consist of one part for each replica."""

    def values_of(which: int) -> Any:
        flat = [tf.nest.flatten(part[which]) for part in parts]
        values = [
            None
            if leaves[0] is None
            else strategy.experimental_distribute_values_from_function(
                lambda context, leaves=leaves: tf.constant(leaves[context.replica_id_in_sync_group])
            )
            for leaves in zip(*flat, strict=True)
        ]
        return tf.nest.pack_sequence_as(parts[0][which], values)

    return values_of(0), values_of(1)


def use_logical_cpus(number: int) -> None:
    """Splits the CPU into logical devices, on which a strategy can have several replicas.

    It must be called before TensorFlow runs its first operation in the process. Later calls have no
    effect if there are enough logical CPUs already.

    Args:
        number: Number of logical CPUs, at least 1.

    Raises:
        ValueError: `number` is less than 1.
        RuntimeError: TensorFlow has run operations already, with fewer logical CPUs.
    """
    if number < 1:
        raise ValueError(f"number of logical CPUs: expected at least 1, got {number}")
    cpu = tf.config.list_physical_devices("CPU")[0]
    configured = tf.config.get_logical_device_configuration(cpu) or []
    if len(configured) >= number:
        return
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(number)]
    try:
        tf.config.set_logical_device_configuration(cpu, logical)
    except RuntimeError:
        _require_logical_cpus(number, "use_logical_cpus")


def _require_logical_cpus(number: int, user: str) -> list[str]:
    """Returns the names of logical CPUs.

    Raises:
        RuntimeError: There are fewer. The error names the user.
    """
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    if len(devices) < number:
        raise RuntimeError(
            f"{user}: expected at least {number} logical CPUs, got {len(devices)}, and TensorFlow "
            f"has started already. {_REMEDY.format(number=number)}"
        )
    return devices[:number]
