"""Tests of Keras 3 layers in a model_fn, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.forked_python import forked_python

PROGRAMS = Path(__file__).resolve().parents[1] / "support" / "keras_programs.py"


def run(program: str, folder: Path, legacy: bool = False) -> None:
    """Runs one of the programs; with `legacy`, TensorFlow does not import Keras 3 by itself."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if not legacy:
        del environment["TF_USE_LEGACY_KERAS"]
    done = subprocess.run(
        [*forked_python(), str(PROGRAMS), program, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr


def test_a_model_with_keras_layers_runs_from_end_to_end(tmp_path: Path):
    run("run_with_keras_there_before", tmp_path)


def test_a_model_fn_may_be_the_first_to_import_keras(tmp_path: Path):
    run("run_with_keras_first_imported_by_the_model_fn", tmp_path, legacy=True)


def test_keras_layers_in_towers_run_from_end_to_end_with_a_warning(tmp_path: Path):
    run("run_with_towers", tmp_path)
