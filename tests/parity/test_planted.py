"""Faults that are planted in a wrapper of an optimizer are found; right wrappers raise no alarm."""

from __future__ import annotations

import functools
import os
import warnings

import pytest
import tensorflow as tf

from tests.parity.wrappers import RIGHT, faulty, keras_wrapper, training
from tests.processes.isolated import isolated
from tests.support.versions import needs_keras3
from tests.support.wide import all_but_wide
from tf_condacc import parity

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
pytestmark = isolated()
_CPUS = ["CPU:0", "CPU:1"]
HERE = {
    "mirrored": parity.mirrored(2),
    "central": parity.under(
        lambda: tf.distribute.experimental.CentralStorageStrategy(_CPUS), "CentralStorageStrategy"
    ),
    "towers": parity.towers(2),
    "accumulators": parity.accumulators(2),
}
PROCESSES = {
    "multi_worker": parity.multi_worker(2),
    "parameter_servers": parity.parameter_servers(2),
}
SETUPS = HERE | PROCESSES
OF_REPLICAS = ("mirrored", "central", "multi_worker")
# For each fault, the setups in which the weights differ, and what the report says there.
DIFFERS = {
    "sum": (OF_REPLICAS, "the optimizer sums over the replicas what is a mean"),
    "state": (OF_REPLICAS, "state of "),  # It is not mirrored, or that of one replica is used.
    "rows": (OF_REPLICAS, "the optimizer loses or alters rows that are repeated"),
    "loss": (OF_REPLICAS, "the loss is not divided by the number of replicas, 2"),
    "dependency": (("towers",), ""),
}
# What the report remarks of a fault that the weights need not show.
REMARKS = {
    "rows": "rows that are repeated are lost",
    "densified": "it is made dense",
    "repeated": "rows are repeated",
}
FAULTS = [*DIFFERS, "densified", "repeated"]
QUICK = [
    ("sum", "mirrored"),
    ("state", "mirrored"),
    ("rows", "mirrored"),
    ("loss", "mirrored"),
    ("dependency", "towers"),
    ("densified", "accumulators"),
    ("repeated", "accumulators"),
]


@pytest.fixture(scope="module", autouse=True)
def two_cpus():
    parity.use_logical_cpus(2)


def check(fault: str, *names: str) -> None:
    """Checks that a fault is found in each of some setups in which it has an effect."""
    report = parity.compare(faulty(fault), [SETUPS[name] for name in names])
    text = str(report)
    differing, cause = DIFFERS.get(fault, ((), ""))
    expected = {SETUPS[name].name for name in names if name in differing}
    found = {each.first for each in report.differences if each.second == "one big batch"}
    assert found == expected, text
    assert REMARKS.get(fault, "") in text
    for name in expected:
        assert not cause or any(name in each and cause in each for each in report.hints), text
    if not expected and fault not in REMARKS:
        assert not report.hints, text


@pytest.mark.parametrize(
    "case",
    all_but_wide([(fault, setup) for fault in FAULTS for setup in HERE], QUICK),
    ids=" in ".join,
)
def test_a_planted_fault_is_found_where_it_has_an_effect(case):
    check(*case)


@needs_keras3
@pytest.mark.parametrize("fault", REMARKS)
def test_a_wrapper_of_keras_that_alters_rows_is_warned_about(fault):
    optimizer = functools.partial(keras_wrapper, fault)
    with pytest.warns(UserWarning, match=f"SGD, which it wraps, gets .*{REMARKS[fault]}"):
        parity.assert_parity(training(optimizer), [parity.mirrored(2), parity.accumulators(2)])


@needs_keras3
def test_a_right_wrapper_of_keras_raises_no_alarm():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parity.assert_parity(training(keras_wrapper), [parity.mirrored(2), parity.accumulators(2)])


@pytest.mark.multi_worker
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_in_processes(fault):
    check(fault, *PROCESSES)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_wrapper_raises_no_alarm(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parity.assert_parity(training(RIGHT[name]), [*HERE.values(), parity.mirrored(2, 2)])


@pytest.mark.multi_worker
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_wrapper_raises_no_alarm_in_processes(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parity.assert_parity(training(RIGHT[name]), list(PROCESSES.values()))
