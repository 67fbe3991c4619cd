"""Waiting in eager mode, where an operation that waits would shut out Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import cancellation, context, execute

_POLL_SECONDS = 0.1  # how long Ctrl-C may go unnoticed


def execute_interruptibly(
    op_name: str, num_outputs: int, inputs: Sequence[tf.Tensor], attrs: Sequence[Any]
) -> list[tf.Tensor]:
    """Executes an operation that may wait for long, in a thread so that this one hears Ctrl-C.

    An interrupt cancels the operation before it is passed on.

    Args:
        op_name: Of the operation, as registered.
        num_outputs: How many outputs it has.
        inputs: List of eager tensors.
        attrs: Its attributes, flat: name, value, name, value ...

    Returns:
        The list of its outputs.
    """
    manager = cancellation.CancellationManager()
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["outputs"] = execute.execute_with_cancellation(
                op_name, num_outputs, inputs, attrs, context.context(), manager
            )
        except BaseException as error:  # handed on to the thread that waits
            outcome["error"] = error

    thread = threading.Thread(target=run, name=op_name, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
    except BaseException:  # KeyboardInterrupt above all
        manager.start_cancel()
        thread.join()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["outputs"]
