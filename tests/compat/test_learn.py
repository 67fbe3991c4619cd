"""tf.contrib.learn: the same cases give the same as on TensorFlow 1.15.5, with either Estimator.

`programs/learn/recorded.json` has what TensorFlow 1.15.5 gives; tests/reference compares the two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from condacc.advice import advice
from tests.compat.processes import run
from tests.processes.forked_python import forked_python
from tests.support.waiting import PATIENCE_SECS

PROGRAMS = Path(__file__).parent / "programs"
CASES = PROGRAMS / "learn" / "all_cases.py"
RECORDED = json.loads(CASES.with_name("recorded.json").read_text(encoding="utf-8"))
# A process that cannot import tensorflow_estimator has the Estimator of this package.
WITHOUT_PACKAGE = (
    "import sys; sys.modules['tensorflow_estimator'] = None; "
    "from condacc.__main__ import main; main()"
)
IMPLEMENTATIONS = {"package": ("-m", "condacc"), "own": ("-c", WITHOUT_PACKAGE)}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("own", marks=pytest.mark.programs),
        pytest.param("package", marks=pytest.mark.long),
    ],
)
def report(request, tmp_path_factory):
    """What all cases give, in one process for each implementation of tf.estimator."""
    command = [*forked_python(), *IMPLEMENTATIONS[request.param], "run", "--quiet", CASES]
    done = run(*command, tmp_path_factory.mktemp(request.param))
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", sorted(set(RECORDED) - {"signatures"}))
def test_a_case_gives_the_same_as_on_tensorflow_1_15(case, report):
    assert report[case] == RECORDED[case], report[case]


def test_arguments_have_the_names_and_defaults_of_the_original(report):
    recorded = RECORDED["signatures"]
    assert {name: report["signatures"].get(name) for name in recorded} == recorded


@pytest.mark.parametrize(
    ("implementation", "schedule"),
    [
        pytest.param("own", "train_and_evaluate", marks=pytest.mark.programs),
        pytest.param("own", "", marks=pytest.mark.long),
        pytest.param("package", "train_and_evaluate", marks=pytest.mark.long),
        pytest.param("package", "", marks=pytest.mark.long),
    ],
)
def test_a_typical_program_trains_on_a_cluster(implementation, schedule, tmp_path):
    launch = [sys.executable, "-m", "condacc", "launch", "--ps=1", "--workers=1"]
    launch += [f"--grace-secs={PATIENCE_SECS}", "--"]
    runner = [*forked_python(), *IMPLEMENTATIONS[implementation], "run", "--quiet"]
    program = [PROGRAMS / "experiment.py", tmp_path / "model", *filter(None, [schedule])]
    done = run(*launch, *runner, *program, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]
    lines = done.stdout.splitlines()
    assert "[worker 0] slope: 2.0" in lines
    # By default a worker only trains. The chief of train_and_evaluate evaluates the last step.
    assert ("[worker 0] error: 4.0 4 []" in lines) == bool(schedule)
    only_trains = implementation == "own" and not schedule
    assert ("this chief only trains" in done.stdout) == only_trains


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("learn.DNNClassifier", "use tf.estimator.DNNClassifier"),
        ("learn.python.learn.DNNClassifier", "use tf.estimator.DNNClassifier"),
        ("learn.SKCompat", "input_fn=tf.estimator.inputs.numpy_input_fn(x, y, shuffle=True)"),
        ("learn.monitors.ValidationMonitor", "tf.contrib.learn.Experiment"),
        ("learn.io.read_batch_features", "make_batched_features_dataset"),
        ("learn.infer_real_valued_columns_from_input", "tf.feature_column.numeric_column"),
    ],
)
def test_what_is_not_provided_has_a_way_out(name, expected):
    assert expected in advice(name)


@pytest.fixture
def learn():
    from tf_condacc.compat import learn

    return learn


def test_arrays_as_arguments_have_a_way_out(learn, tmp_path):
    estimator = learn.Estimator(lambda features, labels: None, str(tmp_path))
    with pytest.raises(ValueError, match=r"fit: x and y must be None. .*numpy_input_fn"):
        estimator.fit([1.0], [2.0], steps=1)
    with pytest.raises(ValueError, match=r"evaluate: feed_fn must be None"):
        estimator.evaluate(input_fn=print, feed_fn=print)
    with pytest.raises(ValueError, match=r"graph_rewrite_specs=.* got \(\)"):
        estimator.export_savedmodel(str(tmp_path), print, graph_rewrite_specs=())


@pytest.mark.parametrize("name", ["master", "evaluation_master"])
def test_sessions_of_other_servers_are_refused(learn, name):
    with pytest.raises(ValueError, match=f"RunConfig: {name} is not supported; got 'grpc://x:1'"):
        learn.RunConfig(**{name: "grpc://x:1"})
    assert getattr(learn.RunConfig(**{name: ""}), name) == ""


@pytest.fixture
def experiment(learn, monkeypatch, tmp_path):
    """Returns an Experiment in a task of a cluster, whose ways to run note that they are called."""

    def experiment(job, *noted, **options):
        cluster = {"ps": ["localhost:1"], "chief": ["localhost:2"], "worker": ["localhost:3"]}
        task = {"type": job, "index": 0}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        estimator = learn.Estimator(lambda features, labels: None, str(tmp_path))
        made = learn.Experiment(estimator, print, print, **options)
        called = []
        for name in noted:
            monkeypatch.setattr(made, name, lambda name=name: called.append(name))
        return made, called

    return experiment


@pytest.mark.parametrize(
    ("job", "schedule"),
    [
        ("ps", "run_std_server"),
        ("chief", "train"),
        ("worker", "train"),
        ("evaluator", "continuous_eval"),
    ],
)
def test_a_task_of_a_cluster_has_a_default_schedule(learn, experiment, job, schedule, tmp_path):
    names = ("continuous_eval", "run_std_server", "train", "train_and_evaluate")
    made, called = experiment(job, *names)
    learn.learn_runner.run(lambda output_dir: made, str(tmp_path))
    assert called == [schedule]


def test_workers_may_wait_for_steps(experiment, monkeypatch):
    import tensorflow as tf

    from tf_condacc.compat._estimator import estimator_module

    specs = []
    monkeypatch.setattr(estimator_module(), "train_and_evaluate", lambda *each: specs.append(each))
    for job in ("worker", "chief"):
        experiment(job, delay_workers_by_global_step=True)[0].train()
    hooks = [[type(hook) for hook in train_spec.hooks] for _, train_spec, _ in specs]
    assert hooks == [[tf.compat.v1.train.GlobalStepWaiterHook], []]


def test_an_evaluator_evaluates_until_the_training_ends(experiment):
    made, called = experiment("evaluator", "continuous_eval")
    assert made.train_and_evaluate() is None
    assert called == ["continuous_eval"]
