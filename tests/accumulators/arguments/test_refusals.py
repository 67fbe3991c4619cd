"""Tests of bad arguments of calls: each is refused, and the accumulator is as it was.

A new argument gets a line in one of the tables here. Sparse gradients that do not fit are in
sparse/test_checks.py, handles in test_handles.py, arguments of constructors in
test_construction.py.
"""

from __future__ import annotations

import contextlib
import re
import signal
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.accumulators.support.calls import CALLS, Calls, RawCalls, SessionCalls
from tests.processes.isolated import isolated
from tests.support.accumulator_support import every_kind, unique_name
from tests.support.refusals import BadArgument, noting, refused

pytestmark = every_kind
MODES = {"eager": Calls, "session": SessionCalls, "raw": RawCalls}
# Arguments of each call that an accumulator of float32 [2] at step 3 accepts.
APPLY: dict[str, Any] = {"gradient": [1.0, 1.0], "step": 3}
GOOD: dict[str, dict[str, Any]] = {
    "apply": APPLY,
    "try_apply": APPLY,
    "weigh": APPLY | {"weight": 2.0},
    "contribute": APPLY | {"contributor": 5},
    "take": {"required": 1},
    "try_take": {"required": 1},
    "take_round": {"required": 1, "step": 3},
    "set_step": {"step": 4},
    "reset": {"step": 4},
}
LONG = {"gradient": np.float32([1.0, 1.0, 1.0])}
LONG_WORDS = r"Shape mismatch|Shapes .* incompatible|Expected 2 non-empty input values, got 3"
POSITIVE = "num_required must be positive, but was "
FINITE = "weight must be finite and not negative, but was "


# What runs of an operation refuse: the call, its bad argument and words of the error. Each shape of
# badness is here with one argument, and each argument with one shape.
RUN: dict[str, tuple[str, dict[str, Any], str]] = {
    "num_required of 0": ("take", {"required": 0}, POSITIVE + "0"),
    "num_required of -1": ("take", {"required": -1}, POSITIVE + "-1"),
    "num_required of -2**31": ("take", {"required": -(2**31)}, POSITIVE + str(-(2**31))),
    "long gradient": ("apply", LONG, LONG_WORDS),
}
BOTH_REFUSE = list(RUN)
RUN |= {
    "num_required of 0 in try_take": ("try_take", {"required": 0}, POSITIVE + "0"),
    "num_required of 0 in a round": ("take_round", {"required": 0}, POSITIVE + "0"),
    "num_required of 0 in another round": ("take_round", {"required": 0, "step": 9}, POSITIVE),
    "long gradient in try_apply": ("try_apply", LONG, LONG_WORDS),
    "long gradient with a weight": ("weigh", LONG, LONG_WORDS),
    "long gradient of a contributor": ("contribute", LONG, LONG_WORDS),
    "negative weight": ("weigh", {"weight": -1.0}, FINITE + "-1"),
    "weight of nan": ("weigh", {"weight": np.nan}, FINITE),
    "infinite weight": ("weigh", {"weight": np.inf}, FINITE),
    "contributor -1": ("contribute", {"contributor": -1}, "must not be negative, but was -1"),
    "contributor -1 that is stale": ("contribute", {"contributor": -1, "step": 2}, "but was -1"),
    "contributor -1 that is ahead": ("contribute", {"contributor": -1, "step": 4}, "but was -1"),
    "contributor -2**63": ("contribute", {"contributor": -(2**63)}, f"but was {-(2**63)}"),
}
_SCALARS = [
    ("apply", "step", "local_step"),
    ("weigh", "weight", "weight"),
    ("contribute", "contributor", "contributor"),
    ("contribute", "step", "local_step"),
    ("take", "required", "num_required"),
    ("try_take", "required", "num_required"),
    ("take_round", "required", "num_required"),
    ("take_round", "step", "global_step"),
    ("set_step", "step", "new_global_step"),
    ("reset", "step", "global_step"),
]
_SHAPES: dict[str, list[tuple[int, ...]]] = {
    "apply": [(1,), (0,), (1, 1), (2,), (2, 0)],
    "set_step": [(1,), (0,)],
}
for _call, _argument, _name in _SCALARS:
    for _shape in _SHAPES.get(_call, [(1,)]):
        _shown = r"\[" + ",".join(map(str, _shape)) + r"\]"
        RUN[f"{_argument} of shape {list(_shape)} in {_call}"] = (
            _call,
            {_argument: np.full(_shape, 3)},
            rf"{_name}.*scalar.*{_shown}|rank 0.*{_shown}|{_shown}.*rank 0",
        )


