"""Programs of any calls of a GradientAccumulator, compared with a model in NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tf_condacc
from tests.support.programs import as_arrays, run_programs

v1 = tf.compat.v1
SHAPES = [(3,), (6, 2)]
# These are the kinds of gradients of the two variables. "rows" stands for tf.IndexedSlices.
FORMS = [("dense", "rows"), ("none", "rows"), ("dense", "dense")]


class Options(NamedTuple):
    """How an accumulator is made, and whether its micro-batches have weights."""

    reduction: str
    skips: bool
    has_weights: bool


OPTIONS = [
    Options("MEAN", False, False),
    Options("MEAN", True, True),
    Options("SUM", False, True),
]


class Eager:
    """An accumulator, two variables that it updates, and eager calls of it."""

    def __init__(self, options: Options) -> None:
        self.variables = [tf.Variable(tf.zeros(shape)) for shape in SHAPES]
        self.required = tf.Variable(2)
        self.accumulator = tf_condacc.GradientAccumulator(
            self.variables,
            lambda _: self.required.read_value(),
            options.reduction,
            "tested",
            options.skips,
        )
        self.optimizer = v1.train.GradientDescentOptimizer(1.0)

    def begin(self) -> None:
        """Makes everything as it was when it was new."""
        for name, number in (("reset", None), ("set_required", 2), ("set_variables", 0)):
            self.call(name, number)

    def micro_batch(
        self, method: str, forms: tuple[str, str], parts: list[Any], weight: float | None
    ) -> bool:
        """Calls `accumulate` or `apply_gradients` with a gradient of each variable."""
        return bool(self._run((method, forms, weight is not None), parts, weight))

    def call(self, name: str, number: int | None = None) -> Any:
        """Calls another method, with at most one number."""
        return self._run((name, None, number is not None), [], number)

    def _run(self, key: tuple, parts: list[Any], number: Any) -> Any:
        numbers = [] if number is None else [number]
        return as_arrays(self._body(key)(*parts, *numbers))

    def _body(self, key: tuple) -> Callable[..., Any]:
        name, forms, has_number = key
        acc = self.accumulator

        def body(*given: Any) -> Any:
            *parts, number = given if has_number else (*given, None)
            if forms:
                gradients = _gradients(forms, parts)
                if name == "accumulate":
                    return acc.accumulate(gradients, weight=number)
                return acc.apply_gradients(self.optimizer, gradients, weight=number)
            if name == "apply_remainder":
                return acc.apply_remainder(self.optimizer)
            if name == "take":
                return acc.take(number)
            if name == "set_required":
                return self.required.assign(number)
            if name == "set_variables":
                number = tf.cast(number, tf.float32)
                return [v.assign(tf.fill(v.shape, number)) for v in self.variables]
            if name == "variables":
                return [variable.read_value() for variable in self.variables]
            return getattr(acc, name)()

        return body


def _gradients(forms: tuple[str, str], parts: list[Any]) -> list[Any]:
    """Returns the gradients of both variables, from their values and the numbers of rows."""
    left = iter(parts)
    return [
        None
        if form == "none"
        else tf.convert_to_tensor(next(left), tf.float32)
        if form == "dense"
        else tf.IndexedSlices(
            tf.convert_to_tensor(next(left), tf.float32),
            tf.convert_to_tensor(next(left), tf.int64),
            tf.constant(shape, tf.int64),
        )
        for form, shape in zip(forms, SHAPES, strict=True)
    ]


class Function(Eager):
    """Calls of functions that are traced once for all programs."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._functions: dict[tuple, Any] = {}
        # Functions can only be traced when the accumulator has got gradients.
        parts = [np.zeros(SHAPES[0]), np.zeros([1, 2]), np.zeros([1], np.int64)]
        weight = 1.0 if options.has_weights else None
        super()._run(("accumulate", FORMS[0], options.has_weights), parts, weight)

    def _run(self, key: tuple, parts: list[Any], number: Any) -> Any:
        if key not in self._functions:
            self._functions[key] = tf.function(self._body(key), reduce_retracing=True)
        numbers = [] if number is None else [tf.constant(number)]
        return as_arrays(self._functions[key](*[tf.constant(part) for part in parts], *numbers))


class Session(Eager):
    """Calls in a session, in a graph that is the same for all programs."""

    def __init__(self, options: Options) -> None:
        self._graph = tf.Graph()
        self._fetches: dict[tuple, Any] = {}
        with self._graph.as_default():
            super().__init__(options)
            self._fetch(("accumulate", FORMS[0], options.has_weights))
            self._session = v1.Session(graph=self._graph)
            self._session.run(v1.global_variables_initializer())

    def _run(self, key: tuple, parts: list[Any], number: Any) -> Any:
        with self._graph.as_default():
            inputs, fetch = self._fetch(key)
        numbers = [] if number is None else [number]
        feed = dict(zip(inputs, [*parts, *numbers], strict=True))
        return None if fetch is None else self._session.run(fetch, feed)

    def _fetch(self, key: tuple) -> tuple[list[Any], Any]:
        if key not in self._fetches:
            name, forms, has_number = key
            dtypes = [
                dtype
                for form in forms or ()
                for dtype in {"dense": [tf.float32], "rows": [tf.float32, tf.int64], "none": []}[
                    form
                ]
            ]
            if has_number:
                dtypes.append(tf.float32 if forms else tf.int32)
            inputs = [v1.placeholder(dtype, None) for dtype in dtypes]
            fetch = self._body(key)(*inputs)
            self._fetches[key] = inputs, fetch
        return self._fetches[key]


