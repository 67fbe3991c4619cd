"""Tests of memory and threads that are refused to an op, one request after another.

Each request for memory, a mapping or a thread between the entry to a kernel and its return is
refused once, also those that TensorFlow makes. The op either fails with ResourceExhaustedError, and
everything is as before, so that it succeeds if it is run again, or it does without the memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.accumulators.support.stand_ins import needs_stand_ins, stand_ins
from tests.processes.isolated import isolated
from tests.support.gpus import skip_on_gpu
from tests.support.waiting import Background
from tf_condacc._ops.native import ops

pytestmark = [isolated(stand_ins), needs_stand_ins]

STEP = tf.constant(0, tf.int64)
ONE = tf.constant(1)
NUMBER = tf.constant(1, tf.int64)
WEIGHT = tf.constant(3.0, tf.float64)
NO = tf.constant(False)
YES = tf.constant(True)
# The shape has so many dimensions that TensorFlow's shapes and the core's need memory.
SHAPE = [1, 1, 1, 1, 1, 1, 2, 3]
DENSE = tf.ones(SHAPE)
HALF = tf.ones(SHAPE, tf.float16)
SPARSE = (tf.constant([5, 1, 5], tf.int64), tf.ones([3, 1, 1, 1, 1, 1, 2, 3]))
NO_SHAPE = tf.zeros([0], tf.int64)
FLOAT = tf.float32
# Results of this size are mapped, in pages that a pool keeps, and their folds have a thread.
LARGE_COLUMNS = 1 << 12
LARGE = tf.ones([2112, LARGE_COLUMNS])
# An execution, and a function that returns the state that it changes.
Case = tuple[Callable[[], Any], Callable[[], Any]]


def _state_of(handle: tf.Tensor) -> tuple[int, ...]:
    return (
        int(ops.condacc_accumulator_num_accumulated([handle])),
        int(ops.condacc_accumulator_num_dropped(handle)),
        int(ops.condacc_accumulator_global_step(handle)),
    )


def _dense(count: int = 0, **where: Any) -> tf.Tensor:
    handle = ops.condacc_dense_accumulator(FLOAT, SHAPE, "SUM", **(where or {"anonymous": True}))
    for _ in range(count):
        ops.condacc_dense_apply(handle, STEP, DENSE, [], [])
    return handle


def _half(count: int = 0) -> tf.Tensor:
    """Returns an accumulator that needs further memory, for adding in float32."""
    handle = ops.condacc_dense_accumulator(tf.float16, SHAPE, "MEAN", anonymous=True)
    for _ in range(count):
        ops.condacc_dense_apply(handle, STEP, HALF, [], [])
    return handle


def _named(count: int = 0) -> tf.Tensor:
    """Returns an accumulator whose handle contains its name, emptied and with new gradients."""
    handle = _dense(shared_name="refused")
    ops.condacc_accumulator_reset(handle, STEP)
    for _ in range(count):
        ops.condacc_dense_apply(handle, STEP, DENSE, [], [])
    return handle


def _sparse(count: int = 0) -> tf.Tensor:
    handle = ops.condacc_sparse_accumulator(FLOAT, [9, *SHAPE[1:]], "SUM", anonymous=True)
    for _ in range(count):
        ops.condacc_sparse_apply(handle, STEP, *SPARSE, NO_SHAPE, [], [])
    return handle


def _large(count: int) -> tf.Tensor:
    """Returns a sparse accumulator with gradients of 33 MiB."""
    handle = ops.condacc_sparse_accumulator(FLOAT, [1 << 14, LARGE_COLUMNS], "SUM", anonymous=True)
    for number in range(count):
        _apply_large(handle, number)
    return handle


def _apply_large(handle: tf.Tensor, number: int) -> Any:
    rows = tf.range(number, number + len(LARGE), dtype=tf.int64)
    return ops.condacc_sparse_apply(handle, STEP, rows, LARGE, NO_SHAPE, [], [])


def _tower(op: Any, add: Any = None, *gradient: tf.Tensor) -> tf.Tensor:
    handle = op(FLOAT, [9, *SHAPE[1:]] if len(gradient) > 1 else SHAPE)
    for _ in range(2):
        if add is not None:
            add(handle, *gradient)
    return handle


class Gate:
    """A gate of one worker, which is open."""

    def __init__(self) -> None:
        self.handle = ops.condacc_sync_gate(anonymous=True)
        self.round, _ = ops.condacc_sync_gate_prepare(self.handle, NUMBER, STEP, NO, "c")

    def open(self) -> Gate:
        ops.condacc_sync_gate_open(self.handle, NUMBER, self.round, NO, "c", 1, 2)
        return self

    def enter(self) -> tf.Tensor:
        return ops.condacc_sync_gate_enter(self.handle, self.round, "w", "run of w")

    def claimed(self) -> tf.Tensor:
        step = self.enter()
        ops.condacc_sync_gate_claim(step)
        return step

    def full(self) -> Gate:
        self.open()
        step = self.claimed()
        ops.condacc_sync_gate_add_credits(self.handle, NUMBER, NUMBER, "c")
        ops.condacc_sync_gate_finish(step, [YES])
        return self

    def state(self) -> list[Any]:
        return [value.numpy() for value in ops.condacc_sync_gate_state(self.handle)]


def _on_dense(op: Callable[[tf.Tensor], Any], make: Any = _dense) -> Callable[[], Case]:
    def case() -> Case:
        handle = make()
        return lambda: op(handle), lambda: _state_of(handle)

    return case


def _contributed(handle: tf.Tensor) -> tf.Tensor:
    ops.condacc_dense_apply(handle, STEP, DENSE, [NUMBER], [])
    return handle


def _restore_of_dense() -> Case:
    handle, state = _dense(1), ops.condacc_accumulator_save(_contributed(_dense(2)))
    return lambda: ops.condacc_accumulator_restore(handle, state), lambda: _state_of(handle)


def _restore_of_sparse() -> Case:
    handle, state = _sparse(1), ops.condacc_accumulator_save(_sparse(2))
    return lambda: ops.condacc_accumulator_restore(handle, state), lambda: _state_of(handle)


def _on_gate(make: Callable[[], Gate], op: Callable[[Gate], Any]) -> Callable[[], Case]:
    def case() -> Case:
        gate = make()
        return lambda: op(gate), gate.state

    return case


def _stateless(call: Callable[[], Any]) -> Callable[[], Case]:
    return lambda: (call, lambda: None)


def _on_staleness_gate(op: Callable[[tf.Tensor, tf.Variable], Any]) -> Callable[[], Case]:
    def case() -> Case:
        gate, step = ops.condacc_staleness_gate(anonymous=True), tf.Variable(STEP)

        def state() -> list[int]:
            return [
                int(ops.condacc_staleness_gate_num_accepted(gate, "n")),
                int(ops.condacc_staleness_gate_num_dropped(gate, "n")),
            ]

        return lambda: op(gate, step), state

    return case


def _decide(gate: tf.Tensor, step: tf.Variable) -> Any:
    return ops.condacc_staleness_gate_decide(gate, step.handle, STEP, STEP, tf.int64, "n", "o")


def _end_of_update() -> Case:
    gate, step = ops.condacc_staleness_gate(anonymous=True), tf.Variable(STEP)
    reservation = _decide(gate, step)[2]
    return (
        lambda: ops.condacc_staleness_gate_end(reservation, YES),
        lambda: int(ops.condacc_staleness_gate_num_accepted(gate, "n")),
    )


def _finish() -> Case:
    gate = Gate().open()
    step = gate.claimed()
    ops.condacc_sync_gate_add_credits(gate.handle, NUMBER, NUMBER, "c")
    return lambda: ops.condacc_sync_gate_finish(step, [YES]), gate.state


def _claim() -> Case:
    gate = Gate().open()
    step = gate.enter()
    return lambda: ops.condacc_sync_gate_claim(step), gate.state


def _enter(gate: Gate) -> Any:
    return ops.condacc_sync_gate_enter(gate.handle, gate.round, "a worker", "a run of the worker")


def _report() -> Case:
    gate = Gate().open()
    ops.condacc_sync_gate_dismiss(gate.handle, NUMBER, "c")
    report = ops.condacc_sync_gate_report
    return lambda: report(gate.handle, NUMBER, STEP, 60.0, "c"), gate.state


def _call(name: str, *args: Any) -> Callable[[Gate], Any]:
    op = getattr(ops, "condacc_sync_gate_" + name)
    return lambda gate: op(gate.handle, *args)


CASES: dict[str, Callable[[], Case]] = {
    "accumulator_global_step": _on_dense(ops.condacc_accumulator_global_step),
    "accumulator_num_accumulated": _on_dense(
        lambda handle: ops.condacc_accumulator_num_accumulated([handle])
    ),
    "accumulator_num_dropped": _on_dense(ops.condacc_accumulator_num_dropped),
    "accumulator_require_taken": _stateless(
        lambda: ops.condacc_accumulator_require_taken(YES, DENSE, "a")
    ),
    "accumulator_reset": _on_dense(
        lambda handle: ops.condacc_accumulator_reset(handle, NUMBER), lambda: _dense(2)
    ),
    "accumulator_restore": _restore_of_dense,
    "accumulator_restore of rows": _restore_of_sparse,
    "accumulator_save": _on_dense(ops.condacc_accumulator_save, lambda: _contributed(_dense(2))),
    "accumulator_save of rows": _on_dense(ops.condacc_accumulator_save, lambda: _sparse(2)),
    "accumulator_set_global_step": _on_dense(
        lambda handle: ops.condacc_accumulator_set_global_step(handle, NUMBER - 2)
    ),
    "dense_accumulator": _stateless(_dense),
    "dense_accumulator of a name": _stateless(lambda: _dense(shared_name="refused")),
    "dense_apply": _on_dense(lambda handle: ops.condacc_dense_apply(handle, STEP, DENSE, [], [])),
    "dense_apply by name": _on_dense(
        lambda handle: ops.condacc_dense_apply(handle, STEP, DENSE, [], []), lambda: _named(1)
    ),
    "dense_apply of float16": _on_dense(
        lambda handle: ops.condacc_dense_apply(handle, STEP, HALF, [], []), lambda: _half(1)
    ),
    "dense_apply of a contributor": _on_dense(
        lambda handle: ops.condacc_dense_apply(handle, STEP, DENSE, [NUMBER], [])
    ),
    "dense_apply of a contributor that is early": _on_dense(
        lambda handle: ops.condacc_dense_apply(handle, STEP, DENSE, [NUMBER], [WEIGHT]),
        lambda: _dense(num_contributors=8, anonymous=True),
    ),
    "dense_apply of a weight": _on_dense(
        lambda handle: ops.condacc_dense_apply(handle, STEP, DENSE, [], [WEIGHT])
    ),
    "dense_take": _on_dense(
        lambda handle: ops.condacc_dense_take(handle, ONE, FLOAT), lambda: _dense(2)
    ),
    "dense_take of float16": _on_dense(
        lambda handle: ops.condacc_dense_take(handle, ONE, tf.float16), lambda: _half(2)
    ),
    "dense_try_take": _on_dense(
        lambda handle: ops.condacc_dense_try_take(handle, ONE, [], FLOAT), lambda: _named(2)
    ),
    "dense_try_take of nothing": _on_dense(
        lambda handle: ops.condacc_dense_try_take(handle, ONE, [], FLOAT)
    ),
    "dense_try_take at a step": _on_dense(
        lambda handle: ops.condacc_dense_try_take(handle, ONE, [STEP], FLOAT), lambda: _dense(2)
    ),
    "sparse_accumulator": _stateless(_sparse),
    "sparse_apply": _on_dense(
        lambda handle: ops.condacc_sparse_apply(handle, STEP, *SPARSE, NO_SHAPE, [], []), _sparse
    ),
    "sparse_apply of int32 row numbers": _on_dense(
        lambda handle: ops.condacc_sparse_apply(
            handle, STEP, tf.cast(SPARSE[0], tf.int32), SPARSE[1], NO_SHAPE, [], []
        ),
        _sparse,
    ),
    "sparse_apply of a contributor": _on_dense(
        lambda handle: ops.condacc_sparse_apply(handle, STEP, *SPARSE, NO_SHAPE, [NUMBER], []),
        lambda: _sparse(1),
    ),
    "sparse_apply of a weight": _on_dense(
        lambda handle: ops.condacc_sparse_apply(
            handle, STEP, *SPARSE, NO_SHAPE, [], [tf.constant(2.0, tf.float64)]
        ),
        lambda: _sparse(1),
    ),
    "sparse_take": _on_dense(
        lambda handle: ops.condacc_sparse_take(handle, ONE, FLOAT), lambda: _sparse(2)
    ),
    "sparse_try_take": _on_dense(
        lambda handle: ops.condacc_sparse_try_take(handle, ONE, [], FLOAT), lambda: _sparse(2)
    ),
    "sparse_try_take of nothing": _on_dense(
        lambda handle: ops.condacc_sparse_try_take(handle, ONE, [], FLOAT), _sparse
    ),
    "sparse_apply of a large gradient": _on_dense(
        lambda handle: _apply_large(handle, 4), lambda: _large(4)
    ),
    "sparse_take of a large result": _on_dense(
        lambda handle: ops.condacc_sparse_take(handle, ONE, FLOAT), lambda: _large(3)
    ),
    "sparse_try_take at a step": _on_dense(
        lambda handle: ops.condacc_sparse_try_take(handle, ONE, [STEP], FLOAT), lambda: _sparse(2)
    ),
    "held_bytes": _stateless(lambda: bool(ops.condacc_held_bytes())),
    "import_tf_condacc_first": _stateless(ops.condacc_import_tf_condacc_first),
    "staleness_gate": _stateless(lambda: ops.condacc_staleness_gate(anonymous=True)),
    "staleness_gate_decide": _on_staleness_gate(_decide),
    "staleness_gate_end": _end_of_update,
    "staleness_gate_num_accepted": _on_staleness_gate(
        lambda gate, step: ops.condacc_staleness_gate_num_accepted(gate, "n")
    ),
    "staleness_gate_num_dropped": _on_staleness_gate(
        lambda gate, step: ops.condacc_staleness_gate_num_dropped(gate, "n")
    ),
    "staleness_gate_recent_staleness": _on_staleness_gate(
        lambda gate, step: ops.condacc_staleness_gate_recent_staleness(gate, "n")
    ),
    "gradients_pack": _stateless(lambda: ops.condacc_gradients_pack([DENSE], [SHAPE], ["g"])),
    "gradients_unpack": _stateless(
        lambda: ops.condacc_gradients_unpack(tf.zeros([24], tf.uint8), [FLOAT], [SHAPE])
    ),
    "sync_gate": _stateless(lambda: ops.condacc_sync_gate(anonymous=True)),
    "sync_gate_session": _stateless(ops.condacc_sync_gate_session),
    "sync_gate_prepare": _on_gate(
        lambda: Gate().open(), _call("prepare", NUMBER + 1, STEP, NO, "another chief", "w")
    ),
    "sync_gate_open": _on_gate(Gate, Gate.open),
    "sync_gate_add_credits": _on_gate(
        lambda: Gate().open(), _call("add_credits", NUMBER, NUMBER, "c")
    ),
    "sync_gate_await_full": _on_gate(lambda: Gate().full(), _call("await_full", NUMBER, "c")),
    "sync_gate_advance": _on_gate(
        lambda: Gate().full(),
        lambda gate: ops.condacc_sync_gate_advance(gate.handle, NUMBER, gate.round, "c"),
    ),
    "sync_gate_close": _on_gate(lambda: Gate().open(), _call("close", NUMBER, "c")),
    "sync_gate_dismiss": _on_gate(lambda: Gate().open(), _call("dismiss", NUMBER, "c")),
    "sync_gate_enter": _on_gate(lambda: Gate().open(), _enter),
    "sync_gate_claim": _claim,
    "sync_gate_pushed": _stateless(lambda: ops.condacc_sync_gate_pushed([ONE], ["a"])),
    "sync_gate_finish": _finish,
    "sync_gate_leave": _on_gate(lambda: Gate().full(), _call("leave", "w", "run of w")),
    "sync_gate_lose": _on_gate(
        lambda: Gate().open(), _call("lose", tf.constant("a worker of a long name"))
    ),
    "sync_gate_await_open": _on_gate(
        lambda: Gate().open(), _call("await_open", "a worker of a long name", "its run")
    ),
    "sync_gate_report": _report,
    "sync_gate_state": _on_gate(Gate, _call("state")),
    "tower_dense_sum": _stateless(lambda: _tower(ops.condacc_tower_dense_sum)),
    "tower_dense_add": _on_dense(
        lambda handle: ops.condacc_tower_dense_add(handle, DENSE),
        lambda: _tower(ops.condacc_tower_dense_sum),
    ),
    "tower_dense_take": _on_dense(
        lambda handle: ops.condacc_tower_dense_take(handle, ONE, FLOAT),
        lambda: _tower(ops.condacc_tower_dense_sum, ops.condacc_tower_dense_add, DENSE),
    ),
    "multiply": _stateless(lambda: ops.condacc_multiply([DENSE] * 10, WEIGHT)),
    "tower_dense_sum_at_once": _stateless(
        lambda: ops.condacc_tower_dense_sum_at_once([DENSE] * 10, SHAPE)
    ),
    "tower_sparse_sum": _stateless(lambda: _tower(ops.condacc_tower_sparse_sum)),
    "tower_sparse_add": _on_dense(
        lambda handle: ops.condacc_tower_sparse_add(handle, *SPARSE, NO_SHAPE),
        lambda: ops.condacc_tower_sparse_sum(FLOAT, [9, *SHAPE[1:]]),
    ),
    "tower_sparse_take": _on_dense(
        lambda handle: ops.condacc_tower_sparse_take(handle, ONE, FLOAT),
        lambda: _tower(
            ops.condacc_tower_sparse_sum, ops.condacc_tower_sparse_add, *SPARSE, NO_SHAPE
        ),
    ),
}
# Eager execution has no reference variables. An apply that succeeds before its take fails changes
# the state.
WITHOUT_CASE = {"staleness_gate_decide_ref", "dense_apply_take"}


def _values(result: Any) -> list[Any]:
    tensors = [t for t in tf.nest.flatten(result) if tf.is_tensor(t) and t.dtype != tf.resource]
    return [tensor.numpy().tobytes() for tensor in tensors]


def _run(call: Callable[[], Any], refused: int = 0, count: int = 0) -> tuple[Any, int]:
    """Returns the values of a call, or the type of its error, and its number of requests.

    Refuses ``count`` requests, the first of them with the number ``refused``, counted from 1.
    """
    library = ctypes.CDLL(None)
    library.refuse_requests.argtypes = [ctypes.c_long] * 2
    library.end_counting.restype = ctypes.c_long
    library.refuse_requests(refused, count)
    try:
        result = call()
    except (tf.errors.ResourceExhaustedError, tf.errors.OutOfRangeError) as error:
        return type(error), library.end_counting()
    num_requests = library.end_counting()
    return _values(result), num_requests


def _refuse(case: Callable[[], Case], max_refused: int | None, count: int = 1) -> None:
    skip_on_gpu("TensorFlow's allocator of a GPU ends the process after memory was refused to it")
    call, state = case()
    _run(call)  # The first execution makes the kernel.
    call, state = case()
    expected, num_requests = _run(call)
    after = state()
    stride = 1 if max_refused is None else max(1, num_requests // max_refused)
    for number in range(1, num_requests + 1, stride):
        call, state = case()
        before = state()
        result, _ = _run(call, number, count)
        if result is tf.errors.ResourceExhaustedError:
            assert state() == before, number
            result, _ = _run(call)
        assert result == expected, number
        assert state() == after, number


# Cases that may be the first to use timers, and wrong calls of their ops, which make the kernels.
FIRST_USES: dict[str, Callable[[], Any]] = {
    "dense_take": lambda: ops.condacc_dense_take(_dense(), tf.constant([1, 1]), FLOAT),
    "staleness_gate_end": lambda: ops.condacc_staleness_gate_end(
        ops.condacc_sync_gate(anonymous=True), YES
    ),
}


def _refuse_first(name: str, number: int) -> int:
    """Refuses a request to the first use of a case, and returns the number of requests."""
    os.environ["TF_CONDACC_STALL_WARNING_SECS"] = "0"  # Otherwise, waits use timers before.
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        FIRST_USES[name]()
    call, state = CASES[name]()
    before = state()
    result, num_requests = _run(call, number, 1)
    if result is tf.errors.ResourceExhaustedError:
        assert state() == before
        result, _ = _run(call)
    after = state()
    call, state = CASES[name]()
    assert result == _run(call)[0] and after == state()
    return num_requests


def _status_of_child(function: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        status = 255
        try:
            status = function()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# Must be the first test: this process must not have used the timers, which its children begin with.
@pytest.mark.parametrize("name", FIRST_USES)
def test_a_request_that_is_refused_to_the_first_use_changes_nothing(name):
    skip_on_gpu("a forked process cannot use CUDA if its parent has")
    num_requests = number = 0
    while number <= num_requests:
        status = _status_of_child(lambda number=number: _refuse_first(name, number))
        assert 0 <= status < 255, number
        num_requests = max(num_requests, status)
        number += 1


# A gradient must not be lost for the want of a small output, so each request of these is refused.
HAVE_GRADIENTS = re.compile("(dense|sparse)_(apply|take|try_take)|accumulator_reset")


@pytest.mark.parametrize("name", CASES)
def test_a_refused_request_fails_the_op_and_changes_nothing(name):
    refuses_each = HAVE_GRADIENTS.match(name) and "large" not in name
    _refuse(CASES[name], max_refused=None if refuses_each else 6)


# The second request often asks for what the first was refused.
@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_each_refused_request_fails_the_op_and_changes_nothing(name, count):
    _refuse(CASES[name], max_refused=None, count=count)


# The apply serves the take, in the thread of the apply.
WAITING: dict[str, tuple[Callable[[int], tf.Tensor], Any, Any]] = {
    "dense": (
        _dense,
        lambda handle: ops.condacc_dense_apply(handle, STEP, DENSE, [], []),
        ops.condacc_dense_take,
    ),
    "sparse": (
        _sparse,
        lambda handle: ops.condacc_sparse_apply(handle, STEP, *SPARSE, NO_SHAPE, [], []),
        ops.condacc_sparse_take,
    ),
}


@pytest.mark.parametrize("kind", WAITING)
def test_a_refused_request_of_an_apply_that_serves_a_waiting_take_loses_nothing(kind):
    skip_on_gpu("TensorFlow's allocator of a GPU ends the process after memory was refused to it")
    make, apply, take = WAITING[kind]
    two = tf.constant(2)
    expected = _values(take(make(2), two, FLOAT))
    num_requests = number = 0
    while number <= num_requests:
        handle = make(1)
        waiting = Background(take, handle, two, FLOAT)
        waiting.wait_until_blocked()
        result, count = _run(lambda handle=handle: apply(handle), number, 1)
        num_requests = max(num_requests, count)
        if result is tf.errors.ResourceExhaustedError:
            assert not waiting.done and _state_of(handle) == (1, 0, 0), number
            apply(handle)
        if isinstance(waiting.error(), tf.errors.ResourceExhaustedError):
            assert _state_of(handle) == (2, 0, 0), "a take that failed must leave the gradients"
            taken = take(handle, two, FLOAT)
        else:
            taken = waiting.result()
        assert _values(taken) == expected, number
        assert _state_of(handle) == (0, 0, 1), number
        number += 1


def test_every_op_has_a_case():
    # The module has a second function of each op, for the eager execution of its slow path.
    names = {name for name in dir(ops) if name.startswith("condacc_") and "fallback" not in name}
    cases = {"condacc_" + name.split()[0] for name in CASES}
    assert names == cases | {"condacc_" + name for name in WITHOUT_CASE}
