"""The launchers on PyTorch's tensors and stream, and how they and their peers are timed."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable

import torch

REPEATS = 30
WARM_UPS = 5
HEAD_START_CYCLES = 2_000_000  # About a millisecond.
COPIED_BYTES = 1 << 30

# The numbers of cc/core's ElementType.
TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}


class Launchers:
    """The functions of gpu_launchers.cc."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._error = ctypes.create_string_buffer(256)

    def call(self, name: str, dtype: torch.dtype, *args: object) -> None:
        function = getattr(self._library, name)
        function.restype = ctypes.c_bool
        if not function(ctypes.c_int(TYPES[dtype]), *args, self._error):
            raise RuntimeError(f"{name}: {self._error.value.decode()}")


def addresses(tensors: list[torch.Tensor]) -> ctypes.Array:
    return (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])


def pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def seconds(run: Callable[[], object]) -> float:
    """Returns the median time of `run`, on the device and for the host's waiting inside it.

    The device is kept busy until the host has queued what it can: Python's time is not counted.
    """
    times = []
    for i in range(WARM_UPS + REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(HEAD_START_CYCLES)
        begin.record()
        run()
        end.record()
        end.synchronize()
        if i >= WARM_UPS:
            times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def seconds_of_peers(peers: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Times each peer; one that fails, in whatever way, is told and left out."""
    times = {}
    for name, run in peers.items():
        try:
            times[name] = seconds(run)
        except Exception as error:
            print(f"    {name} is left out: {type(error).__name__}: {error}", flush=True)
    return times


def copy_bandwidth() -> float:
    """Returns bytes a second of a copy on the device; a byte is read and written."""
    source = torch.empty(COPIED_BYTES // 4, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    return 2 * COPIED_BYTES / seconds(lambda: target.copy_(source))
