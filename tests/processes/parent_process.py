"""Processes that do not outlive the one that has forked them."""

from __future__ import annotations

import ctypes
import os
import signal


def end_with_parent(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends.

    Args:
        parent: Identifier of the parent. If it has ended already, this process ends, too.
    """
    kill_when_parent_dies = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(kill_when_parent_dies, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
