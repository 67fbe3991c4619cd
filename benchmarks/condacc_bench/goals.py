"""How many times faster than TensorFlow's own this project wants to be."""

from __future__ import annotations

from dataclasses import dataclass

KI, MI = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Goal:
    """A ratio to reach at least, and one to aim for where there is one."""

    at_least: float
    aim: float | None = None

    def verdict(self, ratio: float) -> str:
        """``aim``, ``reached`` or ``missed``."""
        if self.aim is not None and ratio >= self.aim:
            return "aim"
        return "reached" if ratio >= self.at_least else "missed"

    def __str__(self) -> str:
        return f"{self.at_least:g}x" + (f" / {self.aim:g}x" if self.aim is not None else "")


_LIMIT = Goal(0.8)
_BFLOAT16 = Goal(1.0)

_OWNED_DRAM = {4: Goal(2.0, 2.3), 8: Goal(1.9, 2.2), 32: Goal(1.7, 2.0)}
_LATENCY = {MI: Goal(1.4, 1.8), 16 * MI: Goal(1.4, 1.6)}
_THROUGHPUT = {(MI, "shared"): Goal(1.5, 1.8), (16 * MI, "mul"): Goal(1.3, 1.45)}


def cycle(size: int, count: int, producer: str) -> Goal | None:
    """Of a float32 cycle.

    Below 64K elements it is overhead, which D2 is about. Where a gradient is computed in the timed
    step (``mul``), its goal needs sums that outweigh the computation: many, and larger than caches.
    """
    if size < 64 * KI or (producer == "mul" and (count == 1 or size < 16 * MI)):
        return None
    if producer == "shared":
        return Goal(1.4) if count == 1 else Goal(1.0)
    if count == 1:
        return Goal(20, 50) if size >= MI else None
    return _OWNED_DRAM.get(count) if size >= 16 * MI else Goal(1.5, 2.5)


def per_op(size: int) -> Goal | None:
    """Of an apply or a take among many small ones."""
    return Goal(0.95, 1.2) if size == 4 * KI else None


def last_apply_to_take(size: int) -> Goal | None:
    """Of how soon a waiting taker returns."""
    return _LATENCY.get(size)


def applies_per_second(size: int, producer: str) -> Goal | None:
    """Of threads that apply to one accumulator."""
    return _THROUGHPUT.get((size, producer))


def other_dtype(size: int, count: int) -> Goal | None:
    """Of a float16 or float64 cycle."""
    return Goal(1.8, 2.2) if (size, count) == (16 * MI, 8) else None


def bfloat16_against_float16(size: int, count: int) -> Goal | None:
    """Of a bfloat16 cycle, which TensorFlow's own does not have, against our float16 one."""
    return _BFLOAT16 if (size, count) == (16 * MI, 8) else None


def cycle_against_limit(size: int, producer: str) -> Goal | None:
    """Of what the machine can do at all: one pass over all gradients that are summed."""
    return _LIMIT if size >= 16 * MI and producer != "shared" else None
