"""The scenarios of sparse accumulators, and that of memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from condacc_bench import rounds
from condacc_bench.cases import sparse_data
from condacc_bench.cases.limit import SparseLimit
from condacc_bench.cases.memory import PeakMemory
from condacc_bench.cases.sparse_cycle import SparseCycle
from condacc_bench.cases.sparse_growth import SparseGrowth
from condacc_bench.report.results import Result, compare, in_thousands, in_words
from condacc_bench.runs import Run

_ONCE = rounds.Budget(min_rounds=1, max_rounds=1, seconds=0)
_ITEM_BYTES, _INDEX_BYTES = 4, 8


def uniform(run: Run) -> Iterator[Result]:
    """Runs scenario S1, the cycle of a sparse accumulator: rows sorted, unique and evenly drawn."""
    scale = run.scale.sparse
    for rows, columns, count in scale.uniform:
        gradients = sparse_data.uniform(scale.num_rows, rows, count)
        limit = _limit(run, gradients, columns)
        samples = _cycles(run, gradients, columns, limit=limit, num_rows=scale.num_rows)
        fields = {
            "scenario": "S1",
            "case": f"{in_thousands(rows)}x{columns} N={count}",
            "parameters": {"rows": rows, "columns": columns, "count": count},
        }
        yield run.compare(samples, "cycle", **fields)
        if limit:
            yield compare(samples, run.ours.name, "limit", "cycle", against="limit", **fields)


def power_law(run: Run) -> Iterator[Result]:
    """Runs scenario SZ, rows drawn by a power law: raw, deduplicated, and with 64-bit numbers."""
    scale = run.scale.sparse
    columns = scale.columns
    for rows, count in scale.power_law:
        drawn = sparse_data.power_law(scale.num_rows, rows, count)
        cases = {
            "raw": drawn,
            "deduped": sparse_data.sorted_and_unique(drawn),
            "hashed ids": sparse_data.hashed(drawn),
            "ids with slots": sparse_data.with_slots(drawn),
        }
        for name, gradients in cases.items():
            raw = name != "deduped"
            has_low_ids = name in ("raw", "deduped")
            limit = _limit(run, gradients, columns)
            num_rows = scale.num_rows if has_low_ids else None
            samples = _cycles(run, gradients, columns, limit=limit, num_rows=num_rows, raw=raw)
            fields = {
                "scenario": "SZ",
                "case": f"{in_thousands(rows)}x{columns} {name} N={count}",
                "parameters": {"rows": rows, "columns": columns, "count": count, "ids": name},
            }
            yield run.compare(samples, "cycle", **fields)
            if limit:
                yield compare(samples, run.ours.name, "limit", "cycle", against="limit", **fields)


_Others = Mapping[str, Callable[[], rounds.Case]]


def _limit(run: Run, gradients: np.ndarray, columns: int) -> _Others:
    """Returns the case of the machine's limit, if it is wanted."""
    count, rows = gradients.shape
    size, out_size = rows * columns, len(np.unique(gradients)) * columns
    return {"limit": lambda: SparseLimit(count, size, out_size)} if run.with_limit else {}


def _cycles(
    run: Run,
    gradients: np.ndarray,
    columns: int,
    *,
    limit: _Others,
    num_rows: int | None,
    raw: bool = False,
) -> rounds.Samples:
    shape = (num_rows, columns)
    return run.measure(
        lambda who: SparseCycle(who, gradients, shape, raw), limit, run.scale.sparse.budget
    )


def growth(run: Run) -> Iterator[Result]:
    """Runs scenario S2, the cost of consecutive applies."""
    scale = run.scale.sparse
    rows, count = scale.growth
    columns = scale.columns
    gradients = sparse_data.uniform(scale.num_rows, rows, count)
    shape = (scale.num_rows, columns)
    samples = run.measure(lambda who: SparseGrowth(who, gradients, shape), {}, scale.budget)
    timed = [*(f"apply {k}" for k in range(1, count + 1)), "take"]
    curves = {
        who.name: [statistics.median(samples[who.name][metric]) for metric in timed]
        for who in run.both
    }
    for metric in ("growth", "growth of halves", "slowest apply", "take", "all"):
        yield run.compare(
            samples,
            metric,
            scenario="S2",
            case=f"{in_thousands(rows)}x{columns} to N={count}",
            parameters={"rows": rows, "columns": columns, "count": count},
            curves=curves if metric == "all" else None,
        )


def memory(run: Run) -> Iterator[Result]:
    """Runs scenario M, peak memory in gradients (dense) or in unions of all rows (sparse).

    The memory of a round's result may be kept for the next one, so several rounds are measured.
    """
    scale = run.scale.sparse.memory
    for count in scale.dense:
        yield from _dense_peaks(run, scale.size, count)
    for rows, count in scale.sparse:
        yield from _sparse_peaks(run, rows, count)


def _dense_peaks(run: Run, size: int, count: int) -> Iterator[Result]:
    unit = size * _ITEM_BYTES
    samples = run.measure(
        lambda who: PeakMemory(who.name, "dense", size, count, (0, 0), "gradients", unit), {}, _ONCE
    )
    for metric in samples[run.reference.name]:
        yield run.compare(
            samples,
            metric,
            scenario="M",
            case=f"dense {in_words(size)} N={count}",
            parameters={"size": size, "count": count},
        )


def _sparse_peaks(run: Run, rows: int, count: int) -> Iterator[Result]:
    scale = run.scale.sparse
    columns = scale.columns
    shape = (scale.num_rows, columns)
    row_bytes = columns * _ITEM_BYTES + _INDEX_BYTES
    union = len(np.unique(sparse_data.uniform(scale.num_rows, rows, count)))
    samples = run.measure(
        lambda who: PeakMemory(who.name, "sparse", rows, count, shape, "unions", union * row_bytes),
        {},
        _ONCE,
    )
    for metric in samples[run.ours.name]:
        yield run.compare(
            samples,
            metric,
            scenario="M",
            case=f"{in_thousands(rows)}x{columns} N={count}",
            parameters={"rows": rows, "columns": columns, "count": count, "union": union},
        )
