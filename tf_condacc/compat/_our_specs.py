"""Acceptance of this package's EstimatorSpec by the Estimator of tensorflow_estimator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tf_condacc.estimator import EstimatorSpec, export


def accept(estimator: ModuleType) -> None:
    """Lets the Estimators of tensorflow_estimator accept our EstimatorSpec from a `model_fn`.

    Args:
        estimator: The API of tensorflow_estimator.
    """
    init = estimator.Estimator.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._model_fn = _converting(estimator, self._model_fn)

    estimator.Estimator.__init__ = __init__


def _converting(estimator: ModuleType, model_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a `model_fn` with the same arguments, whose spec is one of tensorflow_estimator."""

    @functools.wraps(model_fn)
    def converting(*args: Any, **kwargs: Any) -> Any:
        spec = model_fn(*args, **kwargs)
        return _converted(estimator, spec) if isinstance(spec, EstimatorSpec) else spec

    converting.__signature__ = inspect.signature(model_fn)  # type: ignore[attr-defined]
    return converting


def _converted(estimator: ModuleType, spec: EstimatorSpec) -> Any:
    fields = spec._asdict()
    if spec.export_outputs is not None:
        fields["export_outputs"] = {
            name: _converted_output(estimator.export, output)
            for name, output in spec.export_outputs.items()
        }
    return estimator.EstimatorSpec(**fields)


def _converted_output(theirs: ModuleType, output: Any) -> Any:
    if isinstance(output, export.PredictOutput):
        return theirs.PredictOutput(output.outputs)
    if isinstance(output, export.RegressionOutput):
        return theirs.RegressionOutput(output.value)
    if isinstance(output, export.ClassificationOutput):
        return theirs.ClassificationOutput(output.scores, output.classes)
    return output
