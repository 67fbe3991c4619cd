"""The launchers' speed, beside a copy on the device and beside PyTorch and CuPy on the same data.

usage: python bench.py LIBRARY [--json FILE]   (LIBRARY: what run.sh builds of gpu_launchers.cc)

Each figure is the median of repeated runs, timed by events of the device. Bytes count every input
and output once.
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
    """Returns the median time of `run`, on the device and for the host's waiting inside it."""
    times = []
    for i in range(WARM_UPS + REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        end.synchronize()
        if i >= WARM_UPS:
            times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def copy_bandwidth(num_bytes: int) -> float:
    """Returns bytes a second of a copy on the device; a byte is read and written."""
    source = torch.empty(num_bytes // 4, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    return 2 * num_bytes / seconds(lambda: target.copy_(source))


def dense(launchers: Launchers, size: int, count: int) -> dict:
    """The mean of `count` gradients of `size` floats, as a take computes it."""
    gradients = [torch.randn(size, device="cuda") for _ in range(count)]
    out = torch.empty(size, device="cuda")
    inputs = addresses(gradients[1:])

    def ours() -> None:
        launchers.call(
            "condacc_dense_sum",
            ctypes.c_size_t(size),
            pointer(out),
            pointer(gradients[0]),
            inputs,
            ctypes.c_size_t(count - 1),
            ctypes.c_int64(count),
            stream(),
        )

    def chained() -> torch.Tensor:
        total = gradients[0].clone()
        for gradient in gradients[1:]:
            total.add_(gradient)
        return total.div_(count)

    ours()
    if not torch.equal(out, chained()):
        raise AssertionError("the dense sum differs from that of PyTorch's chained add_")
    num_bytes = 4 * size * (count + 1)
    copy = copy_bandwidth(4 * size)
    times = {"ours": seconds(ours), "torch add_": seconds(chained)}
    return {
        "case": f"dense, {count} gradients of {size} floats",
        "of_copy_bandwidth": num_bytes / times["ours"] / copy,
        "seconds": times,
    }


def sparse(launchers: Launchers, count: int, rows: int, width: int, dense_rows: int) -> dict:
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

    def ours() -> None:
        merge = (*parts, pointer(memory), pointer(out_rows), pointer(out_values))
        launchers.call("condacc_merge", *merge, ctypes.byref(num_rows), stream())

    def coalesced() -> torch.Tensor:
        shape = (dense_rows, width)
        whole = torch.sparse_coo_tensor(torch.cat(indices)[None], torch.cat(values), shape)
        return whole.coalesce()

    def index_added() -> tuple[torch.Tensor, torch.Tensor]:
        unique, inverse = torch.unique(torch.cat(indices), return_inverse=True)
        total = torch.zeros(unique.numel(), width, device="cuda")
        return unique, total.index_add_(0, inverse, torch.cat(values))

    ours()
    expected = coalesced()
    n = num_rows.value
    if not torch.equal(out_rows[:n], expected.indices()[0]):
        raise AssertionError("the rows differ from those of PyTorch's coalesce")
    torch.testing.assert_close(out_values[:n], expected.values(), rtol=1e-4, atol=1e-4)
    first = out_values[:n].clone()
    ours()
    if not torch.equal(first, out_values[:n]):
        raise AssertionError("the sums differ from run to run")
    moved = (count * rows + n) * (4 * width + 8)
    copy = copy_bandwidth(4 * width * count * rows)
    times = {
        "ours": seconds(ours),
        "torch coalesce": seconds(coalesced),
        "torch index_add_": seconds(index_added),
        **cupy_sparse(indices, values, width),
    }
    return {
        "case": f"sparse, {count} gradients of {rows} x {width} floats, {n} different rows",
        "of_copy_bandwidth": moved / times["ours"] / copy,
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
    """The host's time to queue a small sum."""
    gradients = [torch.randn(1000, device="cuda") for _ in range(8)]
    nanoseconds = ctypes.c_double()
    for repeats in (100, 500):  # fewer than the device's queue takes
        torch.cuda.synchronize()
        launchers.call(
            "condacc_dense_sum_host_time",
            ctypes.c_size_t(1000),
            pointer(gradients[0]),
            pointer(gradients[0]),
            addresses(gradients[1:]),
            ctypes.c_size_t(7),
            ctypes.c_int(repeats),
            stream(),
            ctypes.byref(nanoseconds),
        )
    torch.cuda.synchronize()
    return {"case": "host time to queue a small sum", "seconds": {"ours": nanoseconds.value / 1e9}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    launchers = Launchers(arguments.library)
    results = [dense(launchers, 1 << 24, count) for count in (4, 8)]
    results += [dense(launchers, 1 << 26, 8)]
    results += [sparse(launchers, 32, 100_000, 64, dense_rows) for dense_rows in (200_000, 10**6)]
    results += [host_time(launchers)]
    for result in results:
        share = result.get("of_copy_bandwidth")
        print(result["case"] + (f": {share:.0%} of copy bandwidth" if share else ""))
        for name, took in result["seconds"].items():
            print(f"    {name:20} {took * 1e6:12.1f} us")
    if arguments.json:
        device = torch.cuda.get_device_name()
        versions = {"torch": torch.__version__, "device": device}
        arguments.json.write_text(json.dumps({**versions, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
