"""Runs named trials in a process of their own, so that a crash is reported like a failure.

A module of trials has `TRIALS`, functions that take an implementation and assert. This file, run as
a script with an implementation and trials such as `bad_dtype_trials:apply_of_another_dtype`, prints
a JSON line before and after each trial. `outcomes` and `Results` start it. If the process dies,
they start another one for the remaining trials.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import pytest

from tests.support.forked_python import forked_python

TIMEOUT_SECS = 180  # It ends a process that hangs, even if the machine is busy with other work.


@dataclasses.dataclass
class Outcome:
    """The outcome of one trial: whether it passed, the reason if not, and the process's stderr."""

    passed: bool
    detail: str
    log: str = ""


class Trials(dict[str, Callable[[Any], None]]):
    """The trials of a file by their names. Decorators add the functions."""

    def add(self, trial: Callable[[Any], None]) -> Callable[[Any], None]:
        self[trial.__name__] = trial
        return trial

    def add_each(self, **choices: Iterable[Any]) -> Callable[[Any], Any]:
        """Adds a function once for each combination of arguments, which its name contains."""

        def add(trial: Callable[..., None]) -> Callable[..., None]:
            for values in itertools.product(*choices.values()):
                labels = [str(getattr(value, "name", value)) for value in values]
                arguments = dict(zip(choices, values, strict=True))
                self["-".join([trial.__name__, *labels])] = functools.partial(trial, **arguments)
            return trial

        return add


def run_trials(impl_name: str, trials: Iterable[str]) -> None:
    """Runs trials in this process, and prints their outcomes."""
    from tests.support.implementations import load_implementation

    impl = load_implementation(impl_name)
    for trial in trials:
        module, _, name = trial.partition(":")
        print(json.dumps({"begin": trial}), flush=True)
        try:
            importlib.import_module(module).TRIALS[name](impl)
            detail = ""
        except BaseException:
            detail = traceback.format_exc()
        print(json.dumps({"end": trial, "detail": detail}), flush=True)


def _start(impl_name: str, trials: list[str], env: dict[str, str], timeout: float) -> Any:
    """Runs the script; returns its output, its log and how it failed ("" if it did not)."""
    process = subprocess.Popen(
        [*forked_python(env), __file__, impl_name, *trials],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | env,
    )
    try:
        out, log = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, log = process.communicate()
        return out, log, f"hung for {timeout} s"
    return out, log, "" if process.returncode == 0 else f"exit status {process.returncode}"


def _outcomes(
    impl: Any, trials: Iterable[str], env: dict[str, str], timeout: float
) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    left = list(trials)
    while left:
        out, log, ending = _start(impl.name, left, env, timeout)
        begun = None
        for line in out.splitlines():
            if not line.startswith('{"'):
                continue
            entry = json.loads(line)
            if "begin" in entry:
                begun = entry["begin"]
            else:
                found[entry["end"]] = Outcome(not entry["detail"], entry["detail"], log)
        if ending and begun not in found:
            name = begun or left[0]
            found[name] = Outcome(False, f"{ending}\n{log[-4000:]}", log)
        elif ending:
            found["exit"] = Outcome(False, f"{ending}\n{log[-4000:]}", log)
        left = [name for name in left if name not in found]
    found.setdefault("exit", Outcome(True, ""))
    return found


def outcomes(
    module: ModuleType, impl: Any, names: Iterable[str], env: dict[str, str] | None = None
) -> dict[str, Outcome]:
    """Runs the named trials of a module; "exit" is the outcome of leaving the process."""
    prefix = f"{module.__name__}:"
    found = _outcomes(impl, [prefix + name for name in names], env or {}, TIMEOUT_SECS)
    return {name.removeprefix(prefix): outcome for name, outcome in found.items()}


def log_of(module: ModuleType, impl: Any, trial: str, env: dict[str, str]) -> str:
    """Runs one trial, which must pass; returns the log of its process."""
    found = outcomes(module, impl, [trial], env)
    for outcome in found.values():
        assert outcome.passed, outcome.detail
    return found[trial].log


class Results:
    """Outcomes of an implementation's trials; each module of trials is run once.

    Args:
        impl: The implementation.
        env: Further environment variables of the processes.
        together: Modules of trials that share a process, which saves the time of its start.
    """

    def __init__(
        self,
        impl: Any,
        env: dict[str, str] | None = None,
        together: Sequence[ModuleType] = (),
    ) -> None:
        self._impl, self._env, self._together = impl, env or {}, together
        self._found: dict[ModuleType, dict[str, Outcome]] = {}

    def check(self, module: ModuleType, trial: str) -> None:
        """Fails unless the trial passed."""
        if module not in self._found:
            modules = self._together if module in self._together else [module]
            trials = [f"{each.__name__}:{name}" for each in modules for name in each.TRIALS]
            found = _outcomes(self._impl, trials, self._env, TIMEOUT_SECS * len(modules))
            self._found.update(dict.fromkeys(modules, found))
        name = trial if trial == "exit" else f"{module.__name__}:{trial}"
        outcome = self._found[module][name]
        assert outcome.passed, outcome.detail


def each_trial(module: ModuleType, names: Iterable[Any] | None = None) -> Callable[[Any], Any]:
    """Runs a test on the outcome of each trial of a module, and of leaving its process.

    The first of these tests runs all the trials, for which the time limit is raised.
    """
    names = module.TRIALS if names is None else names

    def mark(test: Any) -> Any:
        return pytest.mark.timeout(600)(pytest.mark.parametrize("trial", [*names, "exit"])(test))

    return mark


if __name__ == "__main__":
    run_trials(sys.argv[1], sys.argv[2:])
