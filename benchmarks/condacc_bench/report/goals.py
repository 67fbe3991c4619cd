"""The goals: ratios to TensorFlow's own accumulators that this project wants to reach."""

from __future__ import annotations

from dataclasses import dataclass

KI, MI = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Goal:
    """The ratio to reach, and a higher ratio to aim for if there is one."""

    at_least: float
    aim: float | None = None

    def verdict(self, ratio: float) -> str:
        """Returns ``aim``, ``reached`` or ``missed``."""
        if self.aim is not None and ratio >= self.aim:
            return "aim"
        return "reached" if ratio >= self.at_least else "missed"

    def __str__(self) -> str:
        return f"{self.at_least:g}x" + (f" / {self.aim:g}x" if self.aim is not None else "")


@dataclass(frozen=True)
class Limit:
    """An upper bound of our own figure, independent of TensorFlow's, and a lower one to aim for."""

    at_most: float
    aim: float

    def verdict(self, value: float) -> str:
        """Returns ``aim``, ``reached`` or ``missed``."""
        if value <= self.aim:
            return "aim"
        return "reached" if value <= self.at_most else "missed"

    def __str__(self) -> str:
        if self.at_most < 1e-3:
            return f"<={self.at_most * 1e6:.1f} / {self.aim * 1e6:.1f} us"
        return f"<={self.at_most:.3g} / {self.aim:.3g}"


_LIMIT = Goal(0.8)
_BFLOAT16 = Goal(1.0)

_OWNED_DRAM = {4: Goal(2.0, 2.3), 8: Goal(1.9, 2.2), 32: Goal(1.7, 2.0)}
_LATENCY = {MI: Goal(1.4, 1.8), 16 * MI: Goal(1.4, 1.6)}
_THROUGHPUT = {(MI, "shared"): Goal(1.5, 1.8), (16 * MI, "mul"): Goal(1.3, 1.45)}


def cycle(size: int, count: int, producer: str) -> Goal | None:
    """Returns the goal of a float32 cycle.

    Cycles below 64K elements consist of overhead, for which scenario D2 has goals. If gradients are
    computed in the timed step (``mul``), the goal is that of the threads of scenario D3, whose time
    includes the computation as well.
    """
    if size < 64 * KI:
        return None
    if producer == "mul":
        return applies_per_second(size, producer) if count > 1 else None
    if producer == "shared":
        return Goal(1.4) if count == 1 else Goal(1.0)
    if count == 1:
        return Goal(20, 50) if size >= MI else None
    return _OWNED_DRAM.get(count) if size >= 16 * MI else Goal(1.5, 2.5)


def per_op(size: int) -> Goal | None:
    """Returns the goal of an apply or a take among many small ones."""
    return Goal(0.95, 1.2) if size == 4 * KI else None


def last_apply_to_take(size: int) -> Goal | None:
    """Returns the goal of the time from the last apply to the return of a waiting take."""
    return _LATENCY.get(size)


def applies_per_second(size: int, producer: str) -> Goal | None:
    """Returns the goal of threads that apply to one accumulator."""
    return _THROUGHPUT.get((size, producer))


def other_dtype(size: int, count: int) -> Goal | None:
    """Returns the goal of a float16 or float64 cycle."""
    return Goal(1.8, 2.2) if (size, count) == (16 * MI, 8) else None


def bfloat16_against_float16(size: int, count: int) -> Goal | None:
    """Returns the goal of a bfloat16 cycle, relative to our float16 cycle."""
    return _BFLOAT16 if (size, count) == (16 * MI, 8) else None


def cycle_against_limit(size: int, producer: str) -> Goal | None:
    """Returns the goal of a cycle, relative to one native pass over the summed gradients."""
    return _LIMIT if size >= 16 * MI and producer == "staged" else None


def net_cycle_against_limit(size: int, producer: str) -> Goal | None:
    """Returns the goal of a cycle less the time of its operations themselves."""
    return _LIMIT if size == 64 * KI and producer == "staged" else None


TOWER_SUM = Goal(1.0)


def eager_call(method: str, operation: float) -> Limit | None:
    """Returns the limit of a method in eager mode whose operation takes so many seconds.

    There is none for takes, which read the number of accumulated gradients first, nor for tracing.
    """
    if method in ("take_grad", "tracing"):
        return None
    return Limit(at_most=operation + 10e-6, aim=operation + 5e-6)


_LARGE_HIDDEN = 2048


