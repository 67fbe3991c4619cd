"""What the runner says about an error that ends a program, and about its command line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from condacc._keras_imports import importer_of_keras
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
@pytest.mark.parametrize(
    ("options", "program", "value", "expected", "why"),
    [
        ([], "import tensorflow", None, 2, "it is installed; --keras3 takes Keras 3"),
        (["--keras2"], "import keras", "0", 2, "--keras2 asks for it"),
        (["--keras3"], "import tensorflow", "1", 3, "--keras3 asks for it"),
        ([], "from keras.layers import Dense", None, 3, "train.py imports keras; --keras2 takes"),
        ([], "import layers", None, 3, "layers.py imports keras; --keras2 takes Keras 2"),
        ([], "import keras", "1", 2, "TF_USE_LEGACY_KERAS is 1"),
        ([], "import tensorflow", "0", 3, "TF_USE_LEGACY_KERAS is 0"),
    ],
)
def test_keras_2_is_taken_unless_the_program_imports_keras(
    monkeypatch, tmp_path, options, program, value, expected, why
):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", value or "")
    file = tmp_path / "train.py"
    file.write_text(program)
    (tmp_path / "layers.py").write_text("def dense():\n    from keras import layers\n")
    monkeypatch.chdir(tmp_path)
    assert select_keras(parse([*options, str(file)])).startswith(why)
    assert uses_keras2() == (expected == 2)


@needs_keras3
def test_without_tf_keras_it_is_keras_3_and_the_reason_says_what_to_install(monkeypatch):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "")
    monkeypatch.setitem(sys.modules, "tf_keras", None)
    assert install_tf_keras() in select_keras(parse([__file__]))
    assert not uses_keras2()


@pytest.mark.parametrize("init", [True, False], ids=["package", "namespace"])
@pytest.mark.parametrize(
    ("program", "files", "importer"),
    [
        ("pkg", {"__main__": "from . import a", "a": "import keras"}, "a"),
        ("pkg.a", {"a": "try:\n  import keras.layers\nexcept ImportError: pass"}, "a"),
        ("pkg.a", {"a": "from pkg.b import c", "b": "from .d import e", "d": "import keras"}, "d"),
        ("pkg.a", {"a": "import tensorflow.keras, keras_tuner"}, None),
        ("pkg.a", {"a": "import pkg.old", "old": "import keras\nprint 1"}, None),
        ("pkg.a", {"a": "import pkg.zero", "zero": "import keras\n\0"}, None),
        ("pkg.a", {"a": "import pkg.a, pkg.b", "b": "import pkg.a; from pkg import keras"}, None),
        ("pkg.no_module", {}, None),
    ],
    ids=["relative", "in try", "chain", "others", "Python 2", "null", "circle", "missing"],
)
def test_imports_of_keras_are_found_in_all_modules_of_a_program(
    monkeypatch, tmp_path, program, files, importer, init
):
    (tmp_path / "pkg").mkdir()
    for name, text in {**({"__init__": ""} if init else {}), **files}.items():
        (tmp_path / "pkg" / f"{name}.py").write_text(text)
    expected = tmp_path / "pkg" / f"{importer}.py" if importer else None

    def found(**arguments):
        file = importer_of_keras(program, is_module=True, **arguments)
        return file and file.resolve()

    monkeypatch.chdir(tmp_path)
    assert found() == expected
    monkeypatch.chdir("/")
    assert found() is None
    assert found(roots=[str(tmp_path)]) == expected
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert found() == expected
    (tmp_path / "keras-3.0.dist-info").mkdir()  # Installed packages are not the program's.
    assert found() is None


@pytest.mark.parametrize("module", ["keras.py", "keras/layers.py"])
def test_a_module_keras_of_the_program_is_not_the_package(tmp_path, module):
    (tmp_path / module).parent.mkdir(exist_ok=True)
    (tmp_path / module).touch()
    program = tmp_path / "train.py"
    program.write_text("import keras.layers")
    assert importer_of_keras(str(program), is_module=False) is None


def test_arguments_of_the_program_are_not_those_of_the_runner():
    options = parse(["--quiet", __file__, "--keras2", "-m", "--quiet"])
    assert (options.quiet, options.keras, options.script) == (True, None, __file__)
    assert options.arguments == ["--keras2", "-m", "--quiet"]
    options = parse(["--keras2", "-m", "package.module", "-x"])
    assert (options.module, options.script, options.arguments) == ("package.module", None, ["-x"])
