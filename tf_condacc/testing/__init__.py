"""Parity of trainings: one training, run in several ways, must learn the same weights.

`assert_parity` and the pytest fixture ``parity`` train with one big batch, under strategies, with
accumulators, towers and synchronous replicas, and compare the weights after each step. The page
docs/parity.md shows how they are used. This package is imported when it is first used.
"""

from tf_condacc.testing.accumulator_way import accumulators
from tf_condacc.testing.devices import use_logical_cpus
from tf_condacc.testing.difference import Difference
from tf_condacc.testing.parity import assert_parity, compare, default_ways
from tf_condacc.testing.report import ParityError, Report
from tf_condacc.testing.strategy_ways import big_batch, mirrored, one_device, reversed_batch, under
from tf_condacc.testing.sync_replicas_way import sync_replicas
from tf_condacc.testing.tolerance import Tolerance
from tf_condacc.testing.tower_way import towers
from tf_condacc.testing.training import Model, Training
from tf_condacc.testing.way import Run, Way

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
