"""Runs a training in several setups, and compares the weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_condacc.parity import _batches, _processes
from tf_condacc.parity._condacc_setups import accumulators, sync_replicas, towers
from tf_condacc.parity._hints import Facts
from tf_condacc.parity._optimizers import examine_rows
from tf_condacc.parity._parts import examine
from tf_condacc.parity._report import Report
from tf_condacc.parity._setup import Run, Setup
from tf_condacc.parity._strategy_setups import (
    big_batch,
    mirrored,
    one_device,
    reversed_batch,
    unsummed_batch,
)
from tf_condacc.parity._tolerance import Tolerance, limits_of
from tf_condacc.parity._training import Training


def compare(
    training: Training,
    setups: Sequence[Setup] | None = None,
    *,
    num_replicas: int = 2,
    tolerance: Tolerance | float | None = None,
) -> Report:
    """Trains with one big batch and in other setups, and compares the weights after each step.

    All setups begin with the same weights and get the same batches. The trainable variables are
    compared. The weights of all steps are kept in memory.

    Example:
        >>> import numpy as np
        >>> from tf_condacc import parity
        >>> points = np.float32([[1, 0], [0, 1], [1, 1], [2, 1]])
        >>> training = parity.Training(
        ...     build=lambda: {"weights": tf.Variable([0.0, 0.0], name="weights")},
        ...     loss=lambda model, x, y: tf.reduce_mean(
        ...         (tf.linalg.matvec(x, model["weights"]) - y) ** 2
        ...     ),
        ...     optimizer=lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
        ...     batches=[(points, points @ np.float32([1, -2]))] * 3,
        ... )
        >>> print(parity.compare(training, [parity.accumulators(2), parity.towers(2)]))
        3 setups agree after 3 steps: one big batch, accumulators with 2 micro-batches, 2 towers.

    Args:
        training: The training.
        setups: The setups to compare with one big batch, by default the batch in reverse order,
            `one_device`, `mirrored`, `accumulators` and, if there is an optimizer of
            ``tf.compat.v1.train``, `towers` and `sync_replicas`.
        num_replicas: Number of replicas, towers and micro-batches of the default setups.
        tolerance: The tolerance, by default ``Tolerance()``. A number is the largest difference
            that is tolerated in any weight after any step.

    Returns:
        A `Report`. It does not raise an error if setups differ; its method `check` does.

    Raises:
        RuntimeError: The caller is not in eager mode; or there are too few logical CPUs.
        TypeError: `setups` is not a list of `Setup` objects; or a setup needs an optimizer of
            ``tf.compat.v1.train``, and there is none; or its function `begin` returns no `Run`.
        ValueError: Two setups have the same name or train different variables; or a batch cannot be
            divided equally; or `build` or `loss` are not as `Training` describes.
    """
    if not tf.executing_eagerly():
        raise RuntimeError("compare: expected to be called in eager mode, got a graph")
    _processes.train_if_started_for(training, setups)
    left_out = {}
    if setups is None:
        n = num_replicas
        setups = [reversed_batch(), one_device(), mirrored(n), accumulators(n)]
        if training.has_v1_optimizer:
            setups += [towers(n), sync_replicas(n)]
        else:
            reason = "they need an optimizer of tf.compat.v1.train, see Training(v1_optimizer=…)"
            left_out["towers and sync replicas"] = reason
    setups = [big_batch(), *_checked_setups(setups)]
    trained: dict[str, _Trained] = {}
    for setup in setups:
        trained[setup.name] = _train(setup, training)
        _check_variables(setup.name, trained[setup.name], trained[setups[0].name])
    baseline = trained[setups[0].name]
    num_examples = max(_batches.size(batch) for batch in training.batches)
    limits = limits_of(tolerance, baseline.weights, num_examples)
    weights = {name: each.weights for name, each in trained.items()}
    facts = _facts(training, setups, trained)
    return Report(baseline.variables, weights, limits, facts, left_out)


def _facts(training: Training, setups: Sequence[Setup], trained: Mapping[str, _Trained]) -> Facts:
    """Returns what hints need to know of a training and of the setups in which it was run."""
    baseline = trained[setups[0].name]
    unsummed, remarks = None, {name: each.remarks for name, each in trained.items()}
    if training.sparse:
        unsummed = _train(unsummed_batch(), training).weights
        remarks[""] = examine_rows(training)
    return Facts(
        divisions={setup.name: trained[setup.name].run for setup in setups if setup.divides},
        reduction=training.reduction,
        is_of_v1=training.is_of_v1,
        has_two_optimizers=training.v1_optimizer is not None,
        clipping=training.clipping,
        sparse=[baseline.variables[position] for position in sorted(training.sparse)],
        unsummed=unsummed,
        examine=lambda step, numbers: examine(training, baseline.weights[step - 1], step, numbers),
        remarks=remarks,
    )


def assert_parity(
    training: Training,
    setups: Sequence[Setup] | None = None,
    *,
    num_replicas: int = 2,
    tolerance: Tolerance | float | None = None,
) -> Report:
    """Compares as `compare` does, and raises an error if setups differ.

    If they agree and the report has hints, these are a warning, which pytest shows.

    Args:
        training: The training.
        setups: The setups to compare with one big batch.
        num_replicas: Number of replicas, towers and micro-batches of the default setups.
        tolerance: The tolerance.

    Returns:
        The `Report`.

    Raises:
        ParityError: Two setups differ by more than the tolerance. The errors of `compare` are
            raised as well.
    """
    report = compare(training, setups, num_replicas=num_replicas, tolerance=tolerance)
    report.check()
    if report.hints:
        warnings.warn("\n".join(report.hints), stacklevel=2)
    return report


def _checked_setups(setups: Any) -> Sequence[Setup]:
    """Returns the setups to compare with the baseline, or raises an error if they are invalid."""
    if isinstance(setups, Setup) or not isinstance(setups, Iterable):
        got = f"the setup {setups.name}" if isinstance(setups, Setup) else f"{setups!r}"
        raise TypeError(f"setups: expected a list of setups, got {got}, which is not a list")
    setups = list(setups)
    for setup in setups:
        if not isinstance(setup, Setup):
            call = ", a function, which must be called" if callable(setup) else ""
            raise TypeError(f"setups: expected objects of the class Setup, got {setup!r}{call}")
    names = [setup.name for setup in setups]
    if big_batch().name in names:
        raise ValueError(
            f"setups: expected setups other than {big_batch().name}, which is always added, got "
            f"{', '.join(names)}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"setups: expected different names, got {', '.join(names)}")
    return setups


class _Trained(NamedTuple):
    """A training that was run in a setup.

    Attributes:
        variables: The names of the variables.
        weights: Their values before the first and after each step.
        run: The run, which has ended.
        remarks: What was observed beside the weights.
    """

    variables: list[str]
    weights: list[list[np.ndarray]]
    run: Run
    remarks: Sequence[str]


def _train(setup: Setup, training: Training) -> _Trained:
    """Runs a training in a setup."""
    run = setup.begin(training)
    if not isinstance(run, Run):
        raise TypeError(
            f"{setup.name}: expected a function `begin` that returns a Run, got {run!r}"
        )
    try:
        weights = [run.weights()]
        for features, labels in training.batches:
            run.step(features, labels)
            weights.append(run.weights())
        return _Trained(_unique_names(run.variables), weights, run, run.remarks())
    finally:
        run.close()


def _unique_names(variables: Sequence) -> list[str]:
    names: list[str] = []
    for variable in variables:
        name = getattr(variable, "path", variable.name).split(":")[0]
        repeats = sum(each.split("#")[0] == name for each in names)
        names.append(f"{name}#{repeats + 1}" if repeats else name)
    return names


def _check_variables(setup: str, trained: _Trained, expected: _Trained) -> None:
    shapes = [value.shape for value in trained.weights[0]]
    wanted = [value.shape for value in expected.weights[0]]
    if shapes != wanted:
        raise ValueError(
            f"{setup}: expected variables of shapes {wanted}, those of "
            f"{', '.join(expected.variables)}, got {shapes}"
        )
