"""What the runner says about an error that ends a program, and about its command line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from condacc.run import parse, select_keras
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


@pytest.mark.parametrize(
    ("keras2", "expected"),
    [
        pytest.param("0", "run with --keras2", marks=needs_keras3),
        ("1", "use tf.keras, which is Keras 2"),
    ],
)
def test_a_name_that_keras_3_lacks_has_a_hint_that_is_not_followed_yet(
    hint, monkeypatch, keras2, expected
):
    monkeypatch.setitem(os.environ, "TF_USE_LEGACY_KERAS", keras2)
    for text in ("`dense` is not available with Keras 3.", "module 'keras.layers' has no ..."):
        assert expected in hint(AttributeError(text))


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
def test_keras_2_is_selected_by_a_variable_of_the_environment(monkeypatch):
    monkeypatch.delenv("TF_USE_LEGACY_KERAS")
    select_keras(parse([__file__]))
    assert not uses_keras2()
    select_keras(parse(["--keras2", __file__]))
    assert uses_keras2()


def test_arguments_of_the_program_are_not_those_of_the_runner():
    options = parse(["--quiet", __file__, "--keras2", "-m", "--quiet"])
    assert (options.quiet, options.keras2, options.script) == (True, False, __file__)
    assert options.arguments == ["--keras2", "-m", "--quiet"]
    options = parse(["--keras2", "-m", "package.module", "-x"])
    assert (options.module, options.script, options.arguments) == ("package.module", None, ["-x"])
