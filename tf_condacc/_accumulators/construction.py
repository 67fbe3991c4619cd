"""Construction of accumulators, and the operations of each kind of accumulator."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_condacc._ops.function_checks import out_of_reach
from tf_condacc._ops.missing_library import explained
from tf_condacc._typing import DTypeLike, ShapeLike

_LOG = logging.getLogger("tf_condacc")


@dataclass(frozen=True)
class AccumulatorOps:
    """The operations of one kind of accumulator, and their default names.

    Operations without a name are named after the op types of TensorFlow's own accumulators. The
    functions look their operation up when they are called, so that tests can replace it.

    Attributes:
        make: Makes an accumulator, and returns its handle.
        take: Takes the gradients when enough are accumulated.
        try_take: Takes the gradients if enough are accumulated already.
        take_round: Does so only at a given step of the accumulator.
        take_type: Registered type of the operation of `take`.
        num_take_outputs: Number of outputs of that operation.
        default_name: Default name of the operation that makes an accumulator.
        gradient_prefix: Prefix of the default names of operations that apply and take.
        state_prefix: Prefix of the default names of operations that read and set counts and steps.
    """

    make: Callable[..., tf.Tensor]
    take: Callable[..., Any]
    try_take: Callable[..., Any]
    take_round: Callable[..., Any]
    take_type: str
    num_take_outputs: int
    default_name: str
    gradient_prefix: str
    state_prefix: str


def make_accumulator(
    make_op: Callable[..., tf.Tensor],
    dtype: DTypeLike,
    shape: ShapeLike,
    anonymous: bool,
    shared_name: str | None,
    name: str,
    reduction_type: str,
) -> tf.Tensor:
    """Makes an accumulator and returns its handle.

    Args:
        make_op: Function of the operation that makes accumulators of the kind.
        dtype: Data type of the gradients.
        shape: Shape of the gradients; None if unknown.
        anonymous: Whether each execution of the operation makes an accumulator of its own. Ignored
            if `shared_name` is given.
        shared_name: Name under which the accumulator is shared; None or empty if it is not shared.
        name: Name of the operation.
        reduction_type: How gradients are reduced. None stands for "MEAN".

    Returns:
        The handle: `[] resource`.

    Raises:
        ValueError: `reduction_type` is a mean, and `dtype` is an integer type.
        tf.errors.NotFoundError: The process of the current device has not imported this package.
        tf.errors.InternalError: The current device belongs to a process that cannot be reached.
    """
    _check_mean_exists(dtype, reduction_type, name)
    if shared_name:
        _warn_of_replicas(shared_name)
    with explained(), _explaining_remote_devices(name):
        handle = make_op(
            dtype=dtype,
            shape=tf.TensorShape(None) if shape is None else shape,
            reduction_type=reduction_type,
            anonymous=anonymous and not shared_name,
            # An anonymous accumulator has this name in error messages only. In eager mode, these
            # would have the op type instead of the operation's name.
            shared_name=shared_name or (name if anonymous and tf.executing_eagerly() else None),
            name=name,
        )
    handle._condacc_name = name  # Error messages of functions that use the handle contain it.
    return handle


@contextlib.contextmanager
def _explaining_remote_devices(name: str) -> Iterator[None]:
    try:
        yield
    except tf.errors.InternalError as error:
        if "remote eager worker" not in error.message:
            raise
        raise tf.errors.InternalError(
            error.node_def,
            error.op,
            out_of_reach(f"Accumulator '{name}'") + f" The error was: {error.message}",
        ) from error


def _warn_of_replicas(shared_name: str) -> None:
    """Logs a warning if each replica of a strategy makes an accumulator of the same name."""
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync > 1 and not tf.distribute.in_cross_replica_context():
        _LOG.warning(
            "The accumulator with shared_name '%s' is made in a function that %s runs on replicas. "
            "Names are shared within a device only, so each device has an accumulator of its own. "
            "Make it outside of the function to share it.",
            shared_name,
            type(strategy).__name__,
        )


def _check_mean_exists(dtype: DTypeLike, reduction_type: str | bytes, name: str) -> None:
    if reduction_type in ("SUM", b"SUM"):
        return
    try:
        is_integer = tf.as_dtype(dtype).is_integer
    except TypeError:
        return  # The operation that makes the accumulator reports the error.
    if is_integer:
        raise ValueError(
            f"Integer gradients have no mean: accumulator '{name}' of dtype "
            f"{tf.as_dtype(dtype).name} expects reduction_type 'SUM', got {reduction_type!r}."
        )
