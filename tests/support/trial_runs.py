"""Runs named trials in a process of their own, so that a crash is an outcome and not an end.

A file of trials has a dict `TRIALS` of functions that take an implementation and assert; run as
a script it runs those named on its command line and prints one JSON line before and one after
each. `outcomes` starts such a script, and starts it again for what is left when it dies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_TRIALS = Path(__file__).resolve().parents[1] / "trials"
TIMEOUT_SECS = 90


@dataclasses.dataclass
class Outcome:
    """What became of one trial: whether it passed, why not, and the process's stderr."""

    passed: bool
    detail: str
    log: str = ""


def run_trials(trials: dict[str, Callable[[Any], None]]) -> None:
    """The main function of a file of trials: `python FILE IMPLEMENTATION TRIAL...`."""
    from implementations import load_implementation

    impl = load_implementation(sys.argv[1])
    for name in sys.argv[2:]:
        print(json.dumps({"begin": name}), flush=True)
        try:
            trials[name](impl)
            detail = ""
        except BaseException:
            detail = traceback.format_exc()
        print(json.dumps({"end": name, "detail": detail}), flush=True)


def _start(script: str, impl_name: str, names: list[str], env: dict[str, str]) -> Any:
    """Runs the script; returns its output, its log and how it ended ("" if well)."""
    process = subprocess.Popen(
        [sys.executable, str(_TRIALS / script), impl_name, *names],
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
    script: str, impl_name: str, names: list[str], env: dict[str, str] | None = None
) -> dict[str, Outcome]:
    """Runs the named trials of a script; "exit" is the outcome of leaving the process."""
    found: dict[str, Outcome] = {}
    left = list(names)
    while left:
        out, log, ending = _start(script, impl_name, left, env or {})
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


class Results:
    """Outcomes of an implementation's trials; each module of trials is run once."""

    def __init__(self, impl: Any, env: dict[str, str] | None = None) -> None:
        self._impl_name, self._env = impl.name, env
        self._found: dict[Any, dict[str, Outcome]] = {}

    def check(self, module: Any, trial: str) -> None:
        """Fails unless the trial passed."""
        if module not in self._found:
            script = Path(module.__file__).name
            self._found[module] = outcomes(script, self._impl_name, list(module.TRIALS), self._env)
        outcome = self._found[module][trial]
        assert outcome.passed, outcome.detail


@contextlib.contextmanager
def refused(kinds: Any, *patterns: str) -> Iterator[None]:
    """Expects an error of one of `kinds` in whose text every pattern is found."""
    try:
        yield
    except kinds as error:
        for pattern in patterns:
            assert re.search(pattern, str(error)), f"{pattern!r} is not in: {error}"
        return
    raise AssertionError(f"not refused (expected {kinds})")
