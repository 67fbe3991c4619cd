"""`condacc launch` with other times, as a program: `python -m tests.processes.launcher TIMES ...`.

TIMES is JSON: fields of `condacc._times.Times`. If the folder has a file `clock`, the launcher's
clock stands still at the seconds in it. If it has a file `answer`, the servers of all tasks answer
their first request, and then as the file says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from condacc import _times, liveness
from condacc.__main__ import main
from condacc.launch._launcher import Launcher
from condacc.liveness import Answer


def _follow(clock: Path) -> None:
    Launcher._now = lambda self: float(clock.read_text())  # type: ignore[method-assign]


def _answer_as(answer: Path) -> None:
    asked: set[str] = set()

    def probe(address: str, timeout_secs: float) -> Answer:
        is_first = address not in asked
        asked.add(address)
        return Answer.ANSWERED if is_first else Answer(answer.read_text())

    liveness.probe = probe


if __name__ == "__main__":
    _times.current = _times.Times(**json.loads(sys.argv[1]))
    for name, use in (("clock", _follow), ("answer", _answer_as)):
        if Path(name).exists():
            use(Path(name).absolute())
    sys.argv[1:] = ["launch", *sys.argv[2:]]
    sys.exit(main())
