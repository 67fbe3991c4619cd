"""Parity of trainings: one training, run in several setups, must learn the same weights.

`assert_parity` and the pytest fixture ``parity`` train with one big batch, the baseline, and in
other setups: under strategies, with accumulators, towers and synchronous replicas. They compare the
weights after each step. The page docs/guides/parity.md shows how they are used. This package is
imported when it is first used.
"""

from tf_condacc.parity._comparison import assert_parity, compare
from tf_condacc.parity._condacc_setups import accumulators, sync_replicas, towers
from tf_condacc.parity._processes import multi_worker, parameter_servers
from tf_condacc.parity._report import ParityError
from tf_condacc.parity._setup import Run, Setup
from tf_condacc.parity._strategy_setups import mirrored, one_device, under, use_logical_cpus
from tf_condacc.parity._tolerance import Tolerance
from tf_condacc.parity._training import Training

__all__ = [
    "ParityError",
    "Run",
    "Setup",
    "Tolerance",
    "Training",
    "accumulators",
    "assert_parity",
    "compare",
    "mirrored",
    "multi_worker",
    "one_device",
    "parameter_servers",
    "sync_replicas",
    "towers",
    "under",
    "use_logical_cpus",
]
