"""Runs named trials in a process of their own, so that a crash is reported like a failure.

A file of trials has `TRIALS`, functions that take an implementation and assert. Run as a script, it
runs the trials named on its command line, and prints a JSON line before and after each. `outcomes`
starts such a script. If the process dies, it starts another one for the remaining trials.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest

TIMEOUT_SECS = 90


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

    def run(self) -> None:
        """Runs as the main function of the file: `python FILE IMPLEMENTATION TRIAL...`."""
        from implementations import load_implementation

        impl = load_implementation(sys.argv[1])
        for name in sys.argv[2:]:
            print(json.dumps({"begin": name}), flush=True)
            try:
                self[name](impl)
                detail = ""
            except BaseException:
                detail = traceback.format_exc()
            print(json.dumps({"end": name, "detail": detail}), flush=True)


def _start(script: str, impl_name: str, names: list[str], env: dict[str, str]) -> Any:
    """Runs the script; returns its output, its log and how it failed ("" if it did not)."""
    process = subprocess.Popen(
        [sys.executable, script, impl_name, *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | env,
    )
    try:
        out, log = process.communicate(timeout=TIMEOUT_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, log = process.communicate()
        return out, log, f"hung for {TIMEOUT_SECS} s"
    return out, log, "" if process.returncode == 0 else f"exit status {process.returncode}"


def outcomes(
    module: ModuleType, impl: Any, names: Iterable[str], env: dict[str, str] | None = None
) -> dict[str, Outcome]:
    """Runs the named trials of a module; "exit" is the outcome of leaving the process."""
    found: dict[str, Outcome] = {}
    left = list(names)
    while left:
        out, log, ending = _start(str(module.__file__), impl.name, left, env or {})
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


def log_of(module: ModuleType, impl: Any, trial: str, env: dict[str, str]) -> str:
    """Runs one trial, which must pass; returns the log of its process."""
    found = outcomes(module, impl, [trial], env)
    for outcome in found.values():
        assert outcome.passed, outcome.detail
    return found[trial].log


class Results:
    """Outcomes of an implementation's trials; each module of trials is run once."""

    def __init__(self, impl: Any, env: dict[str, str] | None = None) -> None:
        self._impl, self._env = impl, env
        self._found: dict[ModuleType, dict[str, Outcome]] = {}

    def check(self, module: ModuleType, trial: str) -> None:
        """Fails unless the trial passed."""
        if module not in self._found:
            self._found[module] = outcomes(module, self._impl, module.TRIALS, self._env)
        outcome = self._found[module][trial]
        assert outcome.passed, outcome.detail


def each_trial(module: ModuleType, names: Iterable[Any] | None = None) -> Callable[[Any], Any]:
    """Runs a test on the outcome of each trial of a module, and of leaving its process.

    The first of these tests runs all the trials, for which the time limit is raised.
    """
    names = module.TRIALS if names is None else names

    def mark(test: Any) -> Any:
        return pytest.mark.timeout(600)(pytest.mark.parametrize("trial", [*names, "exit"])(test))

    return mark
