"""What the runner says about an error that ends a program, and about its command line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from condacc.run import main, parse, select_keras
from condacc.versions import install_tf_keras, uses_keras2
from tests.support.versions import needs_keras3


@pytest.fixture(scope="module")
def hint():
    from tf_condacc.compat._runner.errors import hint

    return hint


def error_of(statement):
    import tensorflow as tf

    with pytest.raises(Exception) as raised:
        exec(statement, {"tf": tf.compat.v1})
    return raised.value


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("tf.summary.trace_on()", "use tf.compat.v2.summary.trace_on"),
        ("tf.no_such_name", "has no tf.no_such_name"),
        (
            "from tensorflow.python.ops.array_ops import while_loop",
            "has while_loop in tensorflow.p",
        ),
        ("import tensorflow.python.no_module", "has no module tensorflow.python.no_module"),
        ("import tensorflow.examples.speech_commands", "tf_condacc provides tutorials.mnist"),
        ("print 'x'", "programs must be Python 3"),
        ("xrange(3)", "programs must be Python 3"),
        ("{}.iteritems()", "programs must be Python 3"),
        ("import urllib2", "programs must be Python 3"),
        ("tf.mul(1, 2)", "mul is a name of TensorFlow 0: use tf.multiply"),
        (
            "raise AttributeError(\"module 'tf' has no attribute 'BoostedTreesModel'\")",
            "the package tensorflow-decision-forests",
        ),
        (
            "from tf_condacc.compat._runner.keras.utils import no_name",
            "which has no keras.utils.no_name",
        ),
        ("import tf_condacc.compat._runner.keras.no_module", "which has no keras.no_module"),
        ("raise ModuleNotFoundError('no', name='tf_keras.src')", install_tf_keras()),
    ],
)
def test_a_missing_name_has_a_hint(hint, statement, expected):
    assert expected in hint(error_of(statement))


@pytest.mark.parametrize(
    ("last", "needs_2to3"), [("print(f())", False), ("print f()", True)], ids=["3", "2"]
)
def test_mixed_tabs_have_a_hint_that_is_tried(hint, tmp_path, last, needs_2to3):
    program = tmp_path / "program.py"
    program.write_text(f"def f():\n    if 1:\n\tx = 1\n        return 2\n{last}\n")
    with pytest.raises(TabError) as raised:
        compile(program.read_bytes(), str(program), "exec")
    text = hint(raised.value)
    assert f"`expand -t 8 {program}`" in text
    assert ("2to3" in text) is needs_2to3
    expanded = subprocess.run(["expand", "-t", "8", program], capture_output=True, check=True)
    if not needs_2to3:
        compile(expanded.stdout, "program.py", "exec")


@pytest.mark.parametrize(
    "statement", ["[].no_name", "import no_module", "1 / 0", "raise AttributeError", "{}[1]"]
)
def test_other_errors_have_no_hint(hint, statement):
    assert hint(error_of(statement)) is None


@needs_keras3
def test_a_name_that_keras_3_lacks_has_a_hint_that_is_not_followed_yet(hint, monkeypatch):
    monkeypatch.setitem(os.environ, "TF_USE_LEGACY_KERAS", "0")
    for text in ("`dense` is not available with Keras 3.", "module 'keras.layers' has no ..."):
        assert "run with --keras2" in hint(AttributeError(text))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        pytest.param("tf_keras", install_tf_keras(), marks=needs_keras3),
        ("tensorflow", "TensorFlow is missing: pip"),
    ],
)
def test_a_missing_package_is_an_error_that_names_it(monkeypatch, capsys, module, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match="2"):
        select_keras(parse(["--keras2", __file__]))
    assert message in capsys.readouterr().err


@needs_keras3
@pytest.mark.parametrize(
    ("options", "value", "expected", "why"),
    [
        ([], None, 2, "it is installed; --keras3 takes Keras 3"),
        (["--keras2"], "0", 2, "--keras2 asks for it"),
        (["--keras3"], "1", 3, "--keras3 asks for it"),
        ([], "1", 2, "TF_USE_LEGACY_KERAS is 1"),
        ([], "0", 3, "TF_USE_LEGACY_KERAS is 0"),
    ],
)
def test_keras_2_is_taken_unless_something_asks_for_keras_3(
    monkeypatch, options, value, expected, why
):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", value or "")
    assert select_keras(parse([*options, __file__])).startswith(why)
    assert uses_keras2() == (expected == 2)


@needs_keras3
def test_without_tf_keras_it_is_keras_3_and_the_reason_says_what_to_install(monkeypatch):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "")
    monkeypatch.setitem(sys.modules, "tf_keras", None)
    assert install_tf_keras() in select_keras(parse([__file__]))
    assert not uses_keras2()


@pytest.mark.parametrize("options", ["train.py", "-m train", "-m train.model"])
def test_a_program_of_python_2_ends_before_tensorflow_is_imported(
    monkeypatch, tmp_path, capsys, options
):
    (tmp_path / "train").mkdir()
    for name in ("train.py", "train/__main__.py", "train/model.py"):
        (tmp_path / name).write_text("import tensorflow\nprint 'x'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # Its import would fail otherwise.
    with pytest.raises(SystemExit, match="1"):
        main(options.split())
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "SyntaxError: Missing parentheses in call to 'print'. Did you mean print(...)?",
        "condacc run: programs must be Python 3: convert it, for example with 2to3",
    ]


def test_arguments_of_the_program_are_not_those_of_the_runner():
    options = parse(["--quiet", __file__, "--keras2", "-m", "--quiet"])
    assert (options.quiet, options.keras, options.script) == (True, None, __file__)
    assert options.arguments == ["--keras2", "-m", "--quiet"]
    options = parse(["--keras2", "-m", "package.module", "-x"])
    assert (options.module, options.script, options.arguments) == ("package.module", None, ["-x"])
