"""Tests of the benchmark at a tiny size: every scenario runs and reports. No timing is judged.

Each case checks the mean that its own accumulator returns before it is timed, and raises
AssertionError if that is wrong, so a run that ends well has computed the right things.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from condacc import versions
from tests.processes.forked_python import forked_python
from tests.support.versions import needs_keras3
from tests.support.waiting import run_program

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "benchmarks"))

from condacc_bench import implementations, rounds  # noqa: E402
from condacc_bench.cases import dense_cycle, limit, staging  # noqa: E402
from condacc_bench.cases.replica_threads import PLACES  # noqa: E402
from condacc_bench.report import goals, results  # noqa: E402

_RATIO_CASES = {
    "D1": ["64 staged N=2", "64 mul N=3", "64 shared N=2"],
    "D2": ["3 of 16 shared", "3 of 16 mul"],
    "D3": ["2 threads 64 shared", "2 threads 64 mul"],
    "D4": ["float16 64 staged N=2", "float64 64 staged N=2", "bfloat16 64 staged N=2"],
    "S1": ["10x4 N=1", "10x4 N=3"],
    "SZ": [f"10x4 {ids} N=3" for ids in ("raw", "deduped", "hashed ids", "ids with slots")],
    "S2": ["10x4 to N=4"],
    "T": ["64 staged N=2", "128K shared N=3"],
    "P": ["apply_grad", "apply_indexed_slices_grad", "take_grad"],
    "C": ["3 contributors"],
    "F": [
        f"{case} {order}"
        for case in ("D1 64 staged N=3", "S1 10x4 N=3")
        for order in ("in order", "at random", "again")
    ],
    "V": ["1K during saves"],
    "E": [f"{place} {model}" for place in PLACES for model in ("2 x 4", "1 x 4 1K rows")],
    "R": ["1 ps 2 workers 3 x 4"],
}
_METRICS = {
    "D1": ["cycle"],
    "D2": ["apply", "take"],
    "D3": ["applies/s", "last apply to take"],
    "D4": ["cycle"],
    "S1": ["cycle"],
    "SZ": ["cycle"],
    "S2": ["growth", "growth of halves", "slowest apply", "take", "all"],
    "T": ["sum"],
    "P": ["call"],
    "C": ["apply"],
    "F": ["cycle"],
    "V": ["count", "apply"],
    "E": ["step"],
    "R": ["steps/s"],
}
_PEAKS = {
    case: [f"peak {number}, {units}" for number in (1, 2, 3, 8)]
    for case, units in {"dense 4K N=2": "gradients", "10x4 N=3": "unions"}.items()
}


def _run_benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(
        [*forked_python(), str(_ROOT / "benchmarks" / "run.py"), "--tree", *arguments]
    )


@dataclass(frozen=True)
class SmokeRun:
    """The output and the files of a run of all scenarios at a tiny size."""

    output: str
    folder: Path

    def lines(self, scenario: str) -> list[dict[str, Any]]:
        record = json.loads((self.folder / "latest.json").read_text())
        return [line for line in record["results"] if line["scenario"] == scenario]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> SmokeRun:
    scenarios = [*_RATIO_CASES] if versions.brings_keras2() else [*_RATIO_CASES, "G"]
    return _smoke_run(tmp_path_factory.mktemp("results"), *scenarios)


def _compare_builds(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(
        [sys.executable, str(_ROOT / "benchmarks" / "compare_builds.py"), *arguments]
    )


def _smoke_run(folder: Path, *scenarios: str) -> SmokeRun:
    run = _run_benchmark("--smoke", "--scenario", *scenarios, "--output", str(folder))
    assert run.returncode == 0, run.stderr
    return SmokeRun(run.stdout, folder)


def _check_report(run: SmokeRun, scenario: str, metrics: dict[str, list[str]], rounds: int) -> None:
    """Checks that a run has reported these metrics of each case of a scenario."""
    lines = run.lines(scenario)
    expected = [(case, metric) for case, each in metrics.items() for metric in each]
    assert [(line["case"], line["metric"]) for line in lines] == expected
    for line in lines:
        assert line["rounds"] == rounds
        assert line["ours"] > 0 and line["reference"] > 0
        low, high = line["quartiles"]
        assert 0 < low <= line["ratio"] <= high < np.inf
        assert line["case"] in run.output


@pytest.mark.benchmarks
@pytest.mark.parametrize("scenario", list(_RATIO_CASES))
def test_a_run_reports_every_case_of_a_scenario(scenario: str, smoke: SmokeRun):
    metrics = dict.fromkeys(_RATIO_CASES[scenario], _METRICS[scenario])
    if scenario == "P":
        metrics["tracing"] = ["trace"]
    _check_report(smoke, scenario, metrics, rounds=2)


@pytest.mark.benchmarks
@needs_keras3  # Keras 2 has no micro-batches to compare with.
def test_micro_batches_are_compared_with_each_way_to_accumulate_them(smoke: SmokeRun):
    """The program itself checks that all ways compute the same weights."""
    sides = ["Keras", "tf.Variable", "scatter_add", "Keras, by itself"]
    *lines, check, eager, eager_products, graph, graph_products = smoke.lines("G")
    assert (check["against"], check["metric"]) == ("no check", "cycle")
    for one, products in ((eager, eager_products), (graph, graph_products)):
        assert (one["against"], products["against"]) == ("unweighted", "assign_add")
        assert one["case"] == products["case"] and "3 small variables" in one["case"]
    assert [(line["against"], line["metric"]) for line in lines] == [
        (side, metric) for side in sides for metric in ("steps/s", "peak, MiB")
    ]
    assert all(line["rounds"] == 2 and 0 < line["ratio"] < np.inf for line in lines)
    assert [line["goal"] for line in lines[::2]] == [{"at_least": 1.0, "aim": None}] * 3 + [None]
    # The goal for memory is relative to each rival's peak, and so to the lowest.
    assert lines[-1]["goal"] is None
    for line in lines[1:-2:2]:
        assert line["goal"]["at_most"] == pytest.approx(1.05 * line["reference"])
    assert "(against Keras, by itself)" in smoke.output


@pytest.mark.long
def test_two_builds_are_compared():
    cases = ["D2 200 of 64", "D4 16M N=8 bfloat16", "S1 1Kx64 N=8", "SZ 10K", "S2", "R 1 ps 3 x 4"]
    run = _compare_builds(str(_ROOT), "--seconds", "0", "--processes", "2", "--case", *cases)
    assert run.returncode == 0, run.stderr
    names, *lines = run.stdout.splitlines()
    assert names.split()[:6] == ["case", "metric", "before", "after", "ratio", "quartiles"]
    for case, line in zip([cases[0], *cases[:-1], *["S2"] * 3, cases[-1]], lines, strict=True):
        assert " ".join(line.split()).startswith(case)
        ratio = r"([\d.]+)x +([\d.]+) to ([\d.]+) +\(against before\), "
        itself = r"itself ([\d.]+)x \(([\d.]+) to ([\d.]+)\)$"
        numbers = list(map(float, re.search(ratio + itself, line).groups()))
        for median, low, high in (numbers[:3], numbers[3:]):
            assert 0 < low <= median <= high


def test_a_folder_without_a_build_is_not_compared(tmp_path: Path):
    run = _compare_builds(str(tmp_path))
    assert run.returncode == 1
    assert f"{tmp_path} has no built tf_condacc: name a tree after `make build`" in run.stderr


@pytest.mark.long
def test_a_run_reports_the_peak_memory_which_varies_little_and_is_measured_once(tmp_path: Path):
    _check_report(_smoke_run(tmp_path, "M"), "M", _PEAKS, rounds=1)


@pytest.mark.benchmarks
def test_a_run_draws_the_cost_of_each_apply(smoke: SmokeRun):
    assert (smoke.folder / "latest.growth.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.benchmarks
def test_the_cost_of_each_apply_is_kept_for_both_sides(smoke: SmokeRun):
    [curves] = [line["curves"] for line in smoke.lines("S2") if line["curves"]]

    assert list(curves) == ["tf", "condacc"]
    assert all(len(seconds) == 4 + 1 and min(seconds) > 0 for seconds in curves.values())


@pytest.mark.benchmarks
def test_the_limit_is_compared_with_where_it_is_asked_for(tmp_path: Path):
    run = _run_benchmark("--smoke", "--scenario", "D1", "S1", "--limit", "--output", str(tmp_path))

    assert run.returncode == 0, run.stderr
    lines = json.loads((tmp_path / "latest.json").read_text())["results"]
    staged = shared = ["TensorFlow", "limit", "limit"]
    computed = ["TensorFlow"]  # The cycle includes the time to compute the gradients.
    against = [*staged, *computed, *shared, *["TensorFlow", "limit"] * 2]
    assert [line["against"] for line in lines] == against
    assert len([line for line in lines if line["case"].endswith(", net")]) == 2


@pytest.mark.parametrize(("count", "group_bytes"), [(2, 1 << 20), (9, 1 << 20), (9, 3 * 400)])
def test_the_limit_computes_the_mean(count: int, group_bytes: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limit, "_MAX_BYTES", group_bytes)
    case = limit.Limit(count, 100)
    case.measure()

    np.testing.assert_allclose(case.mean, np.ones(100), rtol=1e-6)
    case.close()


def test_a_case_refuses_an_accumulator_that_computes_something_else():
    def sum_instead_of_mean(*args, **kwargs):
        return tf.compat.v1.ConditionalAccumulator(*args, reduction_type="SUM", **kwargs)

    wrong = implementations.Implementation("wrong", sum_instead_of_mean, None, False, None)
    with pytest.raises(AssertionError, match="expected 8 times 1.0078125, got"):
        dense_cycle.DenseCycle(wrong, count=2, size=8)


def test_kept_gradients_stay_in_a_second_buffer_until_they_are_freed():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        stage = staging.Stage([tf.fill([3], 7.0)])
        num_kept = tf.raw_ops.StageSize(dtypes=[tf.float32], shared_name=stage.kept_name)
        [gradient] = stage.next()
        for _ in range(2):
            session.run(stage.fill_and_keep)
        np.testing.assert_array_equal(session.run(gradient), [7, 7, 7])
        assert session.run(num_kept) == 2

        session.run(stage.free_kept)
        assert session.run(num_kept) == 0
        np.testing.assert_array_equal(session.run(gradient), [7, 7, 7])
        session.run(stage.fill)
        assert session.run(num_kept) == 0


def test_rounds_rotate_and_ratios_are_paired_by_round():
    order: list[str] = []

    def case(name: str, times: list[float]) -> SimpleNamespace:
        left = iter(times)

        def measure() -> dict[str, float]:
            order.append(name)
            return {"cycle": next(left)}

        return SimpleNamespace(measure=measure, close=lambda: None)

    cases = {"tf": case("tf", [2.0, 20.0, 9.0]), "ours": case("ours", [1.0, 5.0, 2.0])}
    samples = rounds.run_rounds(cases, rounds.Budget(min_rounds=3, max_rounds=3, seconds=0))

    assert order == ["tf", "ours", "ours", "tf", "tf", "ours"]
    line = results.compare(samples, "ours", "tf", "cycle", scenario="D1", case="", parameters={})
    # The median of 2, 4 and 4.5. The ratio of the medians would be 4.5.
    assert line.ratio == 4.0
    assert line.quartiles == (3.0, 4.25)
    assert (line.reference, line.ours, line.rounds) == (9.0, 2.0, 3)


def test_a_rate_is_better_when_it_is_higher():
    assert rounds.times_better("applies/s", [30.0], [10.0]) == [3.0]
    assert rounds.times_better("cycle", [30.0], [10.0]) == [pytest.approx(1 / 3)]


def test_net_time_is_never_below_what_can_be_told_from_zero():
    assert rounds.net(3.0, 1.0) == 2.0
    assert rounds.net(1.0, 3.0) == rounds.RESOLUTION_OF_GROSS
    assert rounds.net(1e-6, 3.0) == rounds.RESOLUTION_SECONDS


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(0.9, "missed"), (1.5, "reached"), (2.4, "reached"), (2.5, "aim")]
)
def test_a_ratio_is_judged_by_its_goal(ratio: float, verdict: str):
    goal = goals.goal_of("D1", "1M staged N=8", "cycle", "TensorFlow", 1.0)
    assert goal == goals.Goal(1.5, 2.5)
    assert goal.verdict(ratio) == verdict


@pytest.mark.parametrize(("value", "verdict"), [(0.9, "aim"), (1.9, "reached"), (2.1, "missed")])
def test_a_limit_judges_our_own_figure(value: float, verdict: str):
    sides = {"ours": {"growth": [value]}, "tf": {"growth": [30.0]}}
    result = results.compare(
        sides, "ours", "tf", "growth", scenario="S2", case="10Kx64 to N=128", parameters={}
    )

    assert result.goal == goals.Limit(2, aim=1.3)
    assert result.verdict == verdict


def test_a_limit_can_be_relative_to_the_other_side():
    goal = goals.goal_of("P", "apply_grad", "call", "raw op", 20e-6)
    assert str(goal) == "<=30.0 / 25.0 us"


@pytest.mark.parametrize(
    ("case", "metric", "against"),
    [
        ("1K staged N=8", "cycle", "TensorFlow"),  # It is too small.
        ("1M staged N=8", "apply", "TensorFlow"),
        ("1M staged N=8", "cycle", "before"),  # compare_builds.py compares two builds.
    ],
)
def test_other_lines_have_no_goal(case: str, metric: str, against: str):
    assert goals.goal_of("D1", case, metric, against, 1.0) is None
