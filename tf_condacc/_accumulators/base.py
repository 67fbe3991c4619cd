"""The base class of conditional accumulators.

Mirrors ``tf.compat.v1.ConditionalAccumulatorBase``.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._accumulators import eager
from tf_condacc._accumulators.contributions import contributor_id
from tf_condacc._accumulators.weights import multiplied, weight_input
from tf_condacc._ops.host import arguments_on_host, host_int32, host_int64
from tf_condacc._ops.missing_library import explained
from tf_condacc._ops.native import lowest_num_accumulated, nodes, ops
from tf_condacc._ops.nodes import out_of_reach
from tf_condacc._state import SavedState
from tf_condacc._tensorflow import (
    Trackable,
    execute,
    is_determinism_enabled,
    not_converted,
)
from tf_condacc._typing import DTypeLike, ShapeLike, TensorLike

_LOG = logging.getLogger("tf_condacc")
_STATE = "state"  # The name of the child that has the state.
_Taken = TypeVar("_Taken")
_REAL_OR_COMPLEX = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)
_SUMMED = (tf.int32, tf.int64)  # Gradients of these types can be summed only.


class TryTakeResult(NamedTuple):
    """The result of a take that does not wait.

    Example:
        >>> accumulator = tf_condacc.ConditionalAccumulator(tf.float32, shape=[])
        >>> accumulator.apply_grad(2.0)
        >>> taken, value = accumulator.try_take_grad(num_required=1)
        >>> print(taken.numpy(), value.numpy())
        True 2.0

    Attributes:
        taken: Whether gradients were taken: `[] bool`.
        value: The gradient that was taken, of the type that the method returns. It is meaningful
            only if `taken` is True.
    """

    taken: tf.Tensor
    value: Any


class ConditionalAccumulatorBase(Trackable):
    """The base class of dense and sparse conditional accumulators.

    Accumulators work in graphs with sessions, in ``tf.function`` and in eager mode. Their use in a
    function that XLA compiles raises RuntimeError when the function is traced. A function that
    uses an accumulator can be exported with ``tf.saved_model.save`` if the accumulator was made
    eagerly and is an attribute of the exported object. The accumulator of the loaded object is a
    new one, and empty: SavedModels contain no gradients.

    ``tf.train.Checkpoint`` saves and restores an accumulator that is an attribute of its objects:
    the accumulated gradients with their contributors and weights, the step, and the number
    of dropped gradients. A restored round continues with the same bits, and replaces the round that
    was there, as `reset` does. `tf_condacc.saveables` does the same for sessions. If the variables
    are restored from a checkpoint or a file that was saved without the accumulator, it keeps its
    gradients, which are those of other weights: call `reset` then.

    All methods raise ValueError if the static shape of an argument is not the one that is
    described, and ``tf.errors.InvalidArgumentError`` if its shape is known only when the operation
    runs. If there is not enough memory, they raise ``tf.errors.ResourceExhaustedError``. An error
    does not change the accumulator. The argument `name` is an optional name of the operation.

    Mirrors ``tf.compat.v1.ConditionalAccumulatorBase``, and adds `num_dropped`, `global_step` and
    `reset`.

    Args:
        dtype: Data type of the accumulated gradients.
        shape: Shape of the accumulated gradients, as ``tf.TensorShape`` takes it; None if unknown.
        accumulator_ref: Handle of the accumulator: `[] resource`.
    """

    # Each kind of accumulator sets these. By default, operations are named after the op types of
    # TensorFlow's own accumulators: _GRADIENT_PREFIX is for operations on gradients, _STATE_PREFIX
    # for operations on counts and steps.
    _KIND: str  # "dense" or "sparse", as in the names of the kind's operations.
    _NUM_TAKE_OUTPUTS: int
    _REDUCTIONS: Sequence[str]
    _DEFAULT_NAME: str
    _ATTRIBUTES: Mapping[str, Any] = {}  # Attributes of the op that makes the accumulator.
    _GRADIENT_PREFIX: str
    _STATE_PREFIX: str
    _apply: Callable[..., tf.Tensor]  # Runs the operation that applies a gradient.
    # Whether gradients are applied one after another, so that their order is the same in each run.
    _HAS_FIXED_ORDER = False

    # The arguments of `_make` that have made the accumulator.
    _made_with: tuple[DTypeLike, ShapeLike, str | None, str | None, str] | None = None
    # Number of contributors in whose order gradients are added; 0 if they are added as they arrive.
    _num_contributors = 0

    def __init__(self, dtype: DTypeLike, shape: ShapeLike, accumulator_ref: tf.Tensor) -> None:
        self._dtype = dtype
        self._tensor_dtype = tf.as_dtype(dtype)
        self._shape = tf.TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._track_trackable(SavedState(accumulator_ref), _STATE)
        if tf.executing_eagerly():
            scope = tf.get_current_name_scope()
            self._name = f"{scope}/" if scope else ""
        else:
            self._name = accumulator_ref.op.name.split("/")[-1]

    @classmethod
    def _made_deterministic(cls, num_contributors: int, *arguments: Any) -> Any:
        """Makes an accumulator of contributors. The arguments that follow are the constructor's."""
        expected = f"{cls.__name__}.deterministic() expects num_contributors >= 1"
        if not isinstance(num_contributors, numbers.Integral) or isinstance(num_contributors, bool):
            raise TypeError(f"{expected}, an integer, got {num_contributors!r}.")
        if num_contributors < 1:
            raise ValueError(f"{expected}, got {num_contributors}.")
        made = cls.__new__(cls)
        made._num_contributors = int(num_contributors)
        cls.__init__(made, *arguments)
        return made

    @property
    def accumulator_ref(self) -> tf.Tensor:
        """The handle of the accumulator: `[] resource`."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The last part of the name of the accumulator's operation.

        In eager mode, the name scope in which the accumulator was made, with a slash at the end, or
        an empty string if there was none.
        """
        return self._name

    @property
    def dtype(self) -> DTypeLike:
        """The data type of the gradients, as given to the constructor."""
        return self._dtype

    @not_converted
    def num_accumulated(self, name: str | None = None) -> tf.Tensor:
        """Returns the number of gradients accumulated now: `[] int32`."""
        return self._read(lowest_num_accumulated, "NumAccumulated", name)

    @not_converted
    def num_dropped(self, name: str | None = None) -> tf.Tensor:
        """Returns the number of stale gradients dropped so far: `[] int64`.

        TensorFlow's own accumulators do not count them.
        """
        return self._read(ops.condacc_accumulator_num_dropped, "NumDropped", name)

    @not_converted
    def global_step(self, name: str | None = None) -> tf.Tensor:
        """Returns the accumulator's own step: `[] int64`.

        Gradients with a lower local step are stale. TensorFlow's own accumulators do not return
        their step.
        """
        return self._read(ops.condacc_accumulator_global_step, "GlobalStep", name)

    @not_converted
    def set_global_step(
        self, new_global_step: TensorLike, name: str | None = None
    ) -> tf.Operation | None:
        """Sets the accumulator's own step.

        Accumulated gradients stay accumulated, and pending takes stay pending. A step that is lower
        than the current one is set, too, and a warning is logged.

        Args:
            new_global_step: The new step, cast to int64: `[] int64`.
            name: Optional name of the operation.

        Returns:
            The operation; None in eager mode.
        """
        return ops.condacc_accumulator_set_global_step(
            self._accumulator_ref,
            self._step(new_global_step, "new_global_step"),
            name=name or f"{self._STATE_PREFIX}SetGlobalStep",
        )

    @not_converted
    def reset(self, new_global_step: TensorLike, name: str | None = None) -> tf.Tensor:
        """Discards the accumulated gradients and sets the accumulator's own step, atomically.

        Pending takes continue to wait. If enough gradients were accumulated for a pending take
        before the reset, this take is completed first, and its gradients are not discarded.
        `num_dropped` does not change. TensorFlow's own accumulators have no such method.

        Args:
            new_global_step: The new step, cast to int64: `[] int64`. It may be lower than the
                current one.
            name: Optional name of the operation.

        Returns:
            The number of gradients that were discarded: `[] int64`.
        """
        return ops.condacc_accumulator_reset(
            self._accumulator_ref,
            self._step(new_global_step, "new_global_step"),
            name=name or f"{self._STATE_PREFIX}Reset",
        )

    def _step(self, step: TensorLike, argument: str) -> tf.Tensor:
        """Converts a step to int64, on the host.

        Raises:
            TypeError: The step is a bool.
            ValueError: The step is a float that is not a whole number. Tensors and values of numpy
                are cast, as by TensorFlow's own accumulators.
        """
        error: type[Exception]
        if isinstance(step, bool):
            error = TypeError
        elif isinstance(step, float) and not isinstance(step, np.float64):
            if step.is_integer():
                # TensorFlow would round it to float32, which has no odd numbers above 2**24.
                return host_int64(int(step))
            error = ValueError
        else:
            return host_int64(step)
        where = f" (accumulator '{self._handle_name()}')"
        raise error(f"Argument {argument} must be a whole number, got {step!r}{where}.")

    def _converted(self, gradient: TensorLike) -> tf.Tensor:
        """Converts a gradient, or the values of a sparse one, to the accumulator's dtype.

        Raises:
            TypeError: The gradient has imaginary parts, which the dtype has not.
        """
        # Most gradients have this dtype. In eager mode this test is faster than a conversion.
        if isinstance(gradient, tf.Tensor) and gradient.dtype is self._tensor_dtype:
            return gradient
        if not self._tensor_dtype.is_complex and _has_imaginary_part(gradient):
            raise TypeError(
                f"Accumulator '{self._handle_name()}' of dtype {self._tensor_dtype.name} has got a "
                "complex gradient, whose imaginary part would be lost."
            )
        return tf.convert_to_tensor(gradient, dtype=self._dtype)

    def _make(
        self,
        dtype: DTypeLike,
        shape: ShapeLike,
        shared_name: str | None,
        name: str | None,
        reduction_type: str,
    ) -> tf.Tensor:
        """Makes an accumulator with the constructor's arguments, and returns its handle.

        In eager mode, each call makes a new accumulator unless `shared_name` is given.
        """
        self._made_with = (dtype, shape, shared_name, name, reduction_type)
        attributes = dict(self._ATTRIBUTES)
        if self._num_contributors:
            attributes["num_contributors"] = self._num_contributors
        make_op = functools.partial(self._op("accumulator"), **attributes)
        name = name or self._DEFAULT_NAME
        _check_reduction(reduction_type, self._REDUCTIONS, name)
        _check_dtype(dtype, reduction_type, name)
        has_order = self._num_contributors or self._HAS_FIXED_ORDER
        if not has_order and is_determinism_enabled() and not tf.as_dtype(dtype).is_integer:
            _warn_of_arrival(name)

        # This function must not refer to `self`: `self` refers to it, which would make a cycle.
        make = functools.partial(
            _make_accumulator, make_op, dtype, shape, shared_name, name, reduction_type
        )
        if not tf.executing_eagerly():
            return make(False)
        resource = _ExportableResource(make)
        self._track_trackable(resource, "resource")
        return resource.resource_handle

    def _trackable_children(self, save_type: str = "checkpoint", **arguments: Any) -> Any:
        """Returns the resource for SavedModels, and the state as well for checkpoints."""
        children = dict(super()._trackable_children(save_type, **arguments))
        if save_type != "checkpoint":
            children.pop(_STATE, None)
        return children

    def __copy__(self) -> ConditionalAccumulatorBase:
        """Returns an empty accumulator with the same step. Raises TypeError, as `__deepcopy__`."""
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> ConditionalAccumulatorBase:
        """Returns an empty accumulator with the same step.

        Raises:
            TypeError: The accumulator was made in a graph or has a `shared_name`, so a copy would
                have the same gradients.
        """
        made_with = self._made_with
        is_eager = tf.executing_eagerly() and hasattr(self._accumulator_ref, "numpy")
        if made_with is None or made_with[2] or not is_eager:
            why = "it was made, or is copied, in a graph"
            if made_with is not None and made_with[2]:
                why = f"it shares its gradients under the name '{made_with[2]}'"
            raise TypeError(
                f"{type(self).__name__} '{self._handle_name()}' cannot be copied, because {why}. "
                "Make another accumulator instead."
            )
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        for attribute, value in vars(self).items():
            if not attribute.startswith("_self_") and value is not self._accumulator_ref:
                copied.__dict__[attribute] = value  # Trackable's own attributes are left out.
        copied._accumulator_ref = copied._make(*made_with)
        copied._track_trackable(SavedState(copied._accumulator_ref), _STATE)
        copied.set_global_step(self.global_step())
        return copied

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuses to be pickled, with a TypeError."""
        raise TypeError(
            f"{type(self).__name__} '{self._handle_name()}' cannot be pickled or passed to another "
            "process, because its gradients belong to this process. Make another accumulator where "
            "it is needed. Processes share an accumulator only by way of a tf.distribute.Server, "
            "under a shared_name."
        )

    def _handle_name(self) -> str:
        return getattr(self._accumulator_ref, "_condacc_name", self._name)

    def _op(self, verb: str) -> Callable[..., Any]:
        """Returns the function of an operation of this kind of accumulator."""
        return getattr(ops, f"condacc_{self._KIND}_{verb}")

    def _op_type(self, verb: str) -> str:
        """Returns the type of such an operation: for "try_take", "Condacc>DenseTryTake"."""
        return "Condacc>" + f"{self._KIND}_{verb}".title().replace("_", "")

    def _outcome(
        self,
        gradient: TensorLike,
        local_step: TensorLike,
        name: str | None = None,
        weight: TensorLike | None = None,
        contributors: Sequence[TensorLike] = (),
        **rows: TensorLike | None,
    ) -> tf.Tensor:
        """Applies a gradient, and returns the outcome, as `apply_contribution` does: `[] int32`.

        Args:
            gradient: The gradient, or the values of a sparse one.
            local_step: The step at which the gradient was computed: `[] int64`.
            name: Name of the operation; None for that of `apply_grad`.
            weight: Weight of the gradient: `[] real number`; None if it has none.
            contributors: The contributor: `[] integer`; empty if there is none.
            **rows: The `indices` and the `shape` of a sparse gradient.
        """
        ids = [contributor_id(each, self._handle_name()) for each in contributors]
        converted, weights = self._converted(gradient), []
        if weight is not None:
            weights = [weight_input(weight, self._tensor_dtype, self._handle_name())]
            converted = multiplied(converted, weights[0])
        step = self._step(local_step, "local_step")
        name = name or f"{self._GRADIENT_PREFIX}ApplyGradient"
        return self._apply(step, converted, ids, weights, name, **rows)

    def _read(self, read: Callable[..., tf.Tensor], what: str, name: str | None) -> tf.Tensor:
        """Reads a counter of the accumulator.

        Args:
            read: Function of the operation that reads the counter.
            what: Last part of the operation's default name. The first part is the accumulator's
                name or, if it was made eagerly and has none, `_STATE_PREFIX`.
            name: Name of the operation; None for the default.
        """
        if name is None and self._name and not self._name.endswith("/"):
            name = f"{self._name}_{what}"
        return read(self._accumulator_ref, name=name or f"{self._STATE_PREFIX}{what}")

    def _take(
        self,
        num_required: TensorLike,
        name: str | None,
        pack: Callable[[Sequence[tf.Tensor]], _Taken],
    ) -> _Taken:
        """Takes gradients, waiting for them if necessary. In eager mode, Ctrl-C ends the wait.

        Args:
            num_required: Number of gradients to wait for: `[] int32`.
            name: Name of the operation; None for the default.
            pack: Makes the gradient from the outputs of the operation.
        """
        if not tf.executing_eagerly():
            name = name or f"{self._GRADIENT_PREFIX}TakeGradient"
            with arguments_on_host():
                outputs = self._op("take")(
                    self._accumulator_ref, num_required, dtype=self._dtype, name=name
                )
            return pack(outputs if isinstance(outputs, tuple) else [outputs])
        inputs = [self._accumulator_ref, host_int32(num_required)]
        dtype = ("dtype", self._tensor_dtype.as_datatype_enum)
        # A take that does not wait is tried first, because it needs no thread. It is not tried if
        # the count shows that it would fail, because it would return zeros as large as a gradient.
        if not isinstance(num_required, int) or num_required <= int(self.num_accumulated()):
            taken, *outputs = execute(
                self._op_type("try_take"),
                1 + self._NUM_TAKE_OUTPUTS,
                inputs,
                (*dtype, "num_global_steps", 0),
            )
            if taken:
                return pack(outputs)
        return pack(
            eager.execute_interruptibly(
                self._op_type("take"), self._NUM_TAKE_OUTPUTS, inputs, dtype
            )
        )

    def _try_take(
        self,
        num_required: TensorLike,
        name: str | None,
        global_step: TensorLike | None,
        pack: Callable[[Sequence[tf.Tensor]], Any],
    ) -> TryTakeResult:
        """Takes gradients without waiting. Arguments are those of `try_take_grad`, and `pack`."""
        steps = [] if global_step is None else [self._step(global_step, "global_step")]
        if tf.executing_eagerly():
            taken, *outputs = execute(
                self._op_type("try_take"),
                1 + self._NUM_TAKE_OUTPUTS,
                [self._accumulator_ref, host_int32(num_required), *steps],
                ("dtype", self._tensor_dtype.as_datatype_enum, "num_global_steps", len(steps)),
            )
            return TryTakeResult(taken, pack(outputs))
        name = name or f"{self._GRADIENT_PREFIX}TryTakeGradient"
        with arguments_on_host():
            taken, *outputs = self._op("try_take")(
                self._accumulator_ref, num_required, steps, dtype=self._dtype, name=name
            )
        return TryTakeResult(taken, pack(outputs))


class _ExportableResource(tf.saved_model.experimental.TrackableResource):
    """The resource behind an accumulator, which functions can capture and SavedModels contain.

    Accumulators hold such an object instead of deriving from this class, because its constructor
    takes other arguments.

    Args:
        make: Function that makes an accumulator and returns its handle: `[] resource`. If its
            argument is True, each execution of the operation makes a new accumulator.
    """

    def __init__(self, make: Callable[[bool], tf.Tensor]) -> None:
        super().__init__()
        self._make = make

    def _create_resource(self) -> tf.Tensor:
        if tf.executing_eagerly():
            return self._make(True)
        nodes.begin(v1.get_default_graph())
        # A function makes the accumulators of a SavedModel that is loaded as an object. They would
        # share their state if their operations had equal names and were not anonymous. A session
        # executes its operation in each run, so the accumulator has to belong to the operation.
        return self._make(tf.inside_function())


def _make_accumulator(
    make_op: Callable[..., tf.Tensor],
    dtype: DTypeLike,
    shape: ShapeLike,
    shared_name: str | None,
    name: str,
    reduction_type: str,
    anonymous: bool,
) -> tf.Tensor:
    """Makes an accumulator and returns its handle: `[] resource`.

    Further arguments are those of the constructor.

    Args:
        make_op: Function of the operation that makes accumulators of the kind.
        anonymous: Whether each execution of the operation makes a new accumulator. Ignored if
            `shared_name` is given.

    Raises:
        tf.errors.NotFoundError: The process of the current device has not imported this package.
        tf.errors.InternalError: The current device belongs to a process that cannot be reached.
    """
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


_warned_of_arrival = False


def _warn_of_arrival(name: str) -> None:
    """Logs once per process that an accumulator's sums depend on the order of arrival."""
    global _warned_of_arrival
    if _warned_of_arrival:
        return
    _warned_of_arrival = True
    _LOG.warning(
        "Although tf.config.experimental.enable_op_determinism() was called, accumulator '%s' adds "
        "gradients as they arrive, so its results may differ in their last bits between runs. To "
        "add them in a fixed order, make it with `deterministic(num_contributors, ...)` of its "
        "class, and give each gradient a contributor. Further accumulators are not reported.",
        name,
    )


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
            "Names are shared only within a device, so each device has a separate accumulator. "
            "Make it outside the function to share it.",
            shared_name,
            type(strategy).__name__,
        )


