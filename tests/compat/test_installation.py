"""Names of TensorFlow 1: installed in all forms of import, and uninstalled exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from condacc import versions
from tests.compat import processes
from tests.processes.forked_python import forked_python

pytestmark = pytest.mark.programs
HERE = Path(__file__).resolve().parent

CELL = "tf.contrib.rnn.BasicLSTMCell"  # It needs Keras 2.


@pytest.fixture(scope="module")
def report():
    """What a process found that has installed and uninstalled the names."""
    run = processes.run(*forked_python(), HERE / "installation.py")
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


EXPECTED = {
    "failed imports": [],  # Every form of import works first and alone.
    "ours": [True] * 16,  # Accumulators and optimizers are ours wherever TensorFlow has them.
    "renamed": [True] * 6,  # Renamed parts of contrib are what TensorFlow has today.
    "unresolved": [],  # Every name in the table of contrib has an object.
    "devices": ["/job:worker/task:3/device:CPU:1", "/job:ps/task:3"],  # Those of version 1.
    "differences": [],  # Nothing is left after uninstall.
    "restored": [True] * 6,
    "hasattr": [True, False],
}


@pytest.mark.parametrize("part", EXPECTED)
def test_names_are_installed_and_uninstalled(part, report):
    found = report[part]
    values = list(found.values()) if isinstance(found, dict) else found
    assert values == EXPECTED[part], found


def test_a_missing_name_says_what_is_provided_and_what_to_use_instead(report):
    if versions.brings_keras2():
        assert report["missing"].pop(CELL) == "no error"
    else:
        assert "--keras2" in report["missing"][CELL]
    for name, error in report["missing"].items():
        assert error.startswith(f"MissingNameError: {name} is not provided")
    for name, advice in {
        "training.RandomStrategy": "tf_condacc.cluster.GreedyLoadBalancingStrategy",
        "layers.sparse_column_with_hash_bucket": "categorical_column_with_hash_bucket",
        "nn.alpha_dropout": "for alpha_dropout tf.keras.layers.AlphaDropout",
        "legacy_seq2seq": 'the section "seq2seq, legacy_seq2seq and crf"',
        "data.batch_and_drop_remainder": "dataset.batch(n, drop_remainder=True)",
    }.items():
        assert advice in report["missing"][f"tf.contrib.{name}"]
    assert "provides DropStaleGradientOptimizer" in report["missing"]["tf.contrib.crf"]


def test_a_missing_import_says_what_to_use_instead(report):
    prefix = "MissingModuleError: tf.contrib.opt.AdamWOptimizer is not provided. Instead: "
    assert report["missing import"].startswith(prefix)
    assert "tf.contrib.crf is not provided. Instead: " in report["missing module"]


def test_only_names_of_slim_need_slim(report):
    errors = report["without slim"]
    provided = [statement for statement, error in errors.items() if error == "no error"]
    assert provided == [
        "tf.contrib.framework.get_global_step",
        "from tensorflow.contrib.opt import DropStaleGradientOptimizer",
    ]
    missing = [error for error in errors.values() if error != "no error"]
    assert all(error.endswith("pip install tf-slim") for error in missing)
