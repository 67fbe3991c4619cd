"""``tf.contrib.opt.ScipyOptimizerInterface``, which lets SciPy minimize a loss of a graph."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.compat import v1

_logger = logging.getLogger("tf_condacc")
_DEFAULT_METHOD = "L-BFGS-B"
# Arguments of scipy.optimize.minimize that the class sets.
_SET_HERE = ("fun", "x0", "jac", "callback", "constraints", "bounds")


class ScipyOptimizerInterface:
    """Minimizes a loss with ``scipy.optimize.minimize``.

    Mirrors ``tf.contrib.opt.ScipyOptimizerInterface`` of TensorFlow 1.15, which fed the values that
    SciPy tries. Here they are assigned, because values cannot be fed to resource variables. A
    callback that reads a variable gets the values that SciPy tried last. If `minimize` raises an
    error, the variables get their former values back.
    """

    def __init__(
        self,
        loss: Any,
        var_list: Sequence[Any] | None = None,
        equalities: Sequence[Any] | None = None,
        inequalities: Sequence[Any] | None = None,
        var_to_bounds: Mapping[Any, tuple[Any, Any]] | None = None,
        **optimizer_kwargs: Any,
    ) -> None:
        """Builds the gradients of the loss and of the constraints.

        Args:
            loss: [] float tensor.
            var_list: The variables, of any float types and static shapes; by default, the trainable
                ones of the graph.
            equalities: [] float tensors that are to be 0.
            inequalities: [] float tensors that are to be at least 0.
            var_to_bounds: Lower and upper bounds of variables, which broadcast to the shape of the
                variable. An infinite bound is none.
            **optimizer_kwargs: Arguments of ``scipy.optimize.minimize``, such as `method` (by
                default "L-BFGS-B"), `options` and `tol`.

        Raises:
            ImportError: SciPy is not installed.
            ValueError: There is no variable, or `optimizer_kwargs` has an argument that is set
                automatically.
        """
        self._minimize = _scipy_minimize()
        for name in _SET_HERE:
            if name in optimizer_kwargs:
                instead = "; use var_to_bounds" if name == "bounds" else ""
                raise ValueError(
                    f"ScipyOptimizerInterface sets the argument {name} automatically{instead}"
                )
        self._optimizer_kwargs = {"method": _DEFAULT_METHOD, **optimizer_kwargs}
        self._variables = list(v1.trainable_variables() if var_list is None else var_list)
        if not self._variables:
            raise ValueError("ScipyOptimizerInterface: no variables to minimize the loss with")
        self._loss_and_slope = self._with_slope(loss)
        self._constraints = [
            (kind, self._with_slope(each))
            for kind, tensors in (("eq", equalities), ("ineq", inequalities))
            for each in tensors or ()
        ]
        self._values = [
            v1.placeholder(each.dtype.base_dtype, each.shape) for each in self._variables
        ]
        self._assign = v1.group(
            *(v1.assign(*pair) for pair in zip(self._variables, self._values, strict=True))
        )
        self._bounds = None if var_to_bounds is None else self._flat_bounds(var_to_bounds)

    def minimize(
        self,
        session: Any = None,
        feed_dict: Mapping[Any, Any] | None = None,
        fetches: Sequence[Any] | None = None,
        step_callback: Callable[[np.ndarray], Any] | None = None,
        loss_callback: Callable[..., Any] | None = None,
        **run_kwargs: Any,
    ) -> None:
        """Minimizes the loss, and leaves the variables at the values that SciPy has found.

        Args:
            session: The session; by default, the default session.
            feed_dict: Values that are fed in each evaluation.
            fetches: Tensors that are evaluated with the loss.
            step_callback: Called after each step with the [size of all variables] float64 values.
            loss_callback: Called after each evaluation with the values of `fetches`.
            **run_kwargs: Further arguments of ``Session.run``.

        Raises:
            ValueError: There is no session.
        """
        session = session or v1.get_default_session()
        if session is None:
            raise ValueError("ScipyOptimizerInterface.minimize: pass session, there is no default")
        seen = list(fetches or ()) if loss_callback else []

        def evaluate(
            pair: tuple[Any, Any], x: np.ndarray, fetches: Sequence[Any] = ()
        ) -> tuple[float, np.ndarray, list[Any]]:
            self._set(session, x)
            [value, slope], others = session.run([pair, fetches], feed_dict, **run_kwargs)
            return float(value), slope, others

        def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope, others = evaluate(self._loss_and_slope, x, seen)
            if loss_callback:
                loss_callback(*others)
            return value, slope

        constraints = [
            {
                "type": kind,
                "fun": lambda x, pair=pair: evaluate(pair, x)[0],
                "jac": lambda x, pair=pair: evaluate(pair, x)[1],
            }
            for kind, pair in self._constraints
        ]
        before = self._flat(session.run(self._variables))
        found = before
        try:
            result = self._minimize(
                loss,
                before,
                jac=True,
                callback=step_callback,
                constraints=constraints,
                bounds=self._bounds,
                **self._optimizer_kwargs,
            )
            found = result.x
        finally:
            self._set(session, found)
        _logger.info("SciPy ended: %s The loss is %s.", result.message, result.fun)

    def _with_slope(self, tensor: Any) -> tuple[Any, Any]:
        """Returns a [] tensor, and its [size of all variables] float64 gradient."""
        slopes = v1.gradients(tensor, self._variables)
        flat = [
            v1.zeros([each.shape.num_elements()], v1.float64)
            if slope is None
            else v1.cast(v1.reshape(slope, [-1]), v1.float64)
            for slope, each in zip(slopes, self._variables, strict=True)
        ]
        return tensor, v1.concat(flat, 0)

    def _set(self, session: Any, x: np.ndarray) -> None:
        """Assigns a [size of all variables] array to the variables."""
        sizes = [each.shape.num_elements() for each in self._variables]
        parts = np.split(x, np.cumsum(sizes)[:-1])
        feeds = {
            value: part.reshape(value.shape)
            for value, part in zip(self._values, parts, strict=True)
        }
        session.run(self._assign, feeds)

    def _flat_bounds(self, var_to_bounds: Mapping[Any, tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        by_id = {id(variable): bounds for variable, bounds in var_to_bounds.items()}
        sides = []
        for side in (0, 1):
            default = (-np.inf, np.inf)
            values = [by_id.get(id(each), default)[side] for each in self._variables]
            shapes = [each.shape.as_list() for each in self._variables]
            sides.append(self._flat(map(np.broadcast_to, values, shapes)))
        return list(zip(*sides, strict=True))

    @staticmethod
    def _flat(arrays: Any) -> np.ndarray:
        return np.concatenate([np.ravel(each).astype(np.float64) for each in arrays])


def _scipy_minimize() -> Callable[..., Any]:
    try:
        return importlib.import_module("scipy.optimize").minimize
    except ImportError as error:
        raise ImportError(
            "ScipyOptimizerInterface needs SciPy, which is missing: pip install scipy"
        ) from error
