"""Comparison of the optimizer calls of different towers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import tensorflow as tf

from tf_condacc._towers.graph_state import GraphState, OptimizerCall, Tower

NOT_WRAPPED = (
    "Please wrap optimizers with TowerOptimizer in order to use replicate_model_fn with multiple "
    "`devices`."
)
_MISMATCH = "Each invocation of model_fn was supposed to make the same optimizer calls."


def matching(towers: Sequence[Tower]) -> list[OptimizerCall]:
    """Returns the latest call of the last tower, and the matching calls of the other towers.

    Calls match if they have the same position among the calls of their towers. Matching calls must
    have optimizers of the same type, and variables in common.

    Raises:
        ValueError: A tower has no matching call. The message names the tower and the call.
    """
    place = len(towers[-1].calls) - 1
    first = towers[0]
    for tower in towers[1:]:
        _check_alike(first, tower, place)
    return [tower.calls[place] for tower in towers]


def check_finished(towers: Sequence[Tower]) -> None:
    """Checks that all towers have made the same number of calls.

    Raises:
        ValueError: A tower has made more calls than another. The message names both.
    """
    for tower in towers[1:]:
        shorter, longer = sorted([towers[0], tower], key=lambda each: len(each.calls))
        if len(shorter.calls) < len(longer.calls):
            _raise_missing(shorter, longer, len(shorter.calls))


def check_scaled(state: GraphState) -> None:
    """Checks that the gradients of the latest call are those of a scaled loss.

    Nothing is checked if losses are not scaled. A call passes if its optimizer has computed
    gradients in this tower, or if one of its gradients depends on gradients that another optimizer
    has computed there. Gradients may therefore be clipped, accumulated in variables, or computed by
    one optimizer and applied by several.

    Raises:
        ValueError: No TowerOptimizer has computed the gradients. The message names the tower and
            the call.
    """
    tower = state.towers[-1]
    call = tower.calls[-1]
    if not state.scales_losses or any(each.optimizer is call.optimizer for each in tower.computed):
        return
    gradients = gradient_tensors(call)
    computed = {tensor.op for each in tower.computed for tensor in gradient_tensors(each)}
    if not gradients or _depend_on(computed, [tensor.op for tensor in gradients]):
        return
    raise ValueError(
        f"{NOT_WRAPPED} {_MISMATCH} Call {len(tower.calls) - 1} of tower {tower.number} is "
        f"apply_gradients without compute_gradients, about {_in_words(call)}: these gradients have "
        f"not been divided by the number of towers, which is {state.number_of_towers}, and their "
        "sum would be that many times too large. Use minimize or compute_gradients of the "
        "TowerOptimizer instead of tf.gradients, or loss_reduction=SUM if sums are wanted."
    )


def gradient_tensors(call: OptimizerCall) -> list[tf.Tensor]:
    """Returns the gradients of a call that are not None. Of a sparse gradient, its values."""
    gradients = [gradient for gradient, _ in call.gradients_and_variables if gradient is not None]
    return [
        g.values if isinstance(g, tf.IndexedSlices) else tf.convert_to_tensor(g) for g in gradients
    ]


def _depend_on(targets: Collection[tf.Operation], ops: Iterable[tf.Operation]) -> bool:
    """Returns whether one of the operations is a target or depends on a target."""
    pending, seen = list(ops), set()
    while pending and targets:
        op = pending.pop()
        if op in targets:
            return True
        if op not in seen:
            seen.add(op)
            pending += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return False


def _check_alike(first: Tower, tower: Tower, place: int) -> None:
    for one, other in ((first, tower), (tower, first)):
        if place >= len(one.calls):
            _raise_missing(one, other, place)
    ours, theirs = first.calls[place], tower.calls[place]
    if _kind(ours) != _kind(theirs):
        reason = f"{_kind(theirs)} there and {_kind(ours)}"
    elif _names(ours).isdisjoint(_names(theirs)):
        reason = f"about {_in_words(theirs)} there and about {_in_words(ours)}"
    elif _is_misplaced(first, tower, place):
        reason = f"of another {_kind(theirs)} there than"
    else:
        return
    raise ValueError(
        f"{_MISMATCH} Call {place} of tower {tower.number} is {reason} in tower {first.number}."
    )


def _raise_missing(shorter: Tower, longer: Tower, place: int) -> None:
    raise ValueError(
        f"{_MISMATCH} Tower {longer.number} has a call {place}, about "
        f"{_in_words(longer.calls[place])}, and tower {shorter.number} has none: it made "
        f"{len(shorter.calls)}."
    )


def _is_misplaced(first: Tower, tower: Tower, place: int) -> bool:
    """Returns whether the first tower uses the optimizer of this call only for other calls."""
    optimizer = tower.calls[place].optimizer
    uses = [call.optimizer is optimizer for call in first.calls]
    return any(uses) and not uses[place]


def _kind(call: OptimizerCall) -> str:
    return type(call.optimizer).__name__


def _names(call: OptimizerCall) -> set[str]:
    return {variable.name for _, variable in call.gradients_and_variables}


def _in_words(call: OptimizerCall) -> str:
    names = sorted(_names(call))
    shown = ", ".join(names[:3]) or "no variables"
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
