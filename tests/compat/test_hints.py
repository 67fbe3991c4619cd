"""What the runner says about an error that ends a program, and about its command line."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import numpy as np
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
        exec(statement, {"np": np, "sys": sys, "tf": tf.compat.v1})
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


# Statements that Python 2 allows, grouped by what remains to be done after 2to3, with a bar between
# them.
PYTHON2 = {
    "": (
        "print 'x' | exec 'x' | raise ValueError, 'x' | x = 0777 | x = 10L | x = `1` | 1 <> 2 | "
        "x = ur'a' | lambda (a, b): a | def f(a, (b, c)): pass | print >>sys.stderr | raise 'x' | "
        "xrange(3) | execfile('x.py') | reload(sys) | file('x') | {}.iteritems() | "
        "{}.viewkeys() | iter([1]).next() | 'a'.decode('utf-8') | b'a'.encode('utf-8') | "
        "sys.maxint | import itertools; itertools.izip([1], [2]) | from itertools import izip | "
        "import string; string.letters | from string import maketrans | "
        "import urllib; urllib.urlretrieve('file:/dev/null') | import os; os.getcwdu() | "
        "(lambda: 0).func_name | import urllib2 | import thread | import commands | "
        "import cStringIO"
    ),
    "write list(...)": (
        "len(map(int, '12')) | zip([1], [2])[0] | filter(None, [1])[:1] | {1: 2}.keys()[0] | "
        "{1: 2}.keys().sort() | map(int, '12').append(3) | [0] + {1: 2}.values() | "
        "range(3) + range(2) | range(3)[0] = 1 | 2.0 * map(int, '12') | float(map(int, '12')) | "
        "import tensorflow as tf; tf.constant(map(int, '12'))"
    ),
    "write //": (
        "range(6 / 2) | [1, 2][:4 / 2] | x = [1, 2]; x[2 / 2] | 'x' * (4 / 2) | "
        "np.zeros([4 / 2]) | np.zeros(4)[4 / 2] | "
        "import tensorflow as tf; tf.TensorShape([None, 28 / 4]) | "
        "import tensorflow as tf\nwith tf.Graph().as_default(): tf.reshape(tf.zeros([4]), [4 / 2])"
    ),
    "bytes are not str": (
        "b'a,b'.split(',') | b'a' + 'b' | 'a' + b'b' | b'a'.startswith('a') | "
        "import re; re.match('a', b'a') | import hashlib; hashlib.md5('a') | "
        "import io; io.StringIO().write(b'a') | import csv; next(csv.reader([b'a'])) | "
        "b'\\x80'.decode('utf-8') | import pickle; pickle.loads(b'U\\x01\\x80.')"
    ),
    "functools.cmp_to_key": (
        "sorted([2, 1], cmp=None) | [2, 1].sort(lambda a, b: a - b) | [2, 1].sort(cmp=None) | "
        "cmp(1, 2) | sorted([None, 1]) | sorted([{}, {}])"
    ),
    "iterate over a copy": "d = {1: 2, 3: 4}\nfor key in d:\n    del d[key]",
    "by return": "def f():\n    yield next(iter([]))\nlist(f())",
    "not with 'rU'": "raise ValueError(\"invalid mode: 'rU'\")",
}


@pytest.mark.parametrize(
    ("statement", "rest"),
    [(each, rest) for rest, all in PYTHON2.items() for each in all.split(" | ")],
)
def test_an_error_that_is_typical_of_python_2_says_what_to_do(hint, statement, rest):
    text = hint(error_of(statement))
    assert text.startswith("programs must be Python 3: convert it, for example with 2to3")
    assert rest in text and ("; " in text) is bool(rest)


@pytest.mark.parametrize(
    "statement",
    (
        "len(3) | 1 + 'a' | x = None; x[0] | x = [1]; x['a'] | int('x') | x = (1 | no_name | {}[1] "
        "| 'a'.no_name() | import no_module | (lambda: 0)(range=1, map=2) "
        "| raise RuntimeError('no') | open('/no/such/file', 'r')"
    ).split(" | "),
)
def test_errors_of_python_3_have_no_hint(hint, statement):
    assert hint(error_of(statement)) is None


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("module 'numpy' has no attribute 'who'"),
        AttributeError("`np.find_common_type` was removed in the NumPy 2.0 release."),
        AttributeError("'numpy.ndarray' object has no attribute 'tostring'"),
        TypeError("only 0-dimensional arrays can be converted to Python scalars"),
        OverflowError("Python integer 300 out of bounds for uint8"),
        ValueError("Unable to avoid copy while creating an array as requested."),
        ModuleNotFoundError("No module named 'numpy.lib.function_base'"),
    ],
    ids=str,
)
def test_what_numpy_2_lacks_says_how_to_get_numpy_1(hint, monkeypatch, error):
    monkeypatch.setattr(np, "__version__", "2.4.6")
    assert ("pip install 'numpy<2'" in hint(error)) is (sys.version_info < (3, 13))
    monkeypatch.setattr(np, "__version__", "1.26.4")
    assert hint(error) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AttributeError("module 'scipy.misc' has no attribute 'imread'"), "package imageio"),
        (ImportError("cannot import name 'imresize' from 'scipy.misc' (x)"), "Image.fromarray(x)."),
        (ModuleNotFoundError("No module named 'scipy.sparse.linalg.eigen.arpack'"), "use scipy.s"),
        (AttributeError("Module 'scipy' has no attribute 'zeros'"), "use np.zeros"),
        (AttributeError("module 'scipy.signal' has no attribute 'hann'"), "use scipy.signal.wi"),
        (AttributeError("module 'scipy' has no attribute 'nothing'"), "SciPy 1.17 has no scipy.n"),
    ],
)
def test_a_name_that_scipy_has_lost_says_where_it_is(hint, monkeypatch, error, expected):
    windows = types.SimpleNamespace(hann=None)
    monkeypatch.setitem(sys.modules, "scipy", types.SimpleNamespace(__version__="1.17"))
    monkeypatch.setitem(sys.modules, "scipy.signal.windows", windows)
    assert expected in hint(error)


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
