"""Tests of accumulators in the checkpoints of sessions."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.compat import v1

import tf_condacc


class Training:
    """A graph with a variable, a dense accumulator and a sparse one."""

    def __init__(self) -> None:
        self.step = v1.train.get_or_create_global_step()
        self.dense = tf_condacc.ConditionalAccumulator(tf.float32, [2], name="dense")
        with tf.name_scope("scope"):
            self.sparse = tf_condacc.SparseConditionalAccumulator(tf.float32, [9, 1], name="sparse")
        slices = tf.IndexedSlices([[1.0]], [4])
        self.apply = tf.group(
            self.step.assign_add(1),
            self.dense.apply_grad([1.0, 2.0], 0),
            self.sparse.apply_indexed_slices_grad(slices, 0),
        )
        self.counts = [self.dense.num_accumulated(), self.sparse.num_accumulated()]
        self.take = self.dense.take_grad(3)


def collect() -> None:
    """Lets Savers that save all variables save the accumulators as well."""
    for saveable in tf_condacc.saveables():
        v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, saveable)


def saver_of_all() -> v1.train.Saver:
    return v1.train.Saver(var_list=[*v1.global_variables(), *tf_condacc.saveables()])


@pytest.mark.parametrize("sharded", [False, True])
def test_a_saver_restores_the_accumulators_of_a_new_session(sharded, tmp_path):
    for is_restored in (False, True):
        with tf.Graph().as_default(), v1.Session() as session:
            training = Training()
            saver = v1.train.Saver(
                [*v1.global_variables(), *tf_condacc.saveables()], sharded=sharded
            )
            if is_restored:
                saver.restore(session, v1.train.latest_checkpoint(str(tmp_path)))
            else:
                session.run(v1.global_variables_initializer())
                session.run(training.apply)
                session.run(training.apply)
                saver.save(session, str(tmp_path / "saved"))
            assert session.run(training.counts) == [2, 2]
            session.run(training.apply)
            assert session.run(training.take).tolist() == [1.0, 2.0]


def test_a_checkpoint_without_accumulators_is_refused_with_the_name_of_the_function(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        training = Training()
        session.run(v1.global_variables_initializer())
        session.run(training.apply)
        path = v1.train.Saver().save(session, str(tmp_path / "saved"))
        assert [name for name, _ in tf.train.list_variables(path)] == ["global_step"]
        with pytest.raises(tf.errors.NotFoundError, match=r"/tf_condacc\.saveables\(\) not found"):
            saver_of_all().restore(session, path)
        assert session.run(training.counts) == [1, 1]


def test_keys_are_the_names_of_the_operations():
    with tf.Graph().as_default():
        Training()
        saved = tf_condacc.saveables()
        assert [each.name for each in saved] == ["dense", "scope/sparse"]
        assert [spec.name for each in saved for spec in each.specs] == [
            "dense/tf_condacc.saveables()",
            "scope/sparse/tf_condacc.saveables()",
        ]


def test_an_imported_meta_graph_restores_the_accumulators(tmp_path):
    path = str(tmp_path / "saved")
    with tf.Graph().as_default(), v1.Session() as session:
        training = Training()
        collect()
        names = [each.name for each in (*training.counts, training.take, training.apply)]
        saver = v1.train.Saver()
        session.run(v1.global_variables_initializer())
        session.run(training.apply)
        saver.save(session, path)
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.train.import_meta_graph(path + ".meta").restore(session, path)
        counts, (take, apply) = names[:2], names[2:]
        assert session.run(counts) == [1, 1]
        for _ in range(2):
            session.run(graph.get_operation_by_name(apply))
        assert session.run(take).tolist() == [1.0, 2.0]


def test_a_monitored_session_saves_accumulators_only_if_told_to(tmp_path, caplog):
    for with_state in (False, True):
        folder = str(tmp_path / str(with_state))
        expected = [1, 1]
        for _ in range(2):
            with tf.Graph().as_default():
                training = Training()
                if with_state:
                    collect()
                with v1.train.MonitoredTrainingSession(
                    checkpoint_dir=folder, log_step_count_steps=None
                ) as session:
                    session.run(training.apply)
                    assert session.run(training.counts) == expected
            expected = [2, 2] if with_state else [1, 1]
        names = [name for name, _ in tf.train.list_variables(folder)]
        state = [f"{each}/tf_condacc.saveables()" for each in ("dense", "scope/sparse")]
        assert sorted(names) == sorted([*(state if with_state else []), "global_step"])
    assert "SAVEABLE" not in caplog.text.upper()


def test_the_accumulators_of_synchronous_training_are_not_saved():
    """Its rounds are those of a gate, which begins anew after a restart."""
    with tf.Graph().as_default():
        weights = v1.get_variable("w", [2], use_resource=True)
        step = v1.train.get_or_create_global_step()
        optimizer = tf_condacc.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=1, total_num_replicas=1
        )
        optimizer.minimize(tf.reduce_sum(weights), global_step=step)
        mine = tf_condacc.ConditionalAccumulator(tf.float32, [], name="mine")
        (saved,) = tf_condacc.saveables()
        assert saved.name == "mine"
        assert mine.accumulator_ref is saved.op


def test_eager_accumulators_are_for_checkpoints_of_objects():
    with pytest.raises(RuntimeError, match=r"tf.train.Checkpoint"):
        tf_condacc.saveables()
