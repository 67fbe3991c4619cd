"""Execution of takes that wait in eager mode, such that an interrupt cancels them.

An interrupt is an exception that the handler of a signal raises, such as Ctrl-C or an alarm. Python
raises it between two instructions of the main thread. A take that went on after its caller was
interrupted would take gradients for nobody, so it is cancelled, and the interrupt is raised when it
has ended. What it has taken in the same moment is lost.
"""

from __future__ import annotations

import _thread
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_condacc import _tensorflow

_POLL_SECONDS = 0.1  # Ctrl-C is noticed within this time.


def execute_interruptibly(
    op_name: str, num_outputs: int, inputs: Sequence[tf.Tensor], attrs: Sequence[Any]
) -> list[tf.Tensor]:
    """Executes an operation that may wait for a long time, in a separate thread.

    Python handles Ctrl-C only in the main thread, and not while that thread executes an operation.
    Here the calling thread sleeps instead. If it is interrupted, it cancels the operation and waits
    until the operation has ended.

    Arguments, result and errors are those of `tf_condacc._tensorflow.execute`.
    """
    run, cancel = _tensorflow.cancellable(op_name, num_outputs, inputs, attrs)
    outcome: list[Any] = []  # The operation's outputs or its error, once it has ended.
    ended = _thread.allocate_lock()
    ended.acquire()

    def execute_in_thread() -> None:
        try:
            outcome.append(run())
        except BaseException as error:  # Raised by the calling thread below.
            outcome.append(error)
        ended.release()

    threads: list[int] = []
    interrupt: BaseException | None = None
    while True:
        try:
            if interrupt is None:
                # One call of native code starts the thread and notes it in the list. So the list
                # tells whether the thread was started, even if the call is interrupted.
                threads.extend(map(_thread.start_new_thread, [execute_in_thread], [()]))
            elif threads:
                cancel()
            while threads and not outcome:
                ended.acquire(timeout=_POLL_SECONDS)
            break
        except BaseException as error:  # Usually a KeyboardInterrupt.
            interrupt = error
    if interrupt is not None:
        raise interrupt
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
