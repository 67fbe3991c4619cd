"""The scenarios of training: synchronous with workers, and from micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from condacc_bench import goals
from condacc_bench.micro_batches import MicroBatches
from condacc_bench.replica_cluster import ReplicaCluster
from condacc_bench.replica_threads import PLACES, ReplicaThreads
from condacc_bench.results import Result
from condacc_bench.runs import Run


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
                goal=goals.synchronous_step(model.hidden),
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
            goal=goals.cluster_steps(model.num_ps, model.steps),
        )


def micro_batches(run: Run) -> Iterator[Result]:
    """G: measures micro-batches per second, and peak memory, beside Keras' own accumulation."""
    scale = run.scale.sync
    for model in scale.micro_batch_models:
        samples = run.measure(
            lambda who, m=model: MicroBatches(who, m, scale.model_steps), {}, scale.budget
        )
        for metric in ("steps/s", "peak, MiB"):
            yield run.compare(
                samples,
                metric,
                scenario="G",
                case=str(model),
                parameters=asdict(model),
                against="Keras",
            )
