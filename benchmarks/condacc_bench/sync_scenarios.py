"""The scenarios of training: synchronous with workers, and from micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from condacc_bench import rounds
from condacc_bench.cases import own_loops
from condacc_bench.cases.finite_check import NUM_MICRO_BATCHES, SIZE, FiniteCheck
from condacc_bench.cases.micro_batches import KERAS, OURS, MicroBatches, rivals
from condacc_bench.cases.own_loops import OwnLoop
from condacc_bench.cases.replica_cluster import ReplicaCluster
from condacc_bench.cases.replica_threads import PLACES, ReplicaThreads
from condacc_bench.report import results
from condacc_bench.report.results import Result
from condacc_bench.runs import Run
from condacc_bench.scales import SyncModel, SyncScale

_AGAIN = "Keras again"


def threads(run: Run) -> Iterator[Result]:
    """E: measures a step of two workers in one process."""
    scale = run.scale.sync
    for place in PLACES:
        for model in scale.models:
            samples = run.measure(
                lambda who, m=model, p=place: ReplicaThreads(who, m, p, scale.model_steps),
                {},
                scale.budget,
            )
            yield run.compare(
                samples,
                "step",
                scenario="E",
                case=f"{place} {model}",
                parameters={"place": place, **asdict(model)},
            )


def clusters(run: Run) -> Iterator[Result]:
    """R: measures steps per second, with a process for each server and worker."""
    scale = run.scale.sync
    for model in scale.clusters:
        samples = run.measure(ReplicaCluster(run.both, model).case, {}, scale.cluster_budget)
        yield run.compare(
            samples,
            "steps/s",
            scenario="R",
            case=str(model),
            parameters=asdict(model),
        )


def micro_batches(run: Run) -> Iterator[Result]:
    """G: measures micro-batches per second, and peak memory, beside other ways to accumulate.

    The last two lines of a model compare Keras with itself, which shows the machine's noise. The
    lines after all models compare our own cycle with and without a check of the gradients, and
    calls in loops of the program's own with and without weights, and beside variables.
    """
    scale = run.scale.sync
    for model in scale.micro_batch_models:
        ways = {run.ours.name: OURS if run.ours.name == "condacc" else KERAS}
        ways |= {way: way for way in rivals(bool(model.embedding))} | {_AGAIN: KERAS}
        samples = _measured(ways, model, scale)
        for way in (*rivals(bool(model.embedding)), _AGAIN):
            one, other = (run.ours.name, way) if way != _AGAIN else (_AGAIN, KERAS)
            for metric in ("steps/s", "peak, MiB"):
                yield results.compare(
                    samples,
                    one,
                    other,
                    metric,
                    scenario="G",
                    case=str(model),
                    parameters=asdict(model),
                    against=way if way != _AGAIN else f"{KERAS}, by itself",
                )
    if run.ours.name == "condacc":
        yield _finite_check(scale)
        yield from _own_loops(scale)


def _finite_check(scale: SyncScale) -> Result:
    """Measures what ``skip_non_finite`` costs."""
    cases = {"checked": FiniteCheck(True), "unchecked": FiniteCheck(False)}
    samples = rounds.run_rounds(cases, scale.budget)
    return results.compare(
        samples,
        "checked",
        "unchecked",
        "cycle",
        scenario="G",
        case=f"skip_non_finite, {NUM_MICRO_BATCHES} x {SIZE} elements",
        parameters={"size": SIZE, "num_micro_batches": NUM_MICRO_BATCHES},
        against="no check",
    )


def _own_loops(scale: SyncScale) -> Iterator[Result]:
    """Measures micro-batches of many small variables in loops of the program's own."""
    for place in own_loops.PLACES:
        cases = {way: OwnLoop(way, place, scale.num_small_variables) for way in own_loops.WAYS}
        samples = rounds.run_rounds(cases, scale.budget)
        rounds.close(cases)
        for other in own_loops.WAYS[1:]:
            yield results.compare(
                samples,
                "weighted",
                other,
                "call",
                scenario="G",
                case=f"{place}, {scale.num_small_variables} small variables with weights",
                parameters={"num_variables": scale.num_small_variables, "place": place},
                against=other,
            )


def _measured(ways: Mapping[str, str], model: SyncModel, scale: SyncScale) -> rounds.Samples:
    """Measures ways to accumulate, which must all compute the same weights."""
    cases: dict[str, MicroBatches] = {}
    try:
        for name, way in ways.items():
            cases[name] = MicroBatches(way, model, scale.micro_batch_updates)
        norms = {name: case.norm for name, case in cases.items()}
        if max(norms.values()) - min(norms.values()) > 1e-5 * max(norms.values()):
            raise AssertionError(f"expected the same weights after an update, got norms {norms}")
        return rounds.run_rounds(cases, scale.micro_batch_budget)
    finally:
        rounds.close(cases)
