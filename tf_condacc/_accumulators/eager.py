"""Execution of takes in eager mode, such that an interrupt loses no gradients.

An interrupt is an exception that the handler of a signal raises, such as Ctrl-C or an alarm. Python
raises it between any two instructions of the main thread. A take that goes on after its caller was
interrupted would take gradients for nobody, and so would one that ends in the same moment. So an
interrupt is raised at once only if the operation has not taken anything, and otherwise only after
its outputs have been returned.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from tf_condacc import _tensorflow

_POLL_SECONDS = 0.1  # Ctrl-C is noticed within this time.
_RETURN_SECONDS = 0.0005  # How often a thread looks whether a call has returned.
_Result = TypeVar("_Result")
# The interrupts that came when gradients had already been taken, by the id of their thread.
_held_back: dict[int, BaseException] = {}


def execute(
    op_name: str,
    num_outputs: int,
    inputs: Sequence[tf.Tensor],
    attrs: Sequence[Any],
    pack: Callable[[Sequence[tf.Tensor]], _Result],
) -> _Result:
    """Executes an operation that does not wait.

    Args:
        op_name: Registered name of the operation.
        num_outputs: Number of the operation's outputs.
        inputs: The operation's inputs, eager tensors.
        attrs: The operation's attributes as one flat sequence: name, value, name, value, ….
        pack: Makes the result of the call from the operation's outputs. It may be called twice.

    Returns:
        The result of `pack`. Callers return it without calling another function, because an
        interrupt may come after each call.

    Raises:
        Exception: The error of the operation, if it fails.
    """
    _raise_held_back()
    outcome: list[Sequence[tf.Tensor]] = []
    interrupt: BaseException | None = None
    while True:
        try:
            if not outcome:
                if interrupt is not None:
                    break
                _tensorflow.execute_into(outcome, op_name, num_outputs, inputs, attrs)
            return _handed_over(pack(outcome[0]), interrupt)
        except BaseException as error:
            interrupt = error
    raise interrupt


def execute_interruptibly(
    op_name: str,
    num_outputs: int,
    inputs: Sequence[tf.Tensor],
    attrs: Sequence[Any],
    pack: Callable[[Sequence[tf.Tensor]], _Result],
) -> _Result:
    """Executes an operation that may wait for a long time, in a separate thread.

    Python handles Ctrl-C only in the main thread, and not while that thread executes an operation.
    Here the calling thread sleeps instead. If it is interrupted, it cancels the operation and waits
    until the operation has ended. It then raises the interrupt, or returns the outputs of an
    operation that has nevertheless succeeded.

    The arguments, the result and the errors are those of `execute`.
    """
    _raise_held_back()
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
            elif not threads:
                break
            else:
                cancel()
            while not outcome:
                ended.acquire(timeout=_POLL_SECONDS)
            if isinstance(outcome[0], BaseException):
                break
            return _handed_over(pack(outcome[0]), interrupt)
        except BaseException as error:  # Usually a KeyboardInterrupt.
            interrupt = error
    raise interrupt or outcome[0]


def _handed_over(result: _Result, interrupt: BaseException | None) -> _Result:
    """Returns a result, and holds an interrupt back until the caller of the package has it."""
    if interrupt is not None:
        thread = _thread.get_ident()
        _held_back[thread] = interrupt
        threading.Thread(target=_raise_after_return, args=[thread], daemon=True).start()
    return result


def _raise_held_back() -> None:
    """Raises the interrupt that was held back in this thread, if there is one."""
    interrupt = _held_back.pop(_thread.get_ident(), None) if _held_back else None
    if interrupt is not None:
        raise interrupt


def _raise_after_return(thread: int) -> None:
    """Raises the interrupt of another thread when that executes code of the program.

    If the thread begins another take first, that raises the interrupt.
    """
    while thread in _held_back and _is_busy(thread):
        time.sleep(_RETURN_SECONDS)
    interrupt = _held_back.pop(thread, None)
    if interrupt is None:
        return
    # Python makes the exception by calling a class.
    kind = type(interrupt)
    again = type(kind.__name__, (kind,), {"__new__": lambda cls: interrupt})
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(again))


def _is_busy(thread: int) -> bool:
    """Returns whether a thread is in a method of an accumulator or is starting another thread.

    A thread that is being started has the id of the thread that starts it, until it runs. An
    exception for this id could reach either.
    """
    frame = sys._current_frames().get(thread)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(f"{__package__}."):
            return True
        if module == "threading" and frame.f_code.co_name == "start":
            return True
        frame = frame.f_back
    return False
