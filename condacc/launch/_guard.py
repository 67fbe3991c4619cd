"""Program that outlives the launcher and kills what it has left: ``python _guard.py``.

The kernel kills the tasks of a launcher that was killed, but not the processes that the tasks have
started, such as the training program if the command is a shell script. The launcher writes lines to
this program: "+" and the identifier of a process group that it has started, "-" and the identifier
of one that has ended. When the lines end, the groups that are left are killed.
"""

import contextlib
import os
import signal
import sys


def _kill_what_is_left() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # The guard must outlive the launcher.
    groups = set()
    for line in sys.stdin:
        if line[0] == "+":
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    _kill_what_is_left()