def made(impl: Any, mode: type, count: int) -> Any:
    """Returns an accumulator of so many gradients [4, 8], at step 3."""
    acc = mode(impl, tf.float32, [2], rows=impl.kind == "sparse", name="spoilt")
    acc.set_step(3)
    for _ in range(count):
        acc("apply", *parts_of(impl, np.float32([4.0, 8.0])), step=3)
    return acc


def parts_of(impl: Any, gradient: Any) -> list[Any]:
    return [np.array([0, 1]), gradient] if impl.kind == "sparse" else [gradient]


def assert_as_before(acc: Any, count: int) -> None:
    assert acc.state() == ((count, 3, 0) if acc.impl.ours else (count,))
    acc("apply", *parts_of(acc.impl, np.float32([2.0, 2.0])), step=3)
    taken = acc.take(count + 1)
    values = taken.values if acc.impl.kind == "sparse" else taken
    np.testing.assert_array_equal(values, [3.0, 5.0] if count else [2.0, 2.0])


def check(impl: Any, mode: str, case: str) -> None:
    call, bad, words = RUN[case]
    given = GOOD[call] | bad
    gradient = [np.float32(given.pop("gradient"))] if "gradient" in given else []
    for count in (0, 1):
        acc = made(impl, MODES[mode], count)
        name = ["spoilt"] if impl.ours and mode == "session" else []
        with noting(mode), refused(BadArgument, words, *name):
            acc(call, *(parts_of(impl, *gradient) if gradient else []), **given)
        assert_as_before(acc, count)
        acc.close()


@pytest.mark.parametrize("case", RUN)
def test_a_bad_argument_is_refused_and_changes_nothing(ours, case):
    for mode in MODES:
        check(ours, mode, case)


@pytest.mark.parametrize("case", BOTH_REFUSE)
def test_the_original_refuses_it_in_the_same_words(original, case):
    check(original, "session", case)


@pytest.mark.kinds("dense")
@isolated(status=-signal.SIGABRT)
@pytest.mark.parametrize("case", ["step of shape [2] in apply", "step of shape [0] in set_step"])
def test_the_original_aborts_the_process(original, case):
    check(original, "eager", case)


# What Python or the shape function refuses before anything runs: the call, its bad argument, the
# type of the error and words of it. A function makes a tensor where it is used.
Case = tuple[str, dict[str, Any], Any, str]
NOT_SCALAR = "must be rank 0 but is rank "
DTYPE = "Tensor conversion requested dtype float32 for Tensor with dtype "
DOUBLE = {"gradient": lambda: tf.ones([2], tf.float64)}
NO_INTEGER = (TypeError, ValueError, tf.errors.InvalidArgumentError, OverflowError)
NO_CAST = (*BadArgument, tf.errors.UnimplementedError)
BUILD: dict[str, Case] = {
    "gradient None": ("apply", {"gradient": None}, ValueError, "None"),
    "step None": ("apply", {"step": None}, ValueError, "None"),
    "step that is a word": ("apply", {"step": "one"}, NO_CAST, "[Cc]ast"),
    "new step None": ("set_step", {"step": None}, ValueError, "None"),
    "num_required of 1.0": ("take", {"required": 1.0}, NO_INTEGER, ""),
    "int64": ("take", {"required": lambda: tf.constant(1, tf.int64)}, NO_INTEGER, ""),
    "num_required that is a word": ("take", {"required": "one"}, NO_INTEGER, ""),
    "num_required None": ("take", {"required": None}, NO_INTEGER, ""),
    "num_required of 2**31": ("take", {"required": 2**31}, NO_INTEGER, ""),
}
BUILD_OF_OURS: dict[str, Case] = {
    "gradient of float64": ("apply", DOUBLE, ValueError, DTYPE + "float64"),
    "gradient of float64 in try_apply": ("try_apply", DOUBLE, ValueError, DTYPE + "float64"),
    "complex list": ("apply", {"gradient": [1.0, 2j]}, TypeError, "has got a complex gradient"),
    "complex array": ("apply", {"gradient": np.array([1, 1j])}, TypeError, "'named' of dtype flo"),
    "step True": ("apply", {"step": True}, TypeError, "local_step must be a whole number, got T"),
    "step of 1.9": ("apply", {"step": 1.9}, ValueError, "local_step .* number, got 1.9 .*'named'"),
    "step of 1e30": ("apply", {"step": 1e30}, ValueError, "out-of-range integer"),
    "new step of 1.9": ("set_step", {"step": 1.9}, ValueError, "new_global_step must be a whole"),
    "step of 1.9 in reset": ("reset", {"step": 1.9}, ValueError, "new_global_step must be a who"),
    "step of 1.9 in a round": ("take_round", {"step": 1.9}, ValueError, "global_step must be a w"),
    "contributor of 2.0": ("contribute", {"contributor": 2.0}, TypeError, "got float32 .*'named'"),
    "word of contributor": ("contribute", {"contributor": "two"}, TypeError, "integer, got string"),
    "weight True": ("weigh", {"weight": True}, TypeError, "weight must be a real number, got bool"),
    "weight of 1j": ("weigh", {"weight": 1j}, TypeError, "real number, got compl.*'named'"),
    "weight that is a word": ("weigh", {"weight": "1"}, TypeError, "weight must be a real number"),
    "weight of bool": ("weigh", {"weight": lambda: tf.constant(True)}, TypeError, "a real number"),
}
# Only where the static shape is known; eagerly, the operations of the first table refuse these.
STATIC: dict[str, Case] = {
    "step of rank 1": ("apply", {"step": np.array([1])}, ValueError, NOT_SCALAR + "1"),
    "step of rank 2": ("apply", {"step": np.array([[1]])}, ValueError, NOT_SCALAR + "2"),
    "empty step": ("apply", {"step": np.array([], np.int64)}, ValueError, NOT_SCALAR + "1"),
    "new step of rank 1": ("set_step", {"step": np.array([1])}, ValueError, NOT_SCALAR + "1"),
    "num_required of rank 1": ("take", {"required": [1]}, ValueError, NOT_SCALAR + "1"),
}
STATIC_OF_OURS: dict[str, Case] = {
    "step of a reset": ("reset", {"step": [1]}, ValueError, NOT_SCALAR + "1"),
    "step of a round": ("take_round", {"step": [1]}, ValueError, NOT_SCALAR + "1"),
    "num_required of a round": ("take_round", {"required": [1]}, ValueError, NOT_SCALAR + "1"),
    "contributor of rank 1": ("contribute", {"contributor": [2]}, ValueError, NOT_SCALAR + "1"),
}
EAGERLY = {"step that is a word", "num_required of 2**31", "step of 1e30"}  # Sessions refuse these.


