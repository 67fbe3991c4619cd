"""The dense scenarios, and the list of all scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tensorflow as tf

from condacc_bench import rounds, sparse_scenarios, sync_scenarios
from condacc_bench.cases import sparse_data
from condacc_bench.cases.contention import Contention
from condacc_bench.cases.contributors import Contributors
from condacc_bench.cases.dense_cycle import DenseCycle
from condacc_bench.cases.eager_calls import CALLS, EagerCalls, TracedCalls
from condacc_bench.cases.fixed_order import ARRIVAL, AT_RANDOM, IN_ORDER, implementation
from condacc_bench.cases.limit import Limit
from condacc_bench.cases.many_variables import PRODUCERS as MANY_VARIABLES_PRODUCERS
from condacc_bench.cases.many_variables import ManyVariables
from condacc_bench.cases.saves import Saves
from condacc_bench.cases.sparse_cycle import SparseCycle
from condacc_bench.cases.tower_sum import TowerSum
from condacc_bench.report.results import Result, compare, in_thousands, in_words
from condacc_bench.runs import Run

_LIMIT = "limit"
_NET = "ours, net"
_BARE = "gradients of one element"  # The same operations have almost nothing to add.


def cycles(run: Run) -> Iterator[Result]:
    """Runs scenario D1, the cycle of a float32 accumulator.

    The limit is compared with the whole cycle and, as "net", with what remains of it without the
    time that the same operations take for gradients of one element.
    """
    for size, count, producer in run.scale.cycles:
        limit = {}
        if run.with_limit and count > 1 and producer != "mul":
            limit[_LIMIT] = lambda n=count, s=size: Limit(n, s)
            limit[_BARE] = lambda n=count, p=producer: DenseCycle(run.ours, n, 1, producer=p)
        samples = run.measure(
            lambda who, n=count, s=size, p=producer: DenseCycle(who, n, s, producer=p), limit
        )
        fields = {
            "scenario": "D1",
            "case": f"{in_words(size)} {producer} N={count}",
            "parameters": {"size": size, "count": count, "producer": producer},
        }
        yield run.compare(samples, "cycle", **fields)
        if limit:
            bare = samples[_BARE]["cycle"]
            whole = samples[run.ours.name]["cycle"]
            samples[_NET] = {"cycle": [max(w - b, 1e-9) for w, b in zip(whole, bare, strict=True)]}
            yield compare(samples, run.ours.name, _LIMIT, "cycle", against="limit", **fields)
            fields["case"] += ", net"
            yield compare(samples, _NET, _LIMIT, "cycle", against="limit", **fields)


def small_variables(run: Run) -> Iterator[Result]:
    """Runs scenario D2, many small accumulators."""
    count, size = run.scale.small_variables
    for producer in MANY_VARIABLES_PRODUCERS:
        samples = run.measure(lambda who, p=producer: ManyVariables(who, count, size, p), {})
        for metric in ("apply", "take"):
            yield run.compare(
                samples,
                metric,
                scenario="D2",
                case=f"{count} of {in_words(size)} {producer}",
                parameters={"variables": count, "size": size, "producer": producer},
            )


def contention(run: Run) -> Iterator[Result]:
    """Runs scenario D3, threads on one accumulator."""
    for num_threads, size, producer in run.scale.contention:
        samples = run.measure(
            lambda who, t=num_threads, s=size, p=producer: Contention(who, t, s, p), {}
        )
        for metric in ("applies/s", "last apply to take"):
            yield run.compare(
                samples,
                metric,
                scenario="D3",
                case=f"{num_threads} threads {in_words(size)} {producer}",
                parameters={"threads": num_threads, "size": size, "producer": producer},
            )


def other_dtypes(run: Run) -> Iterator[Result]:
    """Runs scenario D4, cycles in other dtypes. TensorFlow has no bfloat16; float16 is compared."""
    for size, count in run.scale.other_dtypes:
        for dtype in (tf.float16, tf.float64):
            samples = run.measure(
                lambda who, n=count, s=size, d=dtype: DenseCycle(who, n, s, d), {}
            )
            yield run.compare(samples, "cycle", **_dtype_fields(dtype, size, count))
        if run.ours.name == "condacc":
            yield _bfloat16(run, size, count)


def _bfloat16(run: Run, size: int, count: int) -> Result:
    cases: dict[str, rounds.Case] = {}
    try:
        for dtype in (tf.float16, tf.bfloat16):
            cases[dtype.name] = DenseCycle(run.ours, count, size, dtype)
        samples = rounds.run_rounds(cases, run.scale.budget)
    finally:
        rounds.close(cases)
    fields = _dtype_fields(tf.bfloat16, size, count)
    return compare(samples, "bfloat16", "float16", "cycle", against="our float16", **fields)


def _dtype_fields(dtype: tf.DType, size: int, count: int) -> dict[str, object]:
    return {
        "scenario": "D4",
        "case": f"{dtype.name} {in_words(size)} staged N={count}",
        "parameters": {"dtype": dtype.name, "size": size, "count": count, "producer": "staged"},
    }


def tower_sums(run: Run) -> Iterator[Result]:
    """Runs scenario T, the sum of towers, compared with tf.add_n."""
    for size, count, producer in run.scale.tower_sums:
        samples = run.measure(lambda who, n=count, s=size, p=producer: TowerSum(who, n, s, p), {})
        yield run.compare(
            samples,
            "sum",
            scenario="T",
            case=f"{in_words(size)} {producer} N={count}",
            parameters={"size": size, "count": count, "producer": producer},
        )


def eager_calls(run: Run) -> Iterator[Result]:
    """Runs scenario P, the Python code of methods, compared with that of the operations.

    The last line is the time to trace a function that calls them.
    """
    for method in (*CALLS, "tracing"):
        cases: dict[str, rounds.Case] = {}
        for name in ("raw op", "method"):
            raw = name == "raw op"
            cases[name] = TracedCalls(raw) if method == "tracing" else EagerCalls(method, raw)
        try:
            samples = rounds.run_rounds(cases, run.scale.budget)
        finally:
            rounds.close(cases)
        metric = "trace" if method == "tracing" else "call"
        yield compare(
            samples,
            "method",
            "raw op",
            metric,
            scenario="P",
            case=method,
            parameters={"method": method},
            against="raw op",
        )


def contributors(run: Run) -> Iterator[Result]:
    """Runs scenario C, the gradients of rounds of many contributors, compared with small rounds."""
    for count in run.scale.contributors:
        cases = {
            "many": Contributors(count, max(run.scale.contributors)),
            "ten": Contributors(10, max(run.scale.contributors)),
        }
        samples = rounds.run_rounds(cases, run.scale.budget)
        rounds.close(cases)
        yield compare(
            samples,
            "many",
            "ten",
            "apply",
            scenario="C",
            case=f"{count} contributors",
            parameters={"count": count},
            against="10 contributors",
        )


def fixed_order(run: Run) -> Iterator[Result]:
    """Runs scenario F, cycles that add in the order of contributors, compared with arrival."""
    scale = run.scale
    dense = [
        (
            f"D1 {in_words(size)} {producer} N={count}",
            count,
            lambda who, n=count, s=size, p=producer: DenseCycle(who, n, s, producer=p),
        )
        for size, count, producer in scale.fixed_order
    ]
    sparse = [
        (
            f"S1 {in_thousands(rows)}x{columns} N={count}",
            count,
            lambda who, r=rows, c=columns, n=count: SparseCycle(
                who,
                sparse_data.uniform(scale.sparse.num_rows, r, n),
                (scale.sparse.num_rows, c),
            ),
        )
        for rows, columns, count in scale.sparse.fixed_order
    ]
    for case, count, new_case in [*dense, *sparse]:
        cases: dict[str, rounds.Case] = {}
        try:
            for order in (ARRIVAL, IN_ORDER, AT_RANDOM):
                cases[order] = new_case(implementation(order, count))
            cases["again"] = new_case(implementation(ARRIVAL, count))
            samples = rounds.run_rounds(cases, scale.budget)
        finally:
            rounds.close(cases)
        for order in (IN_ORDER, AT_RANDOM, "again"):
            yield compare(
                samples,
                order,
                ARRIVAL,
                "cycle",
                scenario="F",
                case=f"{case} {order}",
                parameters={"case": case, "order": order},
                against="arrival",
            )


def saves(run: Run) -> Iterator[Result]:
    """Runs scenario V, calls while another thread saves, compared with calls without saves."""
    for size in run.scale.saves:
        cases = {"saved": Saves(size, True), "alone": Saves(size, False)}
        samples = rounds.run_rounds(cases, run.scale.budget)
        rounds.close(cases)
        for metric in ("count", "apply"):
            yield compare(
                samples,
                "saved",
                "alone",
                metric,
                scenario="V",
                case=f"{in_words(size)} during saves",
                parameters={"size": size},
                against="no saves",
            )


SCENARIOS: dict[str, Callable[[Run], Iterator[Result]]] = {
    "D1": cycles,
    "D2": small_variables,
    "D3": contention,
    "D4": other_dtypes,
    "S1": sparse_scenarios.uniform,
    "SZ": sparse_scenarios.power_law,
    "S2": sparse_scenarios.growth,
    "M": sparse_scenarios.memory,
    "T": tower_sums,
    "P": eager_calls,
    "C": contributors,
    "F": fixed_order,
    "V": saves,
    "E": sync_scenarios.threads,
    "R": sync_scenarios.clusters,
    "G": sync_scenarios.micro_batches,
}
