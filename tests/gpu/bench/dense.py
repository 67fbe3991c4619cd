"""Sums of dense gradients, and the host's time to queue one."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from launchers import Launchers, addresses, pointer, seconds, seconds_of_peers, stream

# PyTorch may multiply by the divisor's reciprocal.
TOLERANCES = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}


@dataclass(frozen=True)
class DenseCase:
    """The mean of `count` gradients of `size` elements, as a take computes it."""

    size: int
    count: int
    dtype: torch.dtype = torch.float32
    offset: int = 0  # Elements by which the first gradient is misaligned.
    goal: float | None = None  # The share of the copy's bandwidth.

    def __str__(self) -> str:
        where = f", one of them {self.offset} out of alignment" if self.offset else ""
        dtype = str(self.dtype).removeprefix("torch.")
        return f"dense, {self.count} gradients of {self.size} {dtype}{where}"

    def run(self, launchers: Launchers, copy: float) -> dict:
        gradients = [self._gradient(self.offset if k == 0 else 0) for k in range(self.count)]
        out = torch.empty(self.size, dtype=self.dtype, device="cuda")
        arguments = (
            ctypes.c_size_t(self.size),
            pointer(out),
            pointer(gradients[0]),
            addresses(gradients[1:]),
            ctypes.c_size_t(self.count - 1),
            ctypes.c_int64(self.count),
            stream(),
        )

        def ours() -> None:
            launchers.call("condacc_dense_sum", self.dtype, *arguments)

        def chained() -> torch.Tensor:
            total = gradients[0].clone()
            for gradient in gradients[1:]:
                total.add_(gradient)
            return total.div_(self.count)

        ours()
        expected = sum(gradient.float() for gradient in gradients) / self.count
        tolerance = TOLERANCES[self.dtype]
        torch.testing.assert_close(out.float(), expected, rtol=tolerance, atol=tolerance)
        times = {"ours": seconds(ours), **seconds_of_peers({"torch add_": chained})}
        num_bytes = out.element_size() * self.size * (self.count + 1)
        share = num_bytes / times["ours"] / copy
        return {"goals": {"of copy bandwidth": (share, self.goal)}, "seconds": times}

    def _gradient(self, offset: int) -> torch.Tensor:
        values = torch.randn(self.size + offset, dtype=torch.float32, device="cuda")
        return values.to(self.dtype)[offset:]


@dataclass(frozen=True)
class HostTime:
    """The host's time to queue a small sum: that of an op without what TensorFlow adds."""

    size: int = 1001  # Not a whole number of vectors.

    def __str__(self) -> str:
        return "host time to queue a small sum"

    def run(self, launchers: Launchers, _copy: float) -> dict:
        gradients = [torch.randn(self.size, device="cuda") for _ in range(8)]
        nanoseconds = ctypes.c_double()
        for repeats in (100, 200):  # Fewer than the device's queue can hold.
            torch.cuda.synchronize()
            launchers.call(
                "condacc_dense_sum_host_time",
                torch.float32,
                ctypes.c_size_t(self.size),
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
        return {"goals": {"times 10 us": (1e-5 / took, 1)}, "seconds": {"ours": took}}