def _check_reduction(
    reduction_type: str | bytes | None, reductions: Sequence[str], name: str
) -> None:
    """Checks the reduction. The operation does so, too, but its error names all its arguments."""
    if not isinstance(reduction_type, (str, bytes)):
        return  # The operation that makes the accumulator reports the error.
    if tf.compat.as_str(reduction_type) in reductions:
        return
    allowed = ", ".join(f'"{each}"' for each in reductions)
    raise ValueError(
        f"The reduction_type {reduction_type!r} of accumulator '{name}' is not in: {allowed}."
    )


def _has_imaginary_part(value: Any) -> bool:
    """Returns whether a value of Python or numpy has an imaginary part.

    Conversions of tensors refuse to lose one. A list may contain tensors, which numpy cannot read.
    """
    if isinstance(value, (list, tuple)):
        return any(map(_has_imaginary_part, value))
    if isinstance(value, (complex, np.ndarray, np.generic)):
        return bool(np.iscomplexobj(value) and np.any(np.imag(value)))
    return False


def _check_dtype(dtype: DTypeLike, reduction_type: str | bytes, name: str) -> None:
    try:
        found = tf.as_dtype(dtype)
    except TypeError:
        return  # The operation that makes the accumulator reports the error.
    if found not in _REAL_OR_COMPLEX and found not in _SUMMED:
        allowed = ", ".join(each.name for each in _REAL_OR_COMPLEX)
        summed = " and ".join(each.name for each in _SUMMED)
        raise TypeError(
            f"The dtype {found.name} of accumulator '{name}' is not in list of allowed values: "
            f"{allowed}; with reduction_type 'SUM' also {summed}."
        )
    if found.is_integer and reduction_type not in ("SUM", b"SUM"):
        raise ValueError(
            f"Integer gradients have no mean: accumulator '{name}' of dtype "
            f"{found.name} expects reduction_type 'SUM', got {reduction_type!r}."
        )
