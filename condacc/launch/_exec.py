"""Program that becomes a task: ``python _exec.py LAUNCHER COMMAND...``.

LAUNCHER is the identifier of the launcher's process. The kernel kills the task when that process
ends, however it ends. The request for this, which only the task itself can make, survives exec. A
function that subprocess calls between fork and exec could make it as well, but might hang there,
because the launcher has threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _become(launcher: int, command: "list[str]") -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:  # The launcher ended before the request.
        os._exit(128 + signal.SIGKILL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; a command must not.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)
        os._exit(126 if isinstance(error, PermissionError) else 127)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _become(int(sys.argv[1]), sys.argv[2:])
