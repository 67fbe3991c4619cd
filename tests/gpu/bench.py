"""The launchers' speed, beside a copy on the device and beside PyTorch and CuPy on the same data.

usage: python bench.py LIBRARY [--json FILE]   (LIBRARY: what run.sh builds of gpu_launchers.cc)

Each figure is the median of repeated runs, timed by events of the device. Bytes count every input
and output once. The bandwidth of a copy is that of one which is too large for the caches.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch

REPEATS = 30
WARM_UPS = 5
HEAD_START_CYCLES = 2_000_000  # about a millisecond
COPIED_BYTES = 1 << 30


class Launchers:
    """The functions of gpu_launchers.cc on PyTorch's tensors and stream."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._error = ctypes.create_string_buffer(256)

    def call(self, name: str, *args: object) -> None:
        function = getattr(self._library, name)
        function.restype = ctypes.c_bool
        if not function(*args, self._error):
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


def copy_bandwidth() -> float:
    """Returns bytes a second of a copy on the device; a byte is read and written."""
    source = torch.empty(COPIED_BYTES // 4, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    return 2 * COPIED_BYTES / seconds(lambda: target.copy_(source))


def dense(launchers: Launchers, copy: float, size: int, count: int) -> dict:
    """The mean of `count` gradients of `size` floats, as a take computes it."""
    gradients = [torch.randn(size, device="cuda") for _ in range(count)]
    out = torch.empty(size, device="cuda")
    arguments = (
        ctypes.c_size_t(size),
        pointer(out),
        pointer(gradients[0]),
        addresses(gradients[1:]),
        ctypes.c_size_t(count - 1),
        ctypes.c_int64(count),
        stream(),
    )

    def ours() -> None:
        launchers.call("condacc_dense_sum", *arguments)

    def chained() -> torch.Tensor:
        total = gradients[0].clone()
        for gradient in gradients[1:]:
            total.add_(gradient)
        return total.div_(count)

    ours()
    # PyTorch may multiply by the divisor's reciprocal.
    torch.testing.assert_close(out, chained(), rtol=1e-6, atol=0)
    num_bytes = 4 * size * (count + 1)
    times = {"ours": seconds(ours), "torch add_": seconds(chained)}
    share = num_bytes / times["ours"] / copy
    return {
        "case": f"dense, {count} gradients of {size} floats",
        "goals": {"of copy bandwidth": (share, 0.9)},
        "seconds": times,
    }


def sparse(
    launchers: Launchers, copy: float, count: int, rows: int, width: int, dense_rows: int
) -> dict:
    """The sum of `count` gradients of `rows` rows of `width` floats."""
    indices = [torch.randint(dense_rows, (rows,), device="cuda") for _ in range(count)]
    values = [torch.randn(rows, width, device="cuda") for _ in range(count)]
    parts = (
        addresses(indices),
        addresses(values),
        ctypes.c_size_t(count),
        ctypes.c_int64(rows),
        ctypes.c_size_t(width),
        ctypes.c_int64(dense_rows),
    )
    num_bytes = ctypes.c_size_t()
    launchers.call("condacc_merge_memory", *parts, ctypes.byref(num_bytes))
    memory = torch.empty(num_bytes.value, dtype=torch.uint8, device="cuda")
    out_rows = torch.empty(count * rows, dtype=torch.int64, device="cuda")
    out_values = torch.empty(count * rows, width, device="cuda")
    num_rows = ctypes.c_int64()

    merge = (*parts, pointer(memory), pointer(out_rows), pointer(out_values))
    merge = (*merge, ctypes.byref(num_rows), stream())

    def ours() -> None:
        launchers.call("condacc_merge", *merge)

    def joined() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat(indices), torch.cat(values)

    def coalesced(all_rows: torch.Tensor, all_values: torch.Tensor) -> torch.Tensor:
        whole = torch.sparse_coo_tensor(
            all_rows[None], all_values, (dense_rows, width), check_invariants=False
        )
        return whole.coalesce()

    def index_added(all_rows: torch.Tensor, all_values: torch.Tensor) -> torch.Tensor:
        unique, inverse = torch.unique(all_rows, return_inverse=True)
        total = torch.zeros(unique.numel(), width, device="cuda")
        return total.index_add_(0, inverse, all_values)

    ours()
    expected = coalesced(*joined())
    n = num_rows.value
    if not torch.equal(out_rows[:n], expected.indices()[0]):
        raise AssertionError("the rows differ from those of PyTorch's coalesce")
    torch.testing.assert_close(out_values[:n], expected.values(), rtol=1e-4, atol=1e-4)
    first = out_values[:n].clone()
    ours()
    if not torch.equal(first, out_values[:n]):
        raise AssertionError("the sums differ from run to run")
    moved = (count * rows + n) * (4 * width + 8)
    times = {
        "ours": seconds(ours),
        "torch coalesce": seconds(lambda: coalesced(*joined())),
        "torch index_add_": seconds(lambda: index_added(*joined())),
    }
    # Without the copying that brings the gradients together, which ours does not need.
    whole = joined()
    times["torch coalesce, joined before"] = seconds(lambda: coalesced(*whole))
    times["torch index_add_, joined before"] = seconds(lambda: index_added(*whole))
    times |= cupy_sparse(indices, values, width)
    peers = ("torch coalesce", "torch index_add_")
    return {
        "case": f"sparse, {count} gradients of {rows} x {width} floats, {n} different rows",
        "goals": {
            "of copy bandwidth": (moved / times["ours"] / copy, 0.4),
            **{f"times faster than {peer}": (times[peer] / times["ours"], 2) for peer in peers},
        },
        "seconds": times,
    }


def cupy_sparse(indices: list, values: list, width: int) -> dict[str, float]:
    try:
        import cupy
    except ImportError:
        return {}
    rows = [cupy.from_dlpack(part) for part in indices]
    parts = [cupy.from_dlpack(part) for part in values]

    def added() -> None:
        unique, inverse = cupy.unique(cupy.concatenate(rows), return_inverse=True)
        total = cupy.zeros((unique.size, width), cupy.float32)
        cupy.add.at(total, inverse, cupy.concatenate(parts))

    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        return {"cupy add.at": seconds(added)}


def host_time(launchers: Launchers) -> dict:
    """The host's time to queue a small sum: that of an op without what TensorFlow adds."""
    size = 1001  # not a whole number of vectors: two launches
    gradients = [torch.randn(size, device="cuda") for _ in range(8)]
    nanoseconds = ctypes.c_double()
    for repeats in (100, 200):  # fewer than the device's queue takes
        torch.cuda.synchronize()
        launchers.call(
            "condacc_dense_sum_host_time",
            ctypes.c_size_t(size),
            pointer(gradients[0]),
            pointer(gradients[0]),
            addresses(gradients[1:]),
            ctypes.c_size_t(7),
            ctypes.c_int(repeats),
            stream(),
            ctypes.byref(nanoseconds),
        )
    torch.cuda.synchronize()
    took = nanoseconds.value / 1e9
    return {
        "case": "host time to queue a small sum",
        "goals": {"times 10 us": (1e-5 / took, 1)},
        "seconds": {"ours": took},
    }


def show(result: dict) -> None:
    print(result["case"])
    for name, (got, goal) in result["goals"].items():
        verdict = "reached" if got >= goal else "MISSED"
        print(f"    {got:.2f} {name}: the goal, {goal}, is {verdict}")
    for name, took in result["seconds"].items():
        print(f"    {name:32} {took * 1e6:12.1f} us", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", metavar="LIBRARY")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    launchers = Launchers(arguments.path)
    copy = copy_bandwidth()
    print(f"copy: {copy / 1e9:.0f} GB/s")
    cases = [lambda k=k: dense(launchers, copy, 1 << 24, k) for k in (4, 5, 6, 7, 8)]
    cases += [lambda: dense(launchers, copy, 1 << 26, 8)]
    cases += [lambda n=n: sparse(launchers, copy, 32, 100_000, 64, n) for n in (200_000, 10**6)]
    cases += [lambda: host_time(launchers)]
    results = []
    for case in cases:
        results.append(case())
        show(results[-1])
        if arguments.json:
            versions = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
            text = json.dumps({**versions, "copy": copy, "results": results}, indent=1)
            arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
