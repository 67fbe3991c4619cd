"""Tests that junk neither ends the process nor changes what a failing call must not change."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.junk.junk import Junk, registered_ops
from tests.processes.forked_python import forked_python
from tests.support import waiting
from tf_condacc._ops.native import ops


@pytest.mark.junk
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 21))]
)
def test_no_op_dies_of_junk(part, seed, tmp_path, monkeypatch):
    calls, last = 580 if part == 0 else 1000, tmp_path / "last call"
    monkeypatch.setattr(waiting, "shown_logs", [lambda: {"last call": last.read_text()}])
    program = [*forked_python(), "-m", "tests.junk.junk", str(calls), str(seed), str(last)]
    done = waiting.run_program(program)
    assert done.returncode == 0, f"{last.read_text()}\n{done.stdout}\n{done.stderr[-5000:]}"
    assert f"{calls} calls of {len(registered_ops())} ops" in done.stdout


class Faulty(Junk):
    """Makes one call of each op, of which those of a name change the state and fail."""

    def _call(self, definition, values, attributes, manager):
        if definition.name == "Condacc>DenseApply":
            handle = self._handles["dense"][0]
            values[0] = handle
            ops.condacc_accumulator_set_global_step(handle, tf.constant(7, tf.int64))
        raise tf.errors.InvalidArgumentError(None, None, "refused")


def test_a_call_that_fails_and_changes_the_state_is_found():
    junk = Faulty(1)
    junk.renew_handles()
    (apply,) = (each for each in registered_ops() if each.name == "Condacc>DenseApply")
    values, attributes = junk._arguments(apply)
    values[0] = junk._handles["dense"][0]
    junk._check(apply, values, attributes, "the call")
    (failure,) = junk.failures
    assert failure.startswith("the call: [(2, 0, 0)] became [(2, 0, 7)]")
