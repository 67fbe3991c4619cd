"""A run of the benchmark: the implementations that are compared, and the sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from condacc_bench import rounds
from condacc_bench.implementations import Implementation
from condacc_bench.report.results import Result, compare
from condacc_bench.scales import Scale


@dataclass(frozen=True)
class Run:
    """The settings of a run, for the scenarios."""

    ours: Implementation
    reference: Implementation
    scale: Scale
    with_limit: bool

    @property
    def both(self) -> list[Implementation]:
        return [self.reference, self.ours]

    def measure(
        self,
        new_case: Callable[[Implementation], rounds.Case],
        others: Mapping[str, Callable[[], rounds.Case]],
        budget: rounds.Budget | None = None,
    ) -> rounds.Samples:
        """Returns samples of both implementations, and of further cases in the same rounds."""
        cases: dict[str, rounds.Case] = {}
        try:
            for implementation in self.both:
                cases[implementation.name] = new_case(implementation)
            for name, new_other in others.items():
                cases[name] = new_other()
            return rounds.run_rounds(cases, budget or self.scale.budget)
        finally:
            rounds.close(cases)

    def compare(self, samples: rounds.Samples, metric: str, **fields: object) -> Result:
        return compare(samples, self.ours.name, self.reference.name, metric, **fields)
