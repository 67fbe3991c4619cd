"""Replication of a `model_fn` over several devices.

Mirrors ``tf.contrib.estimator.replicate_model_fn``.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import (
    ModeKeys,
    SpecLike,
    argument_names,
    checked_spec,
    replaced_spec,
)
from tf_condacc._towers import batches, graph_state, joining, optimizer_calls
from tf_condacc._towers.graph_state import Tower
from tf_condacc._towers.tower_optimizer import TowerOptimizer, warn_of_deprecation
from tf_condacc._typing import Nested

_LOG = logging.getLogger("tf_condacc")
_VARIABLE_OPS = ("Variable", "VariableV2", "VarHandleOp")
_CPU = "/CPU:0"


def replicate_model_fn(
    model_fn: Callable[..., SpecLike],
    loss_reduction: str | Callable[..., Any] | None = v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
    devices: Sequence[str] | None = None,
    *,
    optimizer_fn: Callable[..., v1.train.Optimizer] | None = None,
) -> Callable[..., SpecLike]:
    """Replicates a `model_fn` over devices, each of which gets a part of the batch.

    Mirrors ``tf.contrib.estimator.replicate_model_fn``. The first tower makes the variables, and
    the other towers share them. The `model_fn` must wrap its optimizers in `TowerOptimizer`, which
    applies the sum of the gradients of all towers. The resulting spec depends on the mode:

    - TRAIN: The loss is the sum of the towers' losses. Each is divided by the number of towers,
      unless `loss_reduction` is SUM. The other fields are those of the last tower's spec, whose
      `train_op` applies the gradients of all towers.
    - EVAL: The loss is computed in the same way, and metrics are those of the whole batch. The
      other fields are those of the first tower's spec.
    - PREDICT: The predictions and export outputs of the towers are concatenated. A scalar export
      output becomes a vector with one element for each tower. The other fields are those of the
      first tower's spec.

    Towers share the variables that ``tf.compat.v1.get_variable`` makes, and so those of
    ``tf.compat.v1.layers``. If `model_fn` makes Keras layers or ``tf.Variable`` objects, each tower
    gets its own variables and trains a separate model. A warning then names the first such
    variable.

    The older form ``replicate_model_fn(model_fn, optimizer_fn, devices=None)`` works too. It
    replaces the `train_op` of the specs by a step of that optimizer, and sums the losses.

    Args:
        model_fn: Function as an Estimator takes it. Returns an `EstimatorSpec`, or an object with
            the same fields.
        loss_reduction: How the loss is reduced over the examples, a value of
            ``tf.compat.v1.losses.Reduction`` other than NONE.
        devices: Names of the devices, one for each tower. By default all GPUs of the process, or
            its CPUs if it has no GPU.
        optimizer_fn: Function that makes the optimizer, for the older form. It may have arguments
            `params` and `config`.

    Returns:
        A `model_fn` with the arguments ``(features, labels, mode, params=None, config=None)``.

    Raises:
        ValueError: `loss_reduction` is NONE.
    """
    warn_of_deprecation("replicate_model_fn")
    if callable(loss_reduction):
        reduction, optimizer_fn = None, loss_reduction
    else:
        reduction = loss_reduction
    if optimizer_fn is not None:
        model_fn = _with_optimizer(model_fn, optimizer_fn)
        reduction = v1.losses.Reduction.SUM
    if reduction == v1.losses.Reduction.NONE:
        raise ValueError(
            "Tower losses need to be reduced in some way, yet none reduction is specified."
        )
    devices = list(devices) if devices else _local_devices()
    variable_device = _consolidation_device(devices)

    def replicated_model_fn(
        features: Nested, labels: Nested, mode: str, params: Any = None, config: Any = None
    ) -> SpecLike:
        call = functools.partial(model_fn, mode=mode, **_optional(model_fn, params, config))
        placements = [_placing(device, variable_device) for device in devices]
        if len(placements) == 1:
            with graph_state.replication(1, reduction), v1.device(placements[0]):
                return checked_spec(call(features=features, labels=labels), mode)
        _check_mode(mode)
        parts = _split(features, labels, len(devices), variable_device)
        with graph_state.replication(len(devices), reduction) as state:
            specs, metric_variables = _build_towers(state, call, mode, parts, placements)
            if mode == ModeKeys.TRAIN:
                return joining.for_training(specs, variable_device)
        if mode == ModeKeys.EVAL:
            return joining.for_evaluation(specs, metric_variables, variable_device)
        return joining.for_prediction(specs, variable_device)

    return replicated_model_fn


def _split(
    features: Nested, labels: Nested, num_towers: int, device: str
) -> list[dict[str, Nested]]:
    if tf.executing_eagerly():
        raise RuntimeError(
            "replicate_model_fn builds a graph: tf.device does not support functions when eager "
            "execution is enabled."
        )
    parts = batches.split((features, labels), num_towers, device)
    return [{"features": features, "labels": labels} for features, labels in parts]


def _build_towers(
    state: graph_state.GraphState,
    call: Callable[..., SpecLike],
    mode: str,
    parts: Sequence[Mapping[str, Nested]],
    placements: Sequence[Callable[[tf.Operation], str]],
) -> tuple[list[SpecLike], list[list[tf.Variable]]]:
    """Builds all towers.

    Returns:
        The specs of the towers with scaled losses, and the metric variables that each has made.
    """
    keys = v1.GraphKeys
    specs: list[SpecLike] = []
    metric_variables: list[list[tf.Variable]] = []
    trainable_variables: list[list[tf.Variable]] = []
    for part, placement in zip(parts, placements, strict=True):
        with (
            state.tower(),
            v1.device(placement),
            _recorded(keys.METRIC_VARIABLES) as metric,
            _recorded(keys.TRAINABLE_VARIABLES) as trainable,
        ):
            spec = checked_spec(call(**part), mode, f"model_fn of tower {len(specs)}")
            if spec.train_op is not None and not state.has_been_used:
                raise ValueError(optimizer_calls.NOT_WRAPPED)
            if spec.loss is not None:
                spec = replaced_spec(spec, loss=state.scale_loss(spec.loss))
        specs.append(spec)
        metric_variables.append(metric)
        trainable_variables.append(trainable)
    optimizer_calls.check_finished(state.towers)
    _warn_of_unshared(state.towers, trainable_variables)
    return specs, metric_variables


@contextlib.contextmanager
def _recorded(collection: str) -> Iterator[list[tf.Variable]]:
    """Records the variables that are added to a collection of the default graph.

    Yields:
        A list, which is empty until the context ends and then holds the new variables.
    """
    before = {id(variable) for variable in v1.get_collection(collection)}
    made: list[tf.Variable] = []
    yield made
    made.extend(v for v in v1.get_collection(collection) if id(v) not in before)


def _warn_of_unshared(towers: Sequence[Tower], made: Sequence[Sequence[tf.Variable]]) -> None:
    """Logs a warning if a tower after the first one trains its own variables.

    In a tower that calls an optimizer, only variables with a gradient count. Each tower may make
    others, such as a learning rate.

    Args:
        towers: All towers of the graph.
        made: The trainable variables that each tower has made.
    """
    for tower, variables in zip(towers[1:], made[1:], strict=True):
        trained = {
            variable.name
            for call in tower.calls
            for gradient, variable in call.gradients_and_variables
            if gradient is not None
        }
        own = [v.name for v in variables if not tower.calls or v.name in trained]
        if own:
            _LOG.warning(
                "Tower %d has made %d trainable variable(s) of its own, the first of which is %s. "
                "It does not share them with tower 0, so the %d towers are separate models. Towers "
                "share variables that are made by tf.compat.v1.get_variable; Keras layers and "
                "tf.Variable make new ones.",
                tower.number,
                len(own),
                own[0],
                len(towers),
            )
            return


def _local_devices() -> list[str]:
    """Returns the GPUs of this process, or its CPUs if it has no GPU."""
    for kind in ("GPU", "CPU"):
        devices = tf.config.list_logical_devices(kind)
        if devices:
            return [f"/device:{kind}:{number}" for number, _ in enumerate(devices)]
    raise RuntimeError("Expected a GPU or a CPU, TensorFlow found neither.")


def _consolidation_device(devices: list[str]) -> str:
    """Returns the device of the variables and of the operations that combine all towers."""
    if len(devices) == 1 and _device_type(devices[0]) == "GPU":
        return devices[0]
    return _CPU


def _placing(device: str, variable_device: str) -> Callable[[tf.Operation], str]:
    """Returns a function for ``tf.compat.v1.device`` that places one tower.

    A device that the program has chosen for an operation takes precedence.

    Args:
        device: Device of all operations except variables.
        variable_device: Device of variables.

    Raises:
        ValueError: One of the names is not that of a device.
    """
    others, variables = (
        tf.DeviceSpec.from_string(device),
        tf.DeviceSpec.from_string(variable_device),
    )

    def choose(op: tf.Operation) -> str:
        chosen = tf.DeviceSpec.from_string(op.device or "")
        default = variables if op.type in _VARIABLE_OPS else others
        return default.make_merged_spec(chosen).to_string()

    return choose


def _device_type(device: str) -> str | None:
    kind = tf.DeviceSpec.from_string(device).device_type
    return kind.upper() if kind else None


def _check_mode(mode: str) -> None:
    known = [ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT]
    if mode not in known:
        raise ValueError(f"Expected mode to be one of {known}, got {mode!r}.")


def _with_optimizer(
    model_fn: Callable[..., SpecLike], optimizer_fn: Callable[..., v1.train.Optimizer]
) -> Callable[..., SpecLike]:
    """Returns a `model_fn` whose `train_op` is a step of the optimizer."""

    @functools.wraps(model_fn)
    def model_fn_with_optimizer(
        features: Nested, labels: Nested, mode: str, params: Any = None, config: Any = None
    ) -> SpecLike:
        optional = _optional(model_fn, params, config)
        spec = model_fn(features=features, labels=labels, mode=mode, **optional)
        if mode != ModeKeys.TRAIN:
            return spec
        optimizer = TowerOptimizer(
            functools.partial(optimizer_fn, **_optional(optimizer_fn, params, config))
        )
        train_op = optimizer.minimize(spec.loss, global_step=v1.train.get_or_create_global_step())
        return replaced_spec(spec, train_op=train_op)

    del model_fn_with_optimizer.__wrapped__  # inspect.signature must see its own arguments.
    return model_fn_with_optimizer


def _optional(function: Callable[..., Any], params: Any, config: Any) -> Mapping[str, Any]:
    """Returns copies of `params` and `config`, if the function has arguments of these names."""
    names = argument_names(function)
    given = {"params": params, "config": config}
    return {name: copy.deepcopy(value) for name, value in given.items() if name in names}
