"""How parameter servers learn that training has ended.

A TensorFlow server cannot be stopped; it ends with its process. Each parameter server has a queue
into which the tasks that train put their names when they end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

import tensorflow as tf
from tensorflow.compat import v1

from tf_condacc.cluster._tf_config import PS_JOB
from tf_condacc.launch._probe import Answer, probe

_LOG = logging.getLogger("tf_condacc")
_QUEUE_NAME = "tf_condacc/cluster/ended_tasks"
_TELL_SECS = 5


def await_end(target: str, ps: int, tasks: Iterable[str], chief: str, grace_secs: float) -> None:
    """Waits in a parameter server until training has ended.

    Training has ended when the chief and all other tasks have told so, or when the chief has, and
    the others have not within a time limit.

    Args:
        target: Target of the server.
        ps: Number of the parameter server.
        tasks: Names of the tasks that train.
        chief: Name of the chief among them.
        grace_secs: The time limit.
    """
    running = set(tasks)
    changed = threading.Condition()

    def read(name: str) -> None:
        with changed:
            running.discard(name)
            changed.notify_all()

    # Steps of a session cannot be interrupted. The main thread has to be, for Ctrl-C.
    threading.Thread(target=_read_names, args=(target, ps, read), daemon=True).start()
    with changed:
        while chief in running:
            changed.wait()
        end = time.monotonic() + grace_secs
        while running and time.monotonic() < end:
            changed.wait(end - time.monotonic())
        if running:
            _LOG.warning(
                "Parameter server %d ends: the chief ended %g s ago; these tasks did not: %s",
                ps,
                grace_secs,
                ", ".join(sorted(running)),
            )


def tell_end(target: str, own_name: str, addresses: list[str]) -> None:
    """Tells all parameter servers that this task has ended. Those that are lost are left out.

    Args:
        target: Target of the server of this task.
        own_name: Name of this task.
        addresses: Addresses of the parameter servers.
    """
    threads = [
        # A server may freeze meanwhile, and a step cannot be interrupted.
        threading.Thread(target=_tell, args=(target, own_name, ps), daemon=True)
        for ps, address in enumerate(addresses)
        if probe(address, timeout_secs=1) is Answer.ANSWERED
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + _TELL_SECS
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))


def _tell(target: str, own_name: str, ps: int) -> None:
    with tf.Graph().as_default() as graph:
        tell = _queue(ps).enqueue(own_name)
    try:
        with v1.Session(target, graph=graph, config=_only(ps)) as session:
            session.run(tell)
    except tf.errors.OpError as error:
        _LOG.warning("Parameter server %d could not be told of the end: %s", ps, error.message)


def _read_names(target: str, ps: int, read: Callable[[str], None]) -> None:
    with tf.Graph().as_default() as graph:
        name = _queue(ps).dequeue()
    with v1.Session(target, graph=graph, config=_only(ps)) as session:
        while True:
            read(session.run(name).decode())


def _queue(ps: int) -> v1.FIFOQueue:
    with v1.device(f"/job:{PS_JOB}/task:{ps}/device:CPU:0"):
        return v1.FIFOQueue(-1, [tf.string], [[]], shared_name=_QUEUE_NAME)


def _only(ps: int) -> v1.ConfigProto:
    """Returns a configuration with which a session needs no other parameter server."""
    return v1.ConfigProto(device_filters=[f"/job:{PS_JOB}/task:{ps}"])
