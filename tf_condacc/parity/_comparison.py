"""Runs a training in several ways, and compares the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tf_condacc.parity import _batches
from tf_condacc.parity._accumulator_setups import accumulators
from tf_condacc.parity._report import ParityError, Report
from tf_condacc.parity._setup import Run, Way
from tf_condacc.parity._strategy_setups import big_batch, mirrored, one_device, reversed_batch
from tf_condacc.parity._sync_replicas_setups import sync_replicas
from tf_condacc.parity._tolerance import Tolerance, limits_of
from tf_condacc.parity._tower_setups import towers
from tf_condacc.parity._training import Training


def default_ways(training: Training, num_replicas: int = 2) -> list[Way]:
    """Returns the ways in which `compare` trains if it is given none.

    Towers and synchronous replicas are among them if there is an optimizer of
    ``tf.compat.v1.train``.
    """
    ways = [reversed_batch(), one_device(), mirrored(num_replicas), accumulators(num_replicas)]
    if training.has_v1_optimizer:
        ways += [towers(num_replicas), sync_replicas(num_replicas)]
    return ways


def compare(
    training: Training,
    ways: Sequence[Way] | None = None,
    *,
    num_replicas: int = 2,
    tolerance: Tolerance | float | None = None,
) -> Report:
    """Trains with one big batch and in other ways, and compares the weights after each step.

    All ways begin with the same weights and get the same batches. The trainable variables are
    compared. The weights of all steps are kept in memory.

    Example:
        >>> import numpy as np
        >>> from tf_condacc import testing
        >>> points = np.float32([[1, 0], [0, 1], [1, 1], [2, 1]])
        >>> training = testing.Training(
        ...     build=lambda: {"weights": tf.Variable([0.0, 0.0], name="weights")},
        ...     loss=lambda model, x, y: tf.reduce_mean(
        ...         (tf.linalg.matvec(x, model["weights"]) - y) ** 2
        ...     ),
        ...     optimizer=lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
        ...     batches=[(points, points @ np.float32([1, -2]))] * 3,
        ... )
        >>> print(testing.compare(training, [testing.accumulators(2), testing.towers(2)]))
        3 ways agree after 3 steps: one big batch, accumulators with 2 micro-batches, 2 towers.

    Args:
        training: The training.
        ways: The ways to compare with one big batch, by default `default_ways`.
        num_replicas: Number of replicas, towers and micro-batches of the default ways.
        tolerance: The tolerance, by default ``Tolerance()``. A number is the largest difference
            that is tolerated in any weight after any step.

    Returns:
        A `Report`. It does not raise an error if ways differ; its method `check` does.

    Raises:
        RuntimeError: The caller is not in eager mode; or there are too few logical CPUs.
        TypeError: `ways` is no list of `Way` objects; or a way needs an optimizer of
            ``tf.compat.v1.train``, and there is none; or its function `begin` returns no `Run`.
        ValueError: Two ways have the same name or train different variables; or a batch cannot be
            divided equally; or `build` or `loss` are not as `Training` describes.
    """
    if not tf.executing_eagerly():
        raise RuntimeError("compare: expected to be called in eager mode, got a graph")
    left_out = {}
    if ways is None:
        ways = default_ways(training, num_replicas)
        if not training.has_v1_optimizer:
            reason = "they need an optimizer of tf.compat.v1.train, see Training(v1_optimizer=…)"
            left_out["towers and sync replicas"] = reason
    ways = [big_batch(), *_checked_ways(ways)]
    names = [way.name for way in ways]
    variables: list[str] = []
    weights: dict[str, list[list[np.ndarray]]] = {}
    num_replicas_of: dict[str, int] = {}
    for way in ways:
        made, weights[way.name], num_replicas_of[way.name] = _train(way, training)
        variables = variables or made
        _check_variables(way.name, weights[way.name], variables, weights[names[0]])
    num_examples = max(_batches.size(batch) for batch in training.batches)
    limits = limits_of(tolerance, weights[names[0]], num_examples)
    dividing = {way.name for way in ways if way.divides}
    return Report(variables, weights, limits, dividing, left_out, num_replicas_of)


def assert_parity(
    training: Training,
    ways: Sequence[Way] | None = None,
    *,
    num_replicas: int = 2,
    tolerance: Tolerance | float | None = None,
    picture: str | Path | None = None,
) -> Report:
    """Compares as `compare` does, and raises an error if ways differ.

    Args:
        training: The training.
        ways: The ways to compare with one big batch.
        num_replicas: Number of replicas, towers and micro-batches of the default ways.
        tolerance: The tolerance.
        picture: Where to save a picture of the differences if ways differ. The error tells the path
            or, without matplotlib, that there is none.

    Returns:
        The `Report`.

    Raises:
        ParityError: Two ways differ by more than the tolerance. The errors of `compare` are raised
            as well.
    """
    report = compare(training, ways, num_replicas=num_replicas, tolerance=tolerance)
    if not report.differences:
        return report
    note = ""
    if picture is not None:
        try:
            note = f"Picture: {report.save_picture(picture)}"
        except ImportError as error:
            note = f"No picture: {error}"
    raise ParityError(report, note)


def _checked_ways(ways: Any) -> Sequence[Way]:
    """Returns the ways to compare with the yardstick, or raises an error if they are none."""
    if isinstance(ways, Way) or not isinstance(ways, Iterable):
        got = f"the way {ways.name}" if isinstance(ways, Way) else f"{ways!r}"
        raise TypeError(f"ways: expected a list of ways, got {got}, which is no list")
    ways = list(ways)
    for way in ways:
        if not isinstance(way, Way):
            call = ", a function, which must be called" if callable(way) else ""
            raise TypeError(f"ways: expected objects of the class Way, got {way!r}{call}")
    names = [way.name for way in ways]
    if big_batch().name in names:
        raise ValueError(
            f"ways: expected ways other than {big_batch().name}, which is always added, got "
            f"{', '.join(names)}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"ways: expected different names, got {', '.join(names)}")
    return ways


def _train(way: Way, training: Training) -> tuple[list[str], list[list[np.ndarray]], int]:
    """Trains in a way.

    Returns:
        The names of the variables, their values before and after each step, and the number of
        replicas.
    """
    run = way.begin(training)
    if not isinstance(run, Run):
        raise TypeError(f"{way.name}: expected a function `begin` that returns a Run, got {run!r}")
    try:
        weights = [run.weights()]
        for features, labels in training.batches:
            run.step(features, labels)
            weights.append(run.weights())
        return _unique_names(run.variables), weights, run.num_replicas
    finally:
        run.close()


def _unique_names(variables: Sequence) -> list[str]:
    names: list[str] = []
    for variable in variables:
        name = getattr(variable, "path", variable.name).split(":")[0]
        repeats = sum(each.split("#")[0] == name for each in names)
        names.append(f"{name}#{repeats + 1}" if repeats else name)
    return names


def _check_variables(
    way: str,
    weights: Sequence[Sequence[np.ndarray]],
    variables: Sequence[str],
    expected: Sequence[Sequence[np.ndarray]],
) -> None:
    shapes = [value.shape for value in weights[0]]
    wanted = [value.shape for value in expected[0]]
    if shapes != wanted:
        raise ValueError(
            f"{way}: expected variables of shapes {wanted}, those of {', '.join(variables)}, got "
            f"{shapes}"
        )
