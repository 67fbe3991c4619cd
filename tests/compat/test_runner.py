"""Programs for TensorFlow 1 that the runner runs unedited, each with the numbers that it trains."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from condacc.libraries import key_of
from condacc.versions import brings_keras2, release
from tests.command.processes import runner
from tests.compat.processes import RUNNER
from tests.compat.processes import run as run_command
from tests.processes.forked_python import forked_python
from tests.support.versions import needs_keras3
from tests.support.waiting import PATIENCE_SECS

PROGRAMS = Path(__file__).parent / "programs"
_whole = pytest.mark.programs


@pytest.fixture(scope="module")
def keras3():
    """The end of the programs without tf.layers: an error."""
    runner = (*forked_python(), "-m", "condacc", "run")
    return run_command(*runner, "--keras3", PROGRAMS / "all_programs.py", "--steps=3", "spawn")


@pytest.fixture(scope="module")
def keras2(tmp_path_factory):
    """The end of the programs with tf.layers, as a module of the console script: the status 3."""
    script = tmp_path_factory.mktemp("bin") / "condacc"
    script.write_text("import sys\nfrom condacc.__main__ import main\nsys.exit(main())\n")
    options = ("--quiet", "-m", "all_programs", "--steps=3")
    return run_command(sys.executable, script, "run", *options, cwd=PROGRAMS)


def _report(run):
    assert run.stdout.startswith("{"), run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[0])


@pytest.fixture(scope="module", params=[pytest.param("keras3", marks=_whole), "keras2"])
def report(request):
    """What the programs have found and trained."""
    return _report(request.getfixturevalue(request.param))


def _slim(steps):
    weights, bias = [0.0, 0.0], 0.0
    for _ in range(steps):
        errors = [
            weight + bias - target for weight, target in zip(weights, [2.0, 4.0], strict=True)
        ]
        weights = [weight - 0.25 * error for weight, error in zip(weights, errors, strict=True)]
        bias -= 0.25 * sum(errors)
    return weights


EXPECTED = {
    "name": "__main__",
    "file": "all_programs.py",
    "path": "programs",
    "gfile": True,
    # The mean halves the errors, and the bias gets the errors of both outputs.
    "slim": _slim(3),
    "batch norm": [2, [[-1.0], [1.0]]],
    # The mean of row 1, three times in two gradients, is exact. TensorFlow's own is not.
    "accumulators": [[-6.0, -12.0], [[0.0], [-4.5], [0.0], [-3.0]], 3],
    "towers": [1.75, 3.5],
    "removed": [
        *[6.0, "i", True, False, True],
        *[[0, 1, 0], [[1], [2]], [False, True, "float64"]],
        {"args": [], "varargs": None, "keywords": None, "defaults": None},
    ],
    # Transposed convolutions and regularizers are those of version 1.
    "graphs": [[16, 4, 4, 7], [None, 4, 4, 7], 5.0],
    # Variables are shared in a cluster without the job ps.
    "places": [*["/job:servers/task:0"] * 2, "/job:worker/task:1"],
    # Synchronous training knows the workers of the program's device setter.
    "workers": [["/job:worker/task:0", "/job:worker/task:1"]] * 2,
    # A worker looks for its chief each second, unless the program says otherwise.
    "looks": [1, 1, 7],
}


@pytest.mark.parametrize("part", EXPECTED)
def test_a_program_finds_and_trains_what_it_did_on_tensorflow_1(part, report):
    assert report[part] == EXPECTED[part]


def test_functions_of_contrib_have_their_old_arguments(report):
    *found, shared = report["contrib"]
    assert np.allclose(np.concatenate(found), [1, 2, 7, -1, 0, 0.8133, 0.6931, 0.6931], atol=1e-4)
    assert shared == "shared"


@_whole
def test_a_process_that_multiprocessing_spawns_runs_the_same_program(keras3):
    accumulated = [[-2.0, -4.0], [[0.0], [-1.5], [0.0], [-1.0]], 1]
    spawned = ["__mp_main__", "tensorflow.compat.v1", False, accumulated]
    assert _report(keras3)["spawned"] == spawned


@_whole
def test_arguments_are_passed_on(keras3, keras2):
    assert _report(keras3)["arguments"] == ["spawn"]
    assert _report(keras2)["arguments"] == []


@_whole
def test_the_exit_status_is_that_of_the_program(keras3, keras2):
    assert keras3.returncode == (3 if brings_keras2() else 1)
    assert keras2.returncode == 3, keras2.stderr[-3000:]


def test_names_that_advice_gives_exist_in_the_program(keras2):
    assert _report(keras2)["lacking"] == []


@_whole
def test_cells_of_contrib_need_keras_2(keras3, keras2):
    assert _report(keras3)["cells"] == brings_keras2()
    assert _report(keras2)["cells"]


@_whole
@needs_keras3
def test_the_last_line_of_a_failed_program_says_what_to_do(keras3):
    assert keras3.stderr.splitlines()[-1].endswith("run with --keras2 to use Keras 2")


@_whole
@needs_keras3
def test_a_traceback_shows_the_lines_of_the_program_alone(keras3):
    traceback = keras3.stderr[keras3.stderr.index("Traceback") :]
    source = (PROGRAMS / "all_programs.py").read_text(encoding="utf-8").splitlines()
    own = re.findall(r'all_programs.py", line (\d+), in \S+\n +(.*)', traceback)
    assert len(own) == 2
    assert all(source[int(line) - 1].strip() == text for line, text in own)
    files = [Path(path) for path in re.findall(r'File "(.*?)"', traceback)]
    assert files[0].name == "all_programs.py"
    assert not any({"condacc", "tf_condacc"} & set(path.parts[:-1]) for path in files)


@_whole
def test_the_runner_says_in_a_line_each_what_it_provides_unless_it_is_quiet(keras3, keras2):
    lines = [line for line in keras3.stderr.splitlines() if line.startswith("condacc run: ")]
    named = [re.search(r"is tf\.compat\.v1 of TensorFlow ([^,]+),", line) for line in lines]
    assert [key_of(found[1]) for found in named if found] == [release()]
    assert any("tf.contrib.slim" in line and "tf-slim 1.1.0" in line for line in lines)
    assert any("tf.estimator is that of" in line for line in lines)
    assert any("numpy<2" in line for line in lines) is (
        np.lib.NumpyVersion(np.__version__) >= "2.0.0" and sys.version_info < (3, 13)
    )
    assert "condacc run: " not in keras2.stderr


def test_pytest_runs_the_tests_of_a_program(tmp_path):
    (tmp_path / "test_own.py").write_text(
        "import tensorflow as tf\n\ndef test_placeholder():\n"
        "    assert tf.placeholder(tf.int32).dtype == tf.int32\n"
    )
    runner = (*forked_python(), "-m", "condacc", "run", "--quiet")
    run = run_command(*runner, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert run.returncode == 0, run.stdout[-3000:]
    assert "1 passed" in run.stdout


@_whole
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_cluster_with_flags_trains_under_the_launcher(workers, tmp_path):
    tasks = ["--ps=1", f"--workers={workers}", f"--log-dir={tmp_path}"]
    tasks += [f"--grace-secs={PATIENCE_SECS}"]
    runner = [*forked_python(), "-m", "condacc", "run", "--quiet"]
    command = [sys.executable, "-m", "condacc", "launch", *tasks, *runner]
    flags = ["--job_name={job}", "--task_index={index}"]
    flags += ["--ps_hosts={ps}", "--worker_hosts={workers}"]
    run = run_command(*command, PROGRAMS / "sync_replicas.py", *flags, cwd=tmp_path)
    assert run.returncode == 0, run.stdout[-3000:]
    # The gradient of worker i is [1, 2] * (i + 1), and three rounds take the mean.
    mean = (workers + 1) / 2
    assert f"[worker 0] weights: {[-3 * mean, -6 * mean]}" in run.stdout.splitlines()


@pytest.mark.long
def test_train_and_evaluate_trains_under_the_launcher(tmp_path):
    command = [sys.executable, "-m", "condacc", "launch", "--ps=1", "--workers=2"]
    command += [f"--grace-secs={PATIENCE_SECS}", "--"]
    program = (PROGRAMS / "train_and_evaluate.py", tmp_path / "model")
    run = run_command(*command, *RUNNER, "--quiet", *program, cwd=tmp_path)
    assert run.returncode == 0, run.stdout[-3000:]
    [weights] = re.findall(r"\[worker 0\] weights: (\S+)", run.stdout)
    assert float(weights) in (-6.0, -8.0)  # Both workers may take the last step.


# Programs of public collections, rewritten for small data. The first two stand for all of them.
_OF_KERAS = ["images", "in_sessions", "backend_functions", "callback_list", "gan", "generators"]
_OF_KERAS += ["own_layers", "saved_models", "texts", "two_inputs"]
# The imports of plain tf.keras that replace those of Keras, by patterns of the latter.
_PLAIN = {
    r"^import keras$": "from tensorflow.compat.v1 import keras",
    r"^from keras(\.\w+)": r"from tensorflow.compat.v1.keras\1",
    r"^from keras ": "from tensorflow.compat.v1.keras ",
    r"(\.keras\.(layers|utils|backend))\.\w+ ": r"\1 ",
    r"\.keras\.engine\.topology": ".keras.layers",
    r"\.utils import np_utils": " import utils as np_utils",
    r"^import tensorflow as": "import tensorflow.compat.v1 as",
    "from tensorflow.compat.v1.keras.utils import normalize_padding": "normalize_padding = str",
}


@pytest.mark.parametrize("names", [_OF_KERAS[:2], pytest.param(_OF_KERAS[2:], marks=_whole)])
def test_programs_that_import_keras_train_as_with_plain_tf_keras(names, tmp_path):
    folder = PROGRAMS / "keras_2018"
    for name in (*names, "train"):
        text = (folder / f"{name}.py").read_text(encoding="utf-8")
        for pattern, plain in _PLAIN.items():
            text = re.sub(pattern, plain, text, flags=re.MULTILINE)
        (tmp_path / f"{name}.py").write_text(f"{text}\n", encoding="utf-8")
    start = "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior(); import train"
    command = [sys.executable, "-c", start, *names]
    expected = run_command(*command, cwd=tmp_path, variables={"TF_USE_LEGACY_KERAS": "1"})
    assert expected.returncode == 0, expected.stderr[-3000:]
    run = run_command(*forked_python(), "-m", "condacc", "run", folder / "train.py", *names)
    assert run.returncode == 0, run.stderr[-3000:]
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert found == [json.loads(line) for line in expected.stdout.splitlines()]
    assert [name for name, _ in found] == names


@pytest.mark.parametrize("arguments", [["nowhere.py"], [], ["--keras"], ["-m"]], ids=" ".join)
def test_a_wrong_command_line_ends_before_tensorflow_is_imported(arguments, tmp_path):
    is_tensorflow = "name.partition('.')[0] == 'tensorflow'"
    run = runner(tmp_path, is_tensorflow, "raise SystemExit(name)")("run", *arguments)
    assert run.returncode == 2
    assert "error: " in run.stderr
