"""Installation of the names of TensorFlow 1, and its exact reversal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from tf_condacc.compat import _changes

_lock = threading.Lock()
_undo: contextlib.ExitStack | None = None


def install() -> None:
    """Installs the names of TensorFlow 1 that the installed TensorFlow lacks.

    Afterwards:
      - ``tf.contrib`` and ``tf.estimator`` exist on ``tensorflow`` and ``tensorflow.compat.v1``, as
        attributes and in all forms of ``import``.
      - The accumulators and ``train.SyncReplicasOptimizer`` of ``tf.compat.v1``, of
        ``tensorflow.python.ops.data_flow_ops`` and of all other modules of TensorFlow are those of
        this package. Modules outside of TensorFlow that have imported an original class by name
        keep it.
      - ``tf.compat.v1.train.replica_device_setter`` places these accumulators on parameter servers.
      - Private names that programs use, such as ``ops.IndexedSlices``, are where they were.

    A second call does nothing. The order of `install` and imports of TensorFlow's modules does not
    matter.

    Raises:
        ImportError: An installed ``tensorflow-estimator`` cannot be imported.
    """
    global _undo
    with _lock:
        if _undo is not None:
            return
        with contextlib.ExitStack() as stack:
            _changes.make(stack)
            _undo = stack.pop_all()


def uninstall() -> None:
    """Removes what `install` has installed. Does nothing if nothing is installed.

    Every attribute and every entry of ``sys.modules`` is as it was before, also in modules of
    TensorFlow that were imported in between.
    """
    global _undo
    with _lock:
        if _undo is not None:
            _undo.close()
            _undo = None


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Installs the names for a ``with`` block, and then restores the state before the block.

    If the names are installed already, they stay installed after the block.
    """
    was_installed = _undo is not None
    install()
    try:
        yield
    finally:
        if not was_installed:
            uninstall()
