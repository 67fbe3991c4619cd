"""Tests of the Estimator: it trains, evaluates, predicts and exports, with towers and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tower_support import cpus
from tf_condacc import TowerOptimizer, replicate_model_fn
from tf_condacc.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig, export
from tf_condacc.estimator._saved_models import _new_folder

v1 = tf.compat.v1
X = np.arange(16, dtype=np.float32).reshape(8, 2) / 16
Y = X @ [1.0, -2.0]


def model_fn(features, labels, mode, params):
    w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
    y = tf.reduce_sum(features["x"] * w, axis=1)
    if mode == ModeKeys.PREDICT:
        predictions = {"y": y, "negative": -y}
        outputs = {"linear": export.PredictOutput({"y": y})}
        return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
    loss = tf.reduce_mean((y - labels) ** 2)
    optimizer = TowerOptimizer(v1.train.MomentumOptimizer(params["rate"], 0.9))
    step = v1.train.get_global_step()
    metrics = {"mse": v1.metrics.mean_squared_error(labels, y)}
    return EstimatorSpec(
        mode, loss=loss, train_op=optimizer.minimize(loss, step), eval_metric_ops=metrics
    )


def input_fn(repeats: int = 1, batch: int = 4):
    data = tf.data.Dataset.from_tensor_slices(({"x": X}, Y.astype(np.float32)))
    return data.repeat(repeats).batch(batch)


def new_estimator(folder, num_towers: int = 2, **config) -> Estimator:
    config.setdefault("session_config", v1.ConfigProto(device_count={"CPU": num_towers}))
    return Estimator(
        replicate_model_fn(model_fn, devices=cpus(num_towers)),
        model_dir=str(folder),
        config=RunConfig(tf_random_seed=1, **config),
        params={"rate": 0.1},
    )


def momentum_steps(steps: int, batch: int = 4) -> np.ndarray:
    """Returns the weights that the training must produce."""
    w, velocity = np.zeros(2), np.zeros(2)
    for k in range(steps):
        rows = np.arange(k * batch, (k + 1) * batch) % len(X)
        error = X[rows] @ w - Y[rows]
        velocity = 0.9 * velocity + 2 * X[rows].T @ error / batch
        w = w - 0.1 * velocity
    return w


@pytest.mark.parametrize("num_towers", [1, 2, 4])
def test_a_legacy_program_runs_from_end_to_end(num_towers: int, tmp_path: Path):
    model = new_estimator(tmp_path, num_towers)
    assert model.train(lambda: input_fn(5)) is model
    w = momentum_steps(10)
    np.testing.assert_allclose(model.get_variable_value("w"), w, rtol=1e-4)

    values = model.evaluate(input_fn, name="here")
    error = np.mean((X @ w - Y) ** 2)
    assert values["global_step"] == 10
    np.testing.assert_allclose([values["mse"], values["loss"]], error, rtol=1e-4)

    predictions = list(model.predict(input_fn))
    np.testing.assert_allclose([each["y"] for each in predictions], X @ w, rtol=1e-4)
    assert all(each["negative"] == -each["y"] for each in predictions)
    batches = list(model.predict(input_fn, ["y"], yield_single_examples=False))
    assert [list(each) for each in batches] == [["y"]] * 2 and batches[0]["y"].shape == (4,)

    raw = export.build_raw_serving_input_receiver_fn({"x": tf.constant(X)})
    folder = model.export_saved_model(tmp_path / "export", raw)
    with tf.Graph().as_default(), v1.Session(config=model.config.session_config) as session:
        loaded = v1.saved_model.load(session, [v1.saved_model.SERVING], folder)
        assert set(loaded.signature_def) == {"linear", "serving_default"}
        signature = loaded.signature_def["serving_default"]
        y = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: X})
    np.testing.assert_allclose(y, X @ w, rtol=1e-4)


def test_training_goes_on_from_the_last_checkpoint(tmp_path: Path):
    new_estimator(tmp_path).train(lambda: input_fn(5), steps=4)
    model = new_estimator(tmp_path)
    model.train(lambda: input_fn(5), max_steps=6)
    # The training is complete already, so this call does nothing.
    model.train(lambda: input_fn(5), max_steps=6)
    # The checkpoint also restores the slots of the optimizer.
    np.testing.assert_allclose(model.get_variable_value("w"), momentum_steps(6), rtol=1e-4)
    assert model.evaluate(input_fn, steps=1)["global_step"] == 6
    assert {"w", "w/Momentum", "global_step"} <= set(model.get_variable_names())


def test_checkpoints_and_summaries_are_written(tmp_path: Path):
    model = new_estimator(
        tmp_path,
        save_summary_steps=2,
        save_checkpoints_steps=2,
        keep_checkpoint_max=2,
        log_step_count_steps=3,
    )
    model.train(lambda: input_fn(5), steps=7)
    values = model.evaluate(input_fn)
    model.evaluate(input_fn, name="other")
    state = tf.train.get_checkpoint_state(str(tmp_path))
    names = [Path(path).name for path in state.all_model_checkpoint_paths]
    assert names == ["model.ckpt-6", "model.ckpt-7"]
    assert Path(model.latest_checkpoint()).name == "model.ckpt-7"

    def summaries(folder: Path) -> dict[str, list[tuple[int, float]]]:
        found: dict[str, list[tuple[int, float]]] = {}
        for path in folder.glob("events.*"):
            for event in v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    found.setdefault(value.tag, []).append((event.step, value.simple_value))
        return found

    assert "global_step/sec" in summaries(tmp_path)
    losses = summaries(tmp_path)["loss"]
    assert [step for step, _ in losses] == [1, 3, 5, 7]
    for folder in ("eval", "eval_other"):
        assert summaries(tmp_path / folder)["mse"] == [(7, values["mse"])]


def test_a_hook_of_the_callers_that_saves_takes_the_place_of_its_own(tmp_path: Path):
    saved: list[int] = []

    class Listener(v1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            saved.append(global_step_value)

    hook = v1.train.CheckpointSaverHook(
        str(tmp_path), save_steps=2, checkpoint_basename="mine", listeners=[Listener()]
    )
    new_estimator(tmp_path, save_checkpoints_steps=1).train(lambda: input_fn(5), [hook], steps=4)
    assert saved == [0, 2, 4]
    assert {path.stem for path in tmp_path.glob("*.index")} == {"mine-0", "mine-2", "mine-4"}


@pytest.mark.parametrize("nothing", [None, 0])
def test_logs_summaries_and_checkpoints_can_be_left_out(nothing: int | None, tmp_path: Path):
    model = new_estimator(
        tmp_path,
        log_step_count_steps=nothing,
        save_summary_steps=nothing,
        save_checkpoints_steps=nothing,
        save_checkpoints_secs=nothing,
    )
    steps: list[int] = []

    class Hook(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            steps.append(len(steps))

    model.train(lambda: input_fn(2), [Hook()])
    assert len(steps) == 4 and list(tmp_path.iterdir()) == []


def test_an_input_fn_may_return_tensors_and_have_arguments(tmp_path: Path):
    given = []

    def tensors(mode, params, config):
        given.append((mode, params, config.model_dir))
        return {"x": tf.constant(X)}, tf.constant(Y, tf.float32)

    model = new_estimator(tmp_path)
    model.train(tensors, steps=1)
    model.evaluate(tensors, steps=1)
    next(model.predict(tensors))
    assert given == [(mode, {"rate": 0.1}, str(tmp_path)) for mode in ("train", "eval", "infer")]


def test_without_a_checkpoint_a_fresh_model_is_evaluated_and_predicts(tmp_path: Path):
    model = new_estimator(tmp_path)
    values = model.evaluate(input_fn)
    np.testing.assert_allclose(values["mse"], np.mean(Y**2), rtol=1e-5)
    assert {float(each["y"]) for each in model.predict(input_fn)} == {0.0}
    with pytest.raises(ValueError, match="Couldn't find trained model at"):
        model.export_saved_model(tmp_path / "export", lambda: None)


def test_a_prediction_leaves_the_callers_graph_alone(tmp_path: Path):
    model = new_estimator(tmp_path)
    with tf.Graph().as_default() as graph:
        predictions = model.predict(input_fn)
        next(predictions)
        assert v1.get_default_graph() is graph
        predictions.close()
        assert v1.get_default_graph() is graph


@pytest.mark.parametrize("kind", ["sparse", "ragged", "scalar", "one sparse"])
def test_predictions_that_are_no_dense_batch_come_whole_or_not_at_all(kind: str, tmp_path):
    make = {
        "sparse": lambda x: {"y": tf.sparse.from_dense(x), "x": x},
        "ragged": lambda x: {"y": tf.RaggedTensor.from_tensor(x)},
        "scalar": lambda x: {"y": tf.reduce_sum(x)},
        "one sparse": tf.sparse.from_dense,
    }[kind]

    def any_model_fn(features, mode):
        return EstimatorSpec(mode, predictions=make(features["x"]))

    model = Estimator(any_model_fn, model_dir=str(tmp_path))
    with pytest.raises(ValueError, match="yield one by one, got .* as '(y|predictions)'"):
        next(model.predict(input_fn))
    whole = next(model.predict(input_fn, yield_single_examples=False))
    y = whole["y"] if isinstance(whole, dict) else whole
    numbers = y if kind == "scalar" else y.values
    np.testing.assert_allclose(np.sum(numbers), np.sum(X[:4]))


def test_examples_are_parsed_and_extra_files_copied(tmp_path: Path):
    def example_model_fn(features, labels, mode):
        scores = tf.reduce_sum(features["x"], axis=1, keepdims=True)
        if mode != ModeKeys.PREDICT:
            step = v1.train.get_global_step()
            train = v1.assign_add(step, 1)
            return EstimatorSpec(mode, loss=tf.reduce_mean(scores), train_op=train)
        outputs = {"classify": export.ClassificationOutput(scores)}
        return EstimatorSpec(mode, predictions=scores, export_outputs=outputs)

    model = Estimator(example_model_fn, model_dir=str(tmp_path))
    model.train(lambda: {"x": tf.constant(X)}, steps=1)
    (tmp_path / "note").write_text("hello")
    receive = export.build_parsing_serving_input_receiver_fn(
        {"x": tf.io.FixedLenFeature([2], tf.float32)}
    )
    folder = model.export_saved_model(
        tmp_path / "export", receive, {"a/b.txt": str(tmp_path / "note")}, as_text=True
    )
    assert (Path(folder) / "assets.extra" / "a" / "b.txt").read_text() == "hello"
    assert (Path(folder) / "saved_model.pbtxt").exists()
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[1.5, 2.0]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    serve = tf.saved_model.load(folder).signatures["classify"]
    assert serve(tf.constant([example.SerializeToString()]))["scores"].numpy().tolist() == [[3.5]]


def test_an_export_has_a_later_time_than_those_before(tmp_path: Path):
    now = int(_new_folder(tmp_path / "missing").name)
    for name in (str(now + 100), f"temp-{now + 101}", "other", str(now - 100)):
        (tmp_path / name).mkdir()
    assert _new_folder(tmp_path) == tmp_path / str(now + 102)
