"""Execution of waiting operations in eager mode, so that Ctrl-C can end them."""

from __future__ import annotations

import threading
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
    Here the calling thread sleeps instead. If it is interrupted, it cancels the operation, waits
    until the operation has ended, and raises the interrupt.

    Args:
        op_name: Registered name of the operation.
        num_outputs: Number of the operation's outputs.
        inputs: The operation's inputs, eager tensors.
        attrs: The operation's attributes as one flat sequence: name, value, name, value, ….

    Returns:
        The operation's outputs.

    Raises:
        Exception: The error of the operation, if it fails.
    """
    execute, cancel = _tensorflow.cancellable(op_name, num_outputs, inputs, attrs)
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["outputs"] = execute()
        except BaseException as error:  # Raised by the calling thread below.
            outcome["error"] = error

    thread = threading.Thread(target=run, name=op_name, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
    except BaseException:  # Usually a KeyboardInterrupt.
        cancel()
        thread.join()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["outputs"]
