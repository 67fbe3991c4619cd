"""Tests of accumulators in SavedModels and checkpoints."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.processes.forked_python import forked_python
from tests.support.accumulator_support import unique_name
from tests.support.waiting import run_program

v1 = tf.compat.v1

# Loads the SavedModel of the first argument before and after the import of the package.
LOADER = """
import sys
import tensorflow as tf
v1 = tf.compat.v1

def load_in_a_session():
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], sys.argv[1])

for load in (lambda: tf.saved_model.load(sys.argv[1]), load_in_a_session):
    try:
        load()
    except (RuntimeError, tf.errors.NotFoundError) as error:
        assert "Op type not registered 'Condacc>Import_tf_condacc_first'" in str(error), error
    else:
        raise AssertionError("The SavedModel was loaded without its operations.")
import tf_condacc
print(tf.saved_model.load(sys.argv[1]).apply(tf.constant([1.0, 2.0]))["used"].numpy())
"""


class Counting(tf.Module):
    """A module with two accumulators, whose function applies a gradient to the first one."""

    def __init__(self, make: Any, **arguments: Any):
        super().__init__()
        used, other = make(tf.float32, [2], **arguments), make(tf.float32, [2])
        # The sparse kind is wrapped in an object that TensorFlow does not track.
        self.tracked = [getattr(one, "_accumulator", one) for one in (used, other)]

        @tf.function(input_signature=[tf.TensorSpec([2])])
        def apply(gradient):
            used.apply_grad(gradient)
            return {"used": used.num_accumulated(), "other": other.num_accumulated()}

        self.apply = apply


def counts(module: Any) -> tuple[int, int]:
    outputs = module.apply(tf.constant([1.0, 2.0]))
    return int(outputs["used"]), int(outputs["other"])


@pytest.fixture
def folder(tmp_path) -> str:
    return str(tmp_path / "saved")


def test_loaded_function_with_a_shared_name_does_not_share_state_with_the_exported_one(
    ours, folder
):
    module = Counting(ours.dense, shared_name=unique_name())
    counts(module)
    tf.saved_model.save(module, folder)
    assert counts(tf.saved_model.load(folder)) == (1, 0)
    assert counts(module) == (2, 0)


def test_loaded_function_can_be_exported_again(ours, folder):
    tf.saved_model.save(Counting(ours.dense), folder)
    tf.saved_model.save(tf.saved_model.load(folder), folder + "2")
    loaded = tf.saved_model.load(folder + "2")
    assert [counts(loaded), counts(loaded)] == [(1, 0), (2, 0)]


def test_accumulators_keep_their_gradients_between_runs_of_a_session(ours, folder):
    tf.saved_model.save(Counting(ours.dense), folder)
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], folder).signature_def["serving_default"]
        outputs = {key: info.name for key, info in signature.outputs.items()}
        feed = {info.name: np.float32([1.0, 2.0]) for info in signature.inputs.values()}
        assert session.run(outputs, feed) == {"used": 1, "other": 0}
        assert session.run(outputs, feed) == {"used": 2, "other": 0}


def test_process_that_loads_without_the_package_is_told_to_import_it(ours, folder):
    tf.saved_model.save(Counting(ours.dense), folder)
    done = run_program(
        [*forked_python(), "-c", LOADER, folder],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"]


def test_every_function_of_a_saved_model_says_first_what_to_import(ours, folder):
    class Branching(Counting):
        def __init__(self):
            super().__init__(ours.dense)
            (used, _) = self.tracked

            @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
            def loop(number):
                for _ in tf.range(number):
                    if number > 1:
                        used.reset(0)
                return used.num_accumulated()

            self.loop = loop

    tf.saved_model.save(Branching(), folder)
    model = saved_model_pb2.SavedModel.FromString(Path(folder, "saved_model.pb").read_bytes())
    (graph,) = (one.graph_def for one in model.meta_graphs)
    parts = {field.name: part for field, part in graph.ListFields()}
    bodies = [parts["node"], *(function.node_def for function in parts["library"].function)]
    ours_of_each = [[node.op for node in body if "Condacc>" in node.op] for body in bodies]
    using = [types for types in ours_of_each if types]
    # The graph, `apply`, `loop` and its branch, and the creators of two accumulators.
    assert len(using) == 6
    for first, *others in using:
        assert first == "Condacc>Import_tf_condacc_first"
        assert others and first not in others
