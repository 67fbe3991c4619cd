"""Random programs of operations on an accumulator, compared with a model of the accumulator."""

from __future__ import annotations

import abc
import random
from collections.abc import Callable
from typing import Any

import numpy as np


class RandomProgram(abc.ABC):
    """Runs random operations on a driver and on a model, and compares their results.

    A model has `step`, `count` and `dropped`, and `apply(gradient, local_step)`. The derived class
    adds everything that depends on the kind of the accumulator, and makes the gradients.
    """

    max_count: int | None = None  # All gradients are taken once there are this many.

    def __init__(self, rng: random.Random, acc: Any, model: Any):
        self.rng, self.acc, self.model, self.ours = rng, acc, model, acc.impl.ours
        self.np_rng = np.random.default_rng(rng.randrange(2**32))
        self.moves: list[Callable[[], None]] = [self.apply] * 6 + [self.take] * 2 + [self.set_step]
        if self.ours:
            self.moves += [self.try_apply] * 3 + [self.try_take] * 2

    @abc.abstractmethod
    def gradient(self) -> Any:
        """Returns a random gradient."""

    @abc.abstractmethod
    def check_taken(self, value: Any) -> None:
        """Compares the taken value with that of the model, and begins the next round."""

    def local_step(self) -> int:
        return self.model.step + self.rng.choice([-3, -1, -1, 0, 0, 0, 0, 0, 1, 10])

    def apply(self) -> None:
        gradient, step = self.gradient(), self.local_step()
        self.acc.apply(gradient, step)
        self.model.apply(gradient, step)

    def try_apply(self) -> None:
        gradient, step = self.gradient(), self.local_step()
        assert self.acc.try_apply(gradient, step) == self.model.apply(gradient, step)

    def take(self) -> None:
        if self.model.count:
            self.check_taken(self.acc.take(self.rng.randint(1, self.model.count)))

    def try_take(self) -> None:
        required = self.rng.randint(1, 5)
        taken, value = self.acc.try_take(required)
        assert taken == (self.model.count >= required)
        if taken:
            self.check_taken(value)

    def set_step(self) -> None:
        self.model.step += self.rng.choice([-2, -1, 0, 1, 5])
        self.acc.set_step(self.model.step)

    def run(self, operations: int) -> None:
        for _ in range(operations):
            if self.model.count == self.max_count:
                self.take()
            self.rng.choice(self.moves)()
            assert self.acc.count() == self.model.count
            if self.ours:
                assert self.acc.dropped() == self.model.dropped
                assert self.acc.step() == self.model.step
        self.take()
