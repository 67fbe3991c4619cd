"""What the runner says about errors that show what Python, NumPy and SciPy have changed."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest


@pytest.fixture(scope="module")
def hint():
    from tf_condacc.compat._runner.errors import hint

    return hint


def _error_of(statement):
    with pytest.raises(Exception) as raised:
        exec(statement, {"np": np, "sys": sys})
    return raised.value


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
    text = hint(_error_of(statement))
    assert text.startswith("programs must be Python 3: convert it, for example with 2to3")
    assert rest in text and ("; " in text) is bool(rest)


@pytest.mark.parametrize(
    "statement",
    (
        "len(3) | 1 + 'a' | x = None; x[0] | x = [1]; x['a'] | int('x') | x = (1 | no_name "
        "| 'a'.no_name() | import no_module | (lambda: 0)(range=1, map=2) "
        "| raise RuntimeError('no') | open('/no/such/file', 'r')"
    ).split(" | "),
)
def test_errors_of_python_3_have_no_hint(hint, statement):
    assert hint(_error_of(statement)) is None


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (AttributeError("module 'numpy' has no attribute 'who'"), None),
        (AttributeError("`np.find_common_type` was removed in the NumPy 2.0 release."), None),
        (AttributeError("'numpy.ndarray' object has no attribute 'tostring'"), "x.tobytes()"),
        (AttributeError("'numpy.ndarray' object has no attribute 'ptp'"), "np.ptp(x)"),
        (AttributeError("'numpy.ndarray' object has no attribute 'itemset'"), "assign to x[index]"),
        (TypeError("only 0-dimensional arrays can be converted to Python scalars"), "x.item()"),
        (OverflowError("Python integer 300 out of bounds for uint8"), None),
        (ValueError("Unable to avoid copy while creating an array as requested."), None),
        (ModuleNotFoundError("No module named 'numpy.lib.function_base'"), None),
    ],
)
def test_what_numpy_2_lacks_says_how_to_get_numpy_1(hint, monkeypatch, error, also):
    monkeypatch.setattr(np, "__version__", "2.4.6")
    text = hint(error)
    assert ("pip install 'numpy<2'" in text) is (sys.version_info < (3, 13))
    assert also is None or text.endswith(also) or f"{also} for" in text
    monkeypatch.setattr(np, "__version__", "1.26.4")
    assert hint(error) is None


@pytest.mark.parametrize("statement", ["int(np.array([5]))", "np.array([1]).tostring()"])
def test_what_numpy_refuses_has_a_hint(hint, statement):
    try:
        exec(statement, {"np": np})
    except Exception as error:
        assert "; or write x." in hint(error)
    else:
        assert np.lib.NumpyVersion(np.__version__) < "2.4.0"


def test_rows_of_different_lengths_say_that_they_are_objects(hint):
    assert "dtype=object" in hint(_error_of("np.array([[1], [1, 2]])"))


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


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("import xml.etree.ElementTree as e; e.Element('a').getchildren()", "list(element)"),
        ("import json; json.loads('1', encoding='utf-8')", "leave encoding out"),
        ("raise ModuleNotFoundError(\"No module named 'imp'\")", "use importlib"),
    ],
)
def test_what_python_3_has_lost_says_what_to_write(hint, statement, expected):
    assert expected in hint(_error_of(statement))
