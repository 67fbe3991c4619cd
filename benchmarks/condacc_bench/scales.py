"""The sizes of the cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from condacc_bench.report.goals import KI, MI
from condacc_bench.report.results import in_words
from condacc_bench.rounds import Budget

# Rows that are narrower and wider than most, some of them no multiple of a vector of the processor.
_WIDTHS = [
    *product([10_000], [1, 7, 16, 40, 1000], [32]),
    *product([10_000], [256], [8, 32, 128]),
    *product([100_000], [256], [8, 32]),
]
_ROWS = [1_000, 10_000, 100_000]
_TOWER_SUMS = [*product([KI, 64 * KI, MI, 16 * MI], [2, 4, 8], ["staged", "shared"])]

_FIXED_ORDER = [*product([64 * KI, MI, 16 * MI], [8], ["staged", "shared"]), (MI, 32, "staged")]
_SPARSE_FIXED_ORDER = [(1_000, 64, 32), (10_000, 64, 8), (10_000, 64, 32), (100_000, 64, 8)]


@dataclass(frozen=True)
class MemoryScale:
    """The sizes of the measurements of memory."""

    size: int  # Elements of a dense gradient.
    dense: Sequence[int]  # Numbers of gradients.
    sparse: Sequence[tuple[int, int]]  # Rows of a gradient, and number of gradients.


@dataclass(frozen=True)
class SparseScale:
    """The sizes of the cases with sparse gradients."""

    uniform: Sequence[tuple[int, int, int]]  # Rows, columns and number of gradients.
    fixed_order: Sequence[tuple[int, int, int]]  # The same.
    power_law: Sequence[tuple[int, int]]  # Rows of a gradient, and number of gradients.
    growth: tuple[int, int]  # Rows of a gradient, and number of gradients.
    memory: MemoryScale
    budget: Budget
    num_rows: int = MI
    columns: int = 64


@dataclass(frozen=True)
class SyncModel:
    """A model of layers that are square matrices, perhaps on rows of an embedding."""

    hidden: int
    layers: int
    batch: int
    embedding: int = 0  # Number of rows; 0 for a dense input.

    def __str__(self) -> str:
        rows = f" {self.embedding // 1000}K rows" if self.embedding else ""
        return f"{self.layers} x {self.hidden}{rows}"


@dataclass(frozen=True)
class ClusterModel:
    """A cluster, and the variables on its parameter servers."""

    num_ps: int
    num_workers: int
    variables: int
    elements: int  # Elements of a variable.
    steps: int  # Steps in a round.

    def __str__(self) -> str:
        variables = f"{self.variables} x {in_words(self.elements)}"
        return f"{self.num_ps} ps {self.num_workers} workers {variables}"


@dataclass(frozen=True)
class SyncScale:
    """The sizes of synchronous training with workers."""

    clusters: Sequence[ClusterModel]
    cluster_budget: Budget
    models: Sequence[SyncModel]
    model_steps: int  # Steps in a round.
    micro_batch_models: Sequence[SyncModel]
    micro_batch_updates: int  # Updates in a round.
    micro_batch_budget: Budget
    num_small_variables: int  # In a loop of the program's own.
    budget: Budget


@dataclass(frozen=True)
class Scale:
    """The sizes of a run."""

    cycles: Sequence[tuple[int, int, str]]  # Elements, number of gradients, producer.
    small_variables: tuple[int, int]  # Number of variables, elements of each.
    contention: Sequence[tuple[int, int, str]]  # Threads, elements, producer.
    other_dtypes: Sequence[tuple[int, int]]  # Elements, number of gradients.
    tower_sums: Sequence[tuple[int, int, str]]  # Elements, number of gradients, producer.
    contributors: Sequence[int]  # Numbers of contributors in a round.
    fixed_order: Sequence[tuple[int, int, str]]  # Elements, number of gradients, and producer.
    saves: Sequence[int]  # Elements of gradients.
    budget: Budget
    sparse: SparseScale
    sync: SyncScale


_MODELS = [
    SyncModel(64, 4, 32),
    SyncModel(64, 50, 32),
    SyncModel(1024, 4, 64),
    SyncModel(2048, 4, 16),
    SyncModel(64, 2, 8192, 100_000),
]

_MICRO_BATCH_MODELS = [
    SyncModel(64, 50, 32),
    SyncModel(1024, 4, 64),
    SyncModel(64, 2, 1024, 400_000),
]


def _sync_scale(seconds: float) -> SyncScale:
    return SyncScale(
        clusters=[
            ClusterModel(num_ps, 2, variables, elements, steps)
            for variables, elements, steps in [(3, 4, 100), (50, KI, 40), (4, 640 * KI, 20)]
            for num_ps in (1, 2)
        ],
        cluster_budget=Budget(min_rounds=30, max_rounds=60, seconds=8 * seconds),
        models=_MODELS,
        model_steps=20,
        micro_batch_models=_MICRO_BATCH_MODELS,
        micro_batch_updates=5,
        micro_batch_budget=Budget(min_rounds=7, max_rounds=400, seconds=4 * seconds),
        num_small_variables=200,
        budget=Budget(min_rounds=7, max_rounds=41, seconds=2 * seconds),
    )


def default_scale(seconds: float) -> Scale:
    """Returns the sizes of most goals, which take a few minutes."""
    return Scale(
        cycles=[
            *product([64 * KI, MI, 16 * MI], [1, 4, 8, 32], ["staged"]),
            *product([MI, 16 * MI], [1, 8], ["shared"]),
            (16 * MI, 8, "mul"),
            (64 * MI, 8, "staged"),
        ],
        small_variables=(200, 4 * KI),
        contention=[(4, MI, "shared"), (4, 16 * MI, "mul")],
        other_dtypes=[(16 * MI, 8)],
        tower_sums=_TOWER_SUMS,
        contributors=(100, 1000, 10_000),
        fixed_order=_FIXED_ORDER,
        saves=(MI, 16 * MI),
        budget=Budget(min_rounds=5, max_rounds=41, seconds=seconds),
        sparse=SparseScale(
            uniform=[*product(_ROWS, [64], [1, 8, 32, 128]), *_WIDTHS],
            fixed_order=_SPARSE_FIXED_ORDER,
            power_law=[*product(_ROWS[1:], [8])],
            growth=(10_000, 128),
            memory=MemoryScale(64 * MI, dense=[4], sparse=[(100_000, 8), (100_000, 32)]),
            budget=Budget(min_rounds=3, max_rounds=41, seconds=0.6 * seconds),
        ),
        sync=_sync_scale(seconds),
    )


def full_scale(seconds: float) -> Scale:
    """Returns all sizes."""
    sizes, counts = [KI, 64 * KI, MI, 16 * MI, 64 * MI], [1, 4, 8, 32]
    return Scale(
        cycles=[*product(sizes, counts, ["staged", "shared", "mul"])],
        small_variables=(200, 4 * KI),
        contention=[*product([4, 16], [4 * KI, MI, 16 * MI], ["shared", "mul"])],
        other_dtypes=[*product([MI, 16 * MI], [8])],
        tower_sums=_TOWER_SUMS,
        contributors=(100, 1000, 10_000),
        fixed_order=_FIXED_ORDER,
        saves=(MI, 16 * MI),
        budget=Budget(min_rounds=7, max_rounds=41, seconds=seconds),
        sparse=SparseScale(
            uniform=[*product(_ROWS, [16, 64, 256], [1, 8, 32, 128]), *_WIDTHS],
            fixed_order=_SPARSE_FIXED_ORDER,
            power_law=[*product(_ROWS[1:], [1, 8, 32])],
            growth=(10_000, 128),
            memory=MemoryScale(64 * MI, dense=[1, 4, 16], sparse=[*product(_ROWS[2:], [1, 8, 32])]),
            budget=Budget(min_rounds=7, max_rounds=41, seconds=seconds),
        ),
        sync=_sync_scale(2 * seconds),
    )


def smoke_scale() -> Scale:
    """Returns one tiny size for every kind of case, to show that it works."""
    return Scale(
        cycles=[(64, 2, "staged"), (64, 3, "mul"), (64, 2, "shared")],
        small_variables=(3, 16),
        contention=[(2, 64, "shared"), (2, 64, "mul")],
        other_dtypes=[(64, 2)],
        tower_sums=[(64, 2, "staged"), (128 * KI, 3, "shared")],
        contributors=(3,),
        fixed_order=[(64, 3, "staged")],
        saves=(KI,),
        budget=Budget(min_rounds=2, max_rounds=2, seconds=0),
        sparse=SparseScale(
            uniform=[(10, 4, 1), (10, 4, 3)],
            fixed_order=[(10, 4, 3)],
            power_law=[(10, 3)],
            growth=(10, 4),
            memory=MemoryScale(4 * KI, dense=[2], sparse=[(10, 3)]),
            budget=Budget(min_rounds=2, max_rounds=2, seconds=0),
            num_rows=50,
            columns=4,
        ),
        sync=SyncScale(
            clusters=[ClusterModel(1, 2, 3, 4, 3)],
            cluster_budget=Budget(min_rounds=2, max_rounds=2, seconds=0),
            models=[SyncModel(4, 2, 3), SyncModel(4, 1, 3, 1000)],
            model_steps=2,
            micro_batch_models=[SyncModel(4, 1, 3, 1000)],
            micro_batch_updates=2,
            micro_batch_budget=Budget(min_rounds=2, max_rounds=2, seconds=0),
            num_small_variables=3,
            budget=Budget(min_rounds=2, max_rounds=2, seconds=0),
        ),
    )
