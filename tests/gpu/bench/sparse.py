"""Merges of sparse gradients."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from launchers import Launchers, addresses, pointer, seconds, seconds_of_peers, stream

Merge = Callable[[], object]


@dataclass(frozen=True)
class SparseCase:
    """The sum or mean of `count` gradients of `rows` rows of `width` elements."""

    count: int
    rows: int
    width: int
    dense_rows: int
    dtype: torch.dtype = torch.float32
    power_law: bool = False  # A row is chosen with a probability of 1/rank (Zipf).
    knows_rows: bool = True  # If false, any row may occur, and keys have 64 bits.
    mean: bool = False  # If true, each row is divided by its number of gradients.
    offset: int = 0  # Elements by which all values are misaligned.
    goal: float | None = None  # The share of the copy's bandwidth.
    times_faster: float | None = None  # The goal for the peers.

    def __str__(self) -> str:
        parts = [f"sparse, {self.count} gradients of {self.rows} x {self.width}"]
        parts.append(str(self.dtype).removeprefix("torch."))
        parts.append(f"{'power-law' if self.power_law else 'uniform'} rows of {self.dense_rows}")
        if not self.knows_rows:
            parts.append("of an unknown shape")
        if self.mean:
            parts.append("means")
        if self.offset:
            parts.append("out of alignment")
        return ", ".join(parts)

    def run(self, launchers: Launchers, copy: float) -> dict:
        indices = [self._indices() for _ in range(self.count)]
        values = [self._values() for _ in range(self.count)]
        out_rows = torch.empty(self.count * self.rows, dtype=torch.int64, device="cuda")
        out_values = torch.empty(len(out_rows), self.width, dtype=self.dtype, device="cuda")
        num_rows = ctypes.c_int64()
        merge, memory = self._merge(launchers, indices, values, out_rows, out_values, num_rows)
        merge()
        n = num_rows.value
        self._check(indices, values, out_rows[:n], out_values[:n])
        times = {"ours": seconds(merge)}
        if not self.mean:
            times |= seconds_of_peers(self._peers(indices, values))
        moved = (len(out_rows) + n) * (out_values.element_size() * self.width + 8)
        goals = {"of copy bandwidth": (moved / times["ours"] / copy, self.goal)}
        for peer in ("torch coalesce", "torch index_add_"):
            if peer in times:
                ratio = times[peer] / times["ours"]
                goals[f"times faster than {peer}"] = (ratio, self.times_faster)
        return {"goals": goals, "seconds": times, "rows": n, "scratch bytes": memory.numel()}

    def _indices(self) -> torch.Tensor:
        if not self.power_law:
            return torch.randint(self.dense_rows, (self.rows,), device="cuda")
        # The integral of 1/x is a logarithm, so these ranks are close to Zipf's.
        drawn = torch.rand(self.rows, dtype=torch.float64, device="cuda")
        ranks = torch.exp(drawn * math.log(self.dense_rows + 1)).long() - 1
        generator = torch.Generator(device="cuda").manual_seed(self.dense_rows)
        order = torch.randperm(self.dense_rows, generator=generator, device="cuda")
        return order[ranks.clamp(0, self.dense_rows - 1)]

    def _values(self) -> torch.Tensor:
        """Returns small integers, whose float32 sums are exact in any order."""
        size = self.rows * self.width
        drawn = torch.randint(-4, 5, (size + self.offset,), device="cuda").to(self.dtype)
        return drawn[self.offset :].view(self.rows, self.width)

    def _merge(
        self,
        launchers: Launchers,
        indices: list[torch.Tensor],
        values: list[torch.Tensor],
        out_rows: torch.Tensor,
        out_values: torch.Tensor,
        num_rows: ctypes.c_int64,
    ) -> tuple[Merge, torch.Tensor]:
        """Returns our merge and the memory that it works in."""
        parts = (
            addresses(indices),
            addresses(values),
            ctypes.c_size_t(self.count),
            ctypes.c_int64(self.rows),
            ctypes.c_size_t(self.width),
            ctypes.c_int64(self.dense_rows if self.knows_rows else -1),
        )
        num_bytes = ctypes.c_size_t()
        launchers.call("condacc_merge_memory", self.dtype, *parts, ctypes.byref(num_bytes))
        memory = torch.empty(num_bytes.value, dtype=torch.uint8, device="cuda")
        divisor = ctypes.c_int64(0 if self.mean else 1)
        outputs = (pointer(memory), pointer(out_rows), pointer(out_values))
        arguments = (*parts, divisor, *outputs, ctypes.byref(num_rows), stream())
        return lambda: launchers.call("condacc_merge", self.dtype, *arguments), memory

    def _check(
        self,
        indices: list[torch.Tensor],
        values: list[torch.Tensor],
        out_rows: torch.Tensor,
        out_values: torch.Tensor,
    ) -> None:
        unique, inverse = torch.unique(torch.cat(indices), return_inverse=True)
        total = torch.zeros(len(unique), self.width, device="cuda")
        total.index_add_(0, inverse, torch.cat(values).float())
        if self.mean:
            total /= self._counts(inverse, len(unique))[:, None]
        if not torch.equal(out_rows, unique):
            raise AssertionError("the rows differ from those of PyTorch")
        if not torch.equal(out_values, total.to(self.dtype)):
            raise AssertionError("the sums differ from those of PyTorch")

    def _counts(self, inverse: torch.Tensor, num_rows: int) -> torch.Tensor:
        """Returns how many gradients have each row."""
        gradient = torch.arange(self.count, device="cuda").repeat_interleave(self.rows)
        pairs = torch.unique(inverse * self.count + gradient)
        return torch.bincount(pairs // self.count, minlength=num_rows).float()

    def _peers(
        self, indices: list[torch.Tensor], values: list[torch.Tensor]
    ) -> dict[str, Callable[[], object]]:
        def joined() -> tuple[torch.Tensor, torch.Tensor]:
            return torch.cat(indices), torch.cat(values)

        def coalesced(rows: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
            shape = (self.dense_rows, self.width)
            whole = torch.sparse_coo_tensor(rows[None], parts, shape, check_invariants=False)
            return whole.coalesce()

        def index_added(rows: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
            unique, inverse = torch.unique(rows, return_inverse=True)
            total = torch.zeros(len(unique), self.width, dtype=self.dtype, device="cuda")
            return total.index_add_(0, inverse, parts)

        # Ours does not need to concatenate the gradients.
        whole = joined()
        return {
            "torch coalesce": lambda: coalesced(*joined()),
            "torch index_add_": lambda: index_added(*joined()),
            "torch coalesce, joined before": lambda: coalesced(*whole),
            "torch index_add_, joined before": lambda: index_added(*whole),
            "cupy add.at": _CupyAdd(indices, values),
        }


class _CupyAdd:
    """CuPy's way, which concatenates the gradients each time."""

    def __init__(self, indices: list[torch.Tensor], values: list[torch.Tensor]) -> None:
        self._tensors = indices, values
        self._arrays: tuple[list, list] | None = None

    def __call__(self) -> object:
        import cupy

        if self._arrays is None:  # Once, in the warm-up runs.
            indices, values = self._tensors
            self._arrays = (
                [cupy.from_dlpack(part) for part in indices],
                [cupy.from_dlpack(part) for part in values],
            )
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            rows, parts = (cupy.concatenate(arrays) for arrays in self._arrays)
            unique, inverse = cupy.unique(rows, return_inverse=True)
            total = cupy.zeros((unique.size, parts.shape[1]), parts.dtype)
            cupy.add.at(total, inverse, parts)
            return total
