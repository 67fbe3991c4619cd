"""Programs that Hypothesis makes: how many, and how a machine of them is run.

A state machine makes programs of calls, and compares each result with that of a model. If one
differs, Hypothesis looks for a shorter program that fails, too, and prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

# Programs of a short test are the same in each run, so that it does not fail by chance.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]


def programs_settings(number: int, is_long: bool, calls: int = 30) -> settings:
    """Returns the settings for so many programs, or so many examples of other kinds.

    Args:
        number: Number of programs.
        is_long: Whether each run makes others. If not, each makes the same.
        calls: Largest number of calls of a program.
    """
    return settings(
        max_examples=number,
        stateful_step_count=calls,
        derandomize=not is_long,
        database=None,
        deadline=None,
        phases=_PHASES,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def first_failure() -> settings:
    """Returns settings that end with the first program that fails, and look for no shorter one."""
    return settings(programs_settings(500, is_long=False), phases=[Phase.generate])


def run_programs(machine: Callable[[], RuleBasedStateMachine], how: settings) -> None:
    """Runs programs of a state machine."""
    run_state_machine_as_test(machine, settings=how)


def as_arrays(value: Any) -> Any:
    """Returns tensors, and structures of them, as NumPy arrays."""
    import tensorflow as tf

    def as_array(one: Any) -> Any:
        if isinstance(one, tf.IndexedSlices):
            return SimpleNamespace(values=one.values.numpy(), indices=one.indices.numpy())
        return one.numpy() if tf.is_tensor(one) else one

    return tf.nest.map_structure(as_array, value)
