"""Parity of trainings: one training, run in several setups, must learn the same weights.

`assert_parity` and the pytest fixture ``parity`` train with one big batch, the baseline, and in
other setups: under strategies, with accumulators, towers and synchronous replicas. They compare the
weights after each step. The page docs/guides/parity.md shows how they are used. This package is
imported when it is first used.
"""

from tf_condacc.parity._comparison import assert_parity, compare, default_setups
from tf_condacc.parity._condacc_setups import accumulators, sync_replicas, towers
from tf_condacc.parity._difference import Difference
from tf_condacc.parity._report import ParityError, Report
from tf_condacc.parity._setup import Run, Setup
from tf_condacc.parity._strategy_setups import (
    big_batch,
    mirrored,
    one_device,
    reversed_batch,
    under,
    use_logical_cpus,
)
from tf_condacc.parity._tolerance import Tolerance
from tf_condacc.parity._training import Model, Training

__all__ = [
    "Difference",
    "Model",
    "ParityError",
    "Report",
    "Run",
    "Setup",
    "Tolerance",
    "Training",
    "accumulators",
    "assert_parity",
    "big_batch",
    "compare",
    "default_setups",
    "mirrored",
    "one_device",
    "reversed_batch",
    "sync_replicas",
    "towers",
    "under",
    "use_logical_cpus",
]