def synchronous_step(hidden: int) -> Goal | None:
    """Returns the goal of a step of workers in one process with gradients of `hidden` columns."""
    if hidden < 64:
        return None
    return Goal(1.08, 1.15) if hidden >= _LARGE_HIDDEN else Goal(0.95)


def cluster_steps(num_ps: int, num_steps: int) -> Goal | None:
    """Returns the goal of steps per second of a cluster, from rounds of `num_steps`."""
    if num_steps < 10:
        return None
    return Goal(1.0) if num_ps == 1 else Goal(0.97)


# The goal for micro-batches per second: no fewer than with any other way to accumulate them.
MICRO_BATCHES = Goal(1.0)
# A cycle may take 35 % longer if its gradients are checked to be finite.
FINITE_CHECK = Goal(1 / 1.35)


# Adding in the order of contributors may cost so much if gradients arrive in that order, and if
# they arrive at random.
IN_ORDER = Goal(0.95)
AT_RANDOM = Goal(0.8)

# The cost of a contributor's gradient does not grow with the number of contributors.
CONTRIBUTORS = Goal(0.8)
# While another thread saves one time after another, a call that only needs the lock hardly takes
# longer. An apply shares the memory's bandwidth with the saves, and sometimes waits for one.
DURING_SAVES = {"count": Goal(0.5), "apply": Goal(0.15)}


def own_loop(place: str, other: str) -> Goal:
    """Returns the goal of weighted micro-batches in a loop of the program's own.

    Beside those without weights, and beside variables to which the products are added.
    """
    if other == "unweighted":
        return Goal(1 / 1.2)
    return Goal(0.8 if place == "eager" else 1.0)


def micro_batches_peak(lowest: float) -> Limit:
    """Returns the limit of peak memory, in MiB, if that of the best other way is `lowest`."""
    return Limit(at_most=1.05 * lowest, aim=lowest)


_UNIFORM = {1: Goal(3, 10), 8: Goal(4, 8), 32: Goal(7, 12), 128: Goal(20, 40)}
_UNIFORM_LARGE = {1: Goal(3, 10), 8: Goal(2.5, 4), 32: Goal(4, 6), 128: Goal(7, 10)}
_LARGE_ROWS = 100_000


def sparse_cycle(rows: int, columns: int, count: int) -> Goal | None:
    """Returns the goal of a sparse cycle whose rows are sorted, unique and drawn evenly."""
    if columns != 64:
        return None
    return (_UNIFORM if rows < _LARGE_ROWS else _UNIFORM_LARGE).get(count)


# How many times as long as the byte bound a sparse cycle may take, by the rows and columns of a
# gradient: every gradient is read once, and the result is written once.
_TIMES_BOUND = {
    (1_000, 64): {128: 2.3},
    (10_000, 64): {8: 1.6, 32: 1.8, 128: 3.5},
    (10_000, 256): {8: 1.6, 32: 1.4, 128: 2.8},
    (100_000, 64): {8: 1.6, 32: 3.0, 128: 3.5},
    (100_000, 256): {8: 1.4, 32: 2.8},
}


def sparse_cycle_against_limit(rows: int, columns: int, count: int) -> Goal | None:
    """Returns the goal of a sparse cycle, relative to reading and writing its bytes once."""
    times = _TIMES_BOUND.get((rows, columns), {}).get(count)
    return None if times is None else Goal(1 / times)


# The seconds that no apply may exceed among many that cause folds.
SLOWEST_APPLY = Limit(at_most=10e-3, aim=2e-3)


def power_law_cycle(columns: int, count: int, raw: bool) -> Goal | None:
    """Returns the goal of a sparse cycle whose rows are drawn by a power law.

    If they are ``raw``, they must be made unique and sorted for TensorFlow's own accumulator.
    """
    if columns != 64:
        return None
    if raw:
        return Goal(5, 8) if count >= 8 else None
    return Goal(3, 5) if count == 8 else None


# The last of many applies may take this many times as long as the second one.
GROWTH = Limit(at_most=2, aim=1.3)


def dense_peak(size: int, reference: float) -> Limit | None:
    """Returns the limit of peak memory, in gradients, if TensorFlow's own takes ``reference``.

    The bound is tight for gradients only; it leaves room for other memory.
    """
    return Limit(at_most=reference + 2, aim=reference) if size >= 16 * MI else None


def sparse_peak(rows: int, gradient: float) -> Limit | None:
    """Returns the limit of peak memory, in unions of all rows, as is the size ``gradient``."""
    return Limit(at_most=2.5 + gradient, aim=2) if rows >= _LARGE_ROWS else None