MODES = {"eager": Eager, "function": Function, "session": Session}


@functools.cache
def _made_once(mode: str, options: Options) -> Eager:
    return MODES[mode](options)


class Model:
    """A model of an accumulator and the variables that it updates."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.variables = [np.zeros(shape, np.float32) for shape in SHAPES]
        self.required, self.skipped = 2, 0
        self.clear()

    def clear(self) -> None:
        self.count, self.weight = 0, np.float32(0)
        self.sums = [np.zeros(shape, np.float32) for shape in SHAPES]

    def add(self, gradients: list[np.ndarray], weight: float) -> None:
        is_finite = all(np.isfinite(each).all() for each in gradients)
        if self.options.skips and weight and not is_finite:
            self.skipped += 1
            return
        self.count += 1
        self.weight += np.float32(weight)
        for total, gradient in zip(self.sums, gradients if weight else [], strict=bool(weight)):
            total += np.float32(weight) * gradient

    def take(self) -> list[np.ndarray]:
        taken = self.sums
        if self.options.reduction == "MEAN":
            taken = [total / self.weight if self.weight else total for total in self.sums]
        self.clear()
        return taken

    def update(self) -> None:
        for variable, gradient in zip(self.variables, self.take(), strict=True):
            variable -= gradient


class Programs(RuleBasedStateMachine):
    """Makes calls of an accumulator and of its model."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.tested: Any = None

    @initialize(options=st.sampled_from(OPTIONS))
    def make(self, options: Options) -> None:
        self.model = Model(options)
        self.tested = Eager(options) if self.mode == "eager" else _made_once(self.mode, options)
        self.tested.begin()
        self.is_used = self.mode != "eager"  # Methods that read need a first micro-batch.
        self.skipped_before = int(self.tested.call("num_skipped"))

    def has_been_used(self) -> bool:
        return self.tested is not None and self.is_used

    @rule(
        method=st.sampled_from(["accumulate", "apply_gradients"]),
        forms=st.sampled_from(FORMS),
        rows=st.lists(st.integers(0, 5), max_size=4),
        number=st.integers(-9, 9),
        weight=st.sampled_from([1.0, 0.0, 0.5, 3.0, 4.0]),
        is_finite=st.sampled_from([True, True, True, False]),
    )
    def micro_batch(
        self,
        method: str,
        forms: tuple[str, str],
        rows: list[int],
        number: int,
        weight: float,
        is_finite: bool,
    ) -> None:
        options = self.model.options
        parts, gradients = [], []
        for form, shape in zip(forms, SHAPES, strict=True):
            gradient = np.zeros(shape, np.float32)
            if form == "dense":
                gradient += number + np.arange(gradient.size, dtype=np.float32).reshape(shape)
                parts.append(gradient.copy())
            elif form == "rows":
                values = number + np.arange(2 * len(rows), dtype=np.float32).reshape(-1, 2)
                np.add.at(gradient, rows, values)
                parts += [values, np.array(rows, np.int64)]
            gradients.append(gradient)
        if options.skips and not is_finite and parts[0].size:
            parts[0].flat[0] = np.inf
            gradients[forms.index("rows") if forms[0] == "none" else 0].flat[0] = np.inf
        done = self.tested.micro_batch(
            method, forms, parts, weight if options.has_weights else None
        )
        self.model.add(gradients, weight if options.has_weights else 1.0)
        self.is_used = True
        assert done == (self.model.count >= self.model.required)
        if done and method == "apply_gradients":
            self.model.update()

    @precondition(has_been_used)
    @rule()
    def apply_remainder(self) -> None:
        assert self.tested.call("apply_remainder") == (self.model.count > 0)
        if self.model.count:
            self.model.update()

    @precondition(has_been_used)
    @rule(required=st.sampled_from([None, 1, 2, 3]))
    def take(self, required: int | None) -> None:
        if self.model.count < (self.model.required if required is None else required):
            with pytest.raises(tf.errors.InvalidArgumentError, match="fewer micro-batches"):
                self.tested.call("take", required)
            return
        for taken, expected in zip(
            self.tested.call("take", required), self.model.take(), strict=True
        ):
            self.check_equal(_dense(taken, expected.shape), expected)

    @rule(number=st.integers(1, 4))
    def change_number_of_micro_batches(self, number: int) -> None:
        self.tested.call("set_required", number)
        self.model.required = number

    @precondition(has_been_used)
    @rule()
    def reset(self) -> None:
        self.tested.call("reset")
        self.model.clear()

    def check_equal(self, value: np.ndarray, expected: np.ndarray) -> None:
        if self.model.options.has_weights:  # A division by a sum of weights is rounded.
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(value, expected)

    @invariant()
    def has_the_models_state(self) -> None:
        if self.tested is None:
            return
        for variable, expected in zip(
            self.tested.call("variables"), self.model.variables, strict=True
        ):
            self.check_equal(variable, expected)
        assert self.tested.call("num_accumulated") == self.model.count
        assert self.tested.call("num_skipped") - self.skipped_before == self.model.skipped


def _dense(taken: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a taken gradient as an array. None stands for zeros."""
    dense = np.zeros(shape, np.float32)
    if hasattr(taken, "indices"):
        assert np.all(np.diff(taken.indices) > 0)
        dense[taken.indices] = taken.values
    elif taken is not None:
        dense += taken
    return dense


@pytest.mark.parametrize("mode", MODES)
def test_programs_do_what_the_model_does(mode, programs):
    run_programs(functools.partial(Programs, mode), programs)
