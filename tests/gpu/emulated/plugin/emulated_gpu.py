"""Puts the emulated GPU into TensorFlow, and tf_condacc's ops on it: a plugin of pytest.

All other ops are put on the CPU, because TensorFlow's own GPU kernels would call the CUDA driver.
It must be imported before tf_condacc. The working directory holds the package and the device's
library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ["EMULATED_QUIET"] = "1"

import tensorflow as tf  # noqa: E402
from ops_on_gpu import put_ops_on_the_gpu  # noqa: E402
from tensorflow.python.framework import load_library  # noqa: E402
from tensorflow.python.framework import ops as tf_ops  # noqa: E402

ROOT = Path.cwd()
_DEVICE = ROOT / "libemulated_device.so"

load_library.load_pluggable_device_library(str(_DEVICE))
_device = ctypes.CDLL(str(_DEVICE))
_device.condacc_emulated_num_pushed.restype = ctypes.c_int64
_device.condacc_emulated_num_waits.restype = ctypes.c_int64


def num_pushed() -> int:
    """Returns how many launches, copies and fills were put on the GPU's stream by tf_condacc."""
    return _device.condacc_emulated_num_pushed()


def num_waits() -> int:
    """Returns how often tf_condacc has waited for the GPU's stream."""
    return _device.condacc_emulated_num_waits()


@contextlib.contextmanager
def stream_held() -> Iterator[None]:
    """Stops the GPU's stream meanwhile."""
    _device.condacc_emulated_hold()
    try:
        yield
    finally:
        _device.condacc_emulated_release()


def _put_graphs_on_the_cpu() -> None:
    make = tf_ops.Graph.__init__

    def make_on_cpu(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self._add_device_to_stack("/device:CPU:0", offset=2)

    tf_ops.Graph.__init__ = make_on_cpu


_put_graphs_on_the_cpu()
tf.device("/CPU:0").__enter__()
sys.path.insert(0, str(ROOT))

from tf_condacc._build_info import native_library  # noqa: E402
from tf_condacc._ops import native  # noqa: E402

_library = ctypes.CDLL(str(native_library().file))
_library.condacc_emulated_use_stream(
    *(
        ctypes.cast(function, ctypes.c_void_p)
        for function in (_device.condacc_emulated_push, _device.condacc_emulated_wait)
    )
)
put_ops_on_the_gpu(native.ops)
