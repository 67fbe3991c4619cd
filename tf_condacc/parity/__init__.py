"""Parity of trainings: one training, run in several ways, must learn the same weights.

`assert_parity` and the pytest fixture ``parity`` train with one big batch, under strategies, with
accumulators, towers and synchronous replicas, and compare the weights after each step. The page
docs/parity.md shows how they are used. This package is imported when it is first used.
"""

from tf_condacc.parity._accumulator_setups import accumulators
from tf_condacc.parity._comparison import assert_parity, compare, default_ways
from tf_condacc.parity._devices import use_logical_cpus
from tf_condacc.parity._difference import Difference
from tf_condacc.parity._report import ParityError, Report
from tf_condacc.parity._setup import Run, Way
from tf_condacc.parity._strategy_setups import (
    big_batch,
    mirrored,
    one_device,
    reversed_batch,
    under,
)
from tf_condacc.parity._sync_replicas_setups import sync_replicas
from tf_condacc.parity._tolerance import Tolerance
from tf_condacc.parity._tower_setups import towers
from tf_condacc.parity._training import Model, Training

__all__ = [
    "Difference",
    "Model",
    "ParityError",
    "Report",
    "Run",
    "Tolerance",
    "Training",
    "Way",
    "accumulators",
    "assert_parity",
    "big_batch",
    "compare",
    "default_ways",
    "mirrored",
    "one_device",
    "reversed_batch",
    "sync_replicas",
    "towers",
    "under",
    "use_logical_cpus",
]
