"""Functions that join the specs of all towers into one spec."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc._model_fn import SpecLike, replaced_spec

_MISMATCH = "Different `EstimatorSpec.eval_metric_ops` across `model_fn()` calls."


def for_training(specs: Sequence[SpecLike], device: str) -> SpecLike:
    """Returns the last tower's spec with the loss of all towers.

    The last tower applies the gradients of all towers, so its `train_op` is the right one.
    """
    return replaced_spec(specs[-1], loss=_total_loss(specs, device))


def for_evaluation(
    specs: Sequence[SpecLike], metric_variables: Sequence[Sequence[tf.Variable]], device: str
) -> SpecLike:
    """Returns the first tower's spec with the loss of all towers and metrics of the whole batch."""
    metrics = _merged_metrics(specs, metric_variables, device)
    return replaced_spec(specs[0], loss=_total_loss(specs, device), eval_metric_ops=metrics)


def for_prediction(specs: Sequence[SpecLike], device: str) -> SpecLike:
    """Returns the first tower's spec with the concatenated predictions of all towers.

    Export outputs are concatenated too; scalar export outputs are stacked.

    Raises:
        ValueError: A prediction is a scalar, which has no examples; or the towers have different
            predictions or export outputs.
    """
    with v1.device(device):
        predictions = _joined_all([spec.predictions for spec in specs], "predictions", _refused)
        outputs = [spec.export_outputs for spec in specs]
        if outputs[0]:
            _check_keys(outputs, "export_outputs")
            outputs[0] = {
                key: _joined_output([each[key] for each in outputs], key) for key in outputs[0]
            }
    return replaced_spec(specs[0], predictions=predictions, export_outputs=outputs[0])


def _total_loss(specs: Sequence[SpecLike], device: str) -> tf.Tensor:
    with v1.device(device):
        return tf.add_n([spec.loss for spec in specs], name="loss")


def _merged_metrics(
    specs: Sequence[SpecLike], variables: Sequence[Sequence[tf.Variable]], device: str
) -> dict[str, tuple[Any, tf.Operation]]:
    """Returns the metrics of the first tower, updated with the batches of all towers.

    The metrics share one update. It runs the updates of every tower, and then adds the metric
    variables of the other towers to those of the first tower and sets them to zero.

    Args:
        specs: Specs of the towers, with their `eval_metric_ops`.
        variables: The metric variables that each tower has made.
        device: Device on which the variables are added.

    Raises:
        ValueError: The towers do not have the same metrics.
    """
    _check_metrics(specs, variables)
    updates = [update for spec in specs for _, update in (spec.eval_metric_ops or {}).values()]
    with v1.device(device), tf.control_dependencies(updates):
        update = tf.group(*[op for alike in zip(*variables, strict=True) for op in _gather(alike)])
    return {key: (value, update) for key, (value, _) in (specs[0].eval_metric_ops or {}).items()}


def _gather(variables: Sequence[tf.Variable]) -> list[tf.Operation]:
    """Returns operations that add all variables to the first, and set the others to zero.

    Reading a reference variable gives its memory and not a copy of its value. The variables are
    therefore set to zero after the addition.
    """
    first, *others = variables
    added = v1.assign_add(first, tf.add_n([variable.read_value() for variable in others]))
    with tf.control_dependencies([added]):
        return [v1.assign(variable, tf.zeros_like(variable)) for variable in others]


def _check_metrics(specs: Sequence[SpecLike], variables: Sequence[Sequence[tf.Variable]]) -> None:
    first, num_first = set(specs[0].eval_metric_ops or {}), len(variables[0])
    total = sum(map(len, variables))
    for number, (spec, made) in enumerate(zip(specs, variables, strict=True)):
        if len(made) != num_first:
            expected = total - total % len(specs) if total % len(specs) else num_first * len(specs)
            raise ValueError(
                f"{_MISMATCH} Expected {expected} local variables, but got {total} instead. Tower "
                f"{number} made {len(made)}, tower 0 made {num_first}."
            )
        keys = set(spec.eval_metric_ops or {})
        if keys != first:
            raise ValueError(
                f"{_MISMATCH} Tower {number} has {sorted(keys)}, tower 0 has {sorted(first)}."
            )
        for ours, theirs in zip(variables[0], made, strict=True):
            if ours.dtype != theirs.dtype or not ours.shape.is_compatible_with(theirs.shape):
                raise ValueError(
                    f"{_MISMATCH} {theirs.name} of tower {number} has dtype "
                    f"{theirs.dtype.name} and shape {theirs.shape}, {ours.name} of tower 0 has "
                    f"{ours.dtype.name} and {ours.shape}."
                )


def _joined_output(outputs: Sequence[Any], key: str) -> Any:
    """Joins export outputs of any type that has the attributes of one of the three kinds."""
    make = type(outputs[0])
    if hasattr(outputs[0], "outputs"):
        return make(_joined_all([output.outputs for output in outputs], key, _stacked))
    if hasattr(outputs[0], "value"):
        return make(_joined([output.value for output in outputs], key, _stacked))
    if hasattr(outputs[0], "scores") and hasattr(outputs[0], "classes"):
        parts = {
            name: [getattr(output, name) for output in outputs] for name in ("scores", "classes")
        }
        return make(
            **{
                name: None if values[0] is None else _joined(values, f"{key}_{name}", _stacked)
                for name, values in parts.items()
            }
        )
    raise ValueError(
        f"Expected export output {key!r} to be a ClassificationOutput, RegressionOutput or "
        f"PredictOutput, got {outputs[0]}."
    )


def _joined_all(values: Sequence[Any], name: str, join_scalars: Callable[..., Any]) -> Any:
    if not isinstance(values[0], Mapping):
        return _joined(values, name, join_scalars)
    _check_keys(values, name)
    return {key: _joined([value[key] for value in values], key, join_scalars) for key in values[0]}


def _joined(tensors: Sequence[Any], name: Any, join_scalars: Callable[..., Any]) -> Any:
    """Concatenates tensors along their first dimension."""
    name = _as_op_name(name)
    if tensors[0].shape.rank == 0:
        return join_scalars(tensors, name)
    if isinstance(tensors[0], tf.SparseTensor):
        return tf.sparse.concat(0, list(tensors), expand_nonconcat_dims=True, name=name)
    return tf.concat(tensors, axis=0, name=name)


def _stacked(scalars: Sequence[Any], name: str | None) -> tf.Tensor:
    return tf.stack(scalars, name=name or "stack")


def _refused(scalars: Sequence[Any], name: str | None) -> tf.Tensor:
    raise ValueError(f"Expected predictions of a batch, got scalar {scalars[0]} as {name!r}.")


def _as_op_name(name: Any) -> str | None:
    """Returns a valid operation name that is similar to `name`; None if no character is valid."""
    allowed = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", str(name))
    return allowed.lstrip("_\\/>-").rstrip("/") or None  # A slash at the end would make it a scope.


def _check_keys(mappings: Sequence[Mapping[str, Any]], what: str) -> None:
    for number, each in enumerate(mappings):
        if not isinstance(each, Mapping) or each.keys() != mappings[0].keys():
            raise ValueError(
                f"Expected the same {what} of every tower, but tower 0 has "
                f"{sorted(mappings[0])} and tower {number} has {sorted(each or {})}."
            )