def check_building(impl: Any, case: str, table: dict[str, Case], modes: tuple[str, ...]) -> None:
    call, bad, error, words = table[case]
    for mode in modes:
        if (mode == "eager" and not impl.has_resource) or (mode == "graph" and case in EAGERLY):
            continue
        with contextlib.nullcontext() if mode == "eager" else tf.Graph().as_default() as graph:
            shared_name = None if impl.ours else unique_name()
            acc = impl.public(tf.float32, [2], shared_name=shared_name, name="named")
            given = GOOD[call] | bad
            given = {key: value() if callable(value) else value for key, value in given.items()}
            gradient = parts_of(impl, given.pop("gradient")) if "gradient" in given else []
            with noting(mode), refused(error, words):
                CALLS[call](acc, *gradient, **given)
            if graph is not None:
                types = [op.type for op in graph.get_operations()]
                assert not [each for each in types if re.search("Apply|Take|SetGlobal", each)]
            elif impl.ours:
                assert (int(acc.num_accumulated()), int(acc.global_step())) == (0, 0)


@pytest.mark.parametrize("case", BUILD)
def test_what_cannot_be_converted_is_refused(impl, case):
    check_building(impl, case, BUILD, ("graph", "eager"))


@pytest.mark.parametrize("case", BUILD_OF_OURS)
def test_ours_refuses_more_than_the_original(ours, case):
    check_building(ours, case, BUILD_OF_OURS, ("graph", "eager"))


@pytest.mark.parametrize("case", STATIC)
def test_what_is_no_scalar_is_refused_when_the_graph_is_made(impl, case):
    check_building(impl, case, STATIC, ("graph",))


@pytest.mark.parametrize("case", STATIC_OF_OURS)
def test_ours_refuses_it_in_its_own_calls_as_well(ours, case):
    check_building(ours, case, STATIC_OF_OURS, ("graph",))


@pytest.mark.kinds("dense")
@pytest.mark.parametrize("eager", [False, True])
def test_a_gradient_of_another_static_shape_or_dtype_is_refused(impl, eager):
    with contextlib.nullcontext() if eager else tf.Graph().as_default():
        acc = impl.dense(tf.float32, [3, 2], shared_name=unique_name())
        for shape in ([2, 2], [3], [], [3, 2, 1]):
            with pytest.raises(ValueError, match=r"Shapes .* are incompatible"):
                acc.apply_grad(tf.ones(shape))
        for dtype in (tf.float64, tf.float16, tf.int32):
            with pytest.raises(ValueError, match=DTYPE + dtype.name):
                acc.apply_grad(tf.ones([3, 2], dtype))


@pytest.mark.kinds("dense")
def test_integers_have_no_weights(ours):
    acc = ours.dense(tf.int32, [2], reduction_type="SUM")
    with pytest.raises(TypeError, match="int32 have no weights"):
        acc.try_apply_grad([1, 2], weight=2)
