"""Errors by which programs of that time show what Python, NumPy and SciPy have changed since."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import numpy as np

_PYTHON3 = "programs must be Python 3: convert it, for example with 2to3"
# What 2to3 leaves to do (nothing if it is empty), and the messages that programs of Python 2 get.
_OF_PYTHON2 = {
    "": (
        r"Missing parentheses in call to|multiple exception types must be parenthesized"
        r"|leading zeros in decimal integer|parameters cannot be parenthesized"
        r"|name '(apply|basestring|buffer|coerce|execfile|file|intern|long|raw_input|reduce|reload"
        r"|unichr|unicode|xrange|StandardError)' is not defined"
        r"|has no attribute '(has_key|(iter|view)(items|keys|values)|next|func_\w+|im_(func|self))'"
        r"|'str' object has no attribute 'decode'|'bytes' object has no attribute '(encode|format)'"
        r"|[Mm]odule '(itertools|operator|os|string|sys|types|urllib)' has no attribute"
        r"|cannot import name '\w+' from '(itertools|operator|os|string|sys|types|urllib)'"
        r"|No module named '(BaseHTTPServer|ConfigParser|Cookie|HTMLParser|Queue|SimpleHTTPServer"
        r"|SocketServer|StringIO|Tkinter|UserDict|__builtin__|anydbm|cPickle|cStringIO|commands"
        r"|cookielib|copy_reg|exceptions|htmlentitydefs|httplib|md5|sets|sha|thread|tkMessageBox"
        r"|urllib2|urlparse|xmlrpclib)'"
        r"|for >>: 'builtin_function_or_method'|exceptions must derive from BaseExc"
    ),
    "map, zip, filter, range and the methods of dictionaries return no lists: write list(...) "
    "around them": (
        r"'{list}' object|of type '{list}'|for \S+: .*'{list}'|not ['\"]{list}['\"]"
        r"|<{list} object at|<class '{list}'>"
    ).replace("{list}", "(map|zip|filter|range|(odict|dict)_(keys|values|items))"),
    "the division of integers by / gives a float: write //, which 2to3 does not": (
        r"'float' object cannot be interpreted as an integer|indices must be integers .*not float"
        r"|slice indices must be integers|only integers, slices .* are valid indices"
        r"|can't multiply sequence by non-int of type 'float'|Dimension value must be integer"
        r"|Expected int\d+, .*got .* of type 'float'"
        r"|has DataType float\d+ not in list of allowed values: int32, int64"
    ),
    "bytes are not str: open binary files with 'rb' or 'wb', and use encode() and decode(), which "
    "2to3 does not": (
        r"a bytes-like object is required, not 'str'|can't concat str to bytes"
        r"|can only concatenate str \(not \"bytes\"\)|must be str, not bytes"
        r"|cannot use a (string|bytes) pattern on a|first arg must be (bytes|str) or a tuple of"
        r"|string argument expected, got 'bytes'|must be encoded before hashing"
        r"|string argument without an encoding|iterator should return strings, not bytes"
    ),
    "bytes are not str: open binary files with 'rb', and read pickles of Python 2 with "
    "pickle.load(file, encoding='latin1')": r"codec can't decode byte",
    "use functools.cmp_to_key for cmp, and key= to sort values of different types": (
        r"name 'cmp' is not defined|unexpected keyword argument 'cmp'|'cmp' is an invalid keyword"
        r"|sort\(\) takes no positional arguments|sorted expected 1 argument"
        r"|'[<>]=?' not supported between instances of '(NoneType|str|dict|\w+' and 'NoneType)'"
    ),
    "iterate over a copy, as in list(dictionary), while keys are added or removed": (
        r"dictionary (changed size|keys changed) during iteration"
    ),
    "end a generator by return": r"generator raised StopIteration",
    "open text files with 'r', not with 'rU'": r"invalid mode: '\w*U\w*'",
}
# Statements that only Python 2 has, and that Python 3 calls no more than an invalid syntax.
_STATEMENTS = re.compile(
    r"^\s*raise\s+[\w.]+\s*,|`|<>|\b\d+[lL]\b|\b[uU][rR]['\"]"
    r"|lambda\s*\(|def\s+\w+\s*\((.*,)?\s*\("
)
# What to do about names that Python 3 has lost since, and the messages that tell of them.
_OF_PYTHON3 = {
    "write list(element)": r"has no attribute 'get(children|iterator)'",
    "write x.tobytes()": r"'array\.array' object has no attribute 'tostring'",
    "pip install setuptools": r"No module named 'distutils",
    "use importlib": r"No module named 'imp'",
    "leave encoding out": r"JSONDecoder.*unexpected keyword argument 'encoding'",
}

_OF_NUMPY2 = re.compile(
    r"`np\.\w+` was removed|module 'numpy[\w.]*' has no attribute|No module named 'numpy\."
    r"|cannot import name '\w+' from 'numpy|Unable to avoid copy while creating an array"
    r"|'numpy\.\w+' object has no attribute '(?P<method>tostring|itemset|ptp|newbyteorder)'"
    r"|(?P<item>only 0-dimensional arrays can be converted|a real number is required, not numpy)"
    r"|Python integer -?\d+ out of bounds for"
)
_METHODS = {
    "tostring": "write x.tobytes()",
    "itemset": "assign to x[index]",
    "ptp": "write np.ptp(x)",
    "newbyteorder": "write x.view(x.dtype.newbyteorder())",
}

_OF_SCIPY = re.compile(
    r"[Mm]odule '(?P<module>scipy[\w.]*)' has no attribute '(?P<name>\w+)'"
    r"|cannot import name '(?P<imported>\w+)' from '(?P<source>scipy[\w.]*)'"
    r"|No module named '(?P<missing>scipy\.[\w.]+)'"
)
_IN_SCIPY = {
    **{name: f"scipy.datasets.{name}" for name in ("ascent", "face")},
    **{name: f"scipy.special.{name}" for name in ("comb", "factorial", "logsumexp")},
    **dict.fromkeys(("arpack", "eigen"), "scipy.sparse.linalg"),
    "cumtrapz": "scipy.integrate.cumulative_trapezoid",
    "fromimage": "np.array(image)",
    "imread": "imread of the package imageio",
    "imresize": "PIL.Image of Pillow: np.array(Image.fromarray(x).resize((width, height)))",
    "imrotate": "PIL.Image of Pillow",
    "imsave": "imwrite of the package imageio, with x scaled to uint8",
    "pinv2": "scipy.linalg.pinv",
    "simps": "scipy.integrate.simpson",
    "toimage": "PIL.Image of Pillow: Image.fromarray(x), with x scaled to uint8",
    "trapz": "scipy.integrate.trapezoid",
}


def advice(error: BaseException) -> str | None:
    """Returns what to do about an error, or None if it is not one of these."""
    text = str(error)
    found = _found(_OF_PYTHON2, text)
    if found is None and isinstance(error, SyntaxError) and _STATEMENTS.search(error.text or ""):
        found = ""
    if found is not None:
        return f"{_PYTHON3}; {found}" if found else _PYTHON3
    if (found := _found(_OF_PYTHON3, text)) is not None:
        return f"Python {sys.version_info.major}.{sys.version_info.minor} no longer has it: {found}"
    if match := _OF_SCIPY.search(text):
        return _of_scipy(match)
    if "inhomogeneous shape" in text:
        return "NumPy makes no array of rows of different lengths, unless you pass dtype=object"
    if has_numpy2() and (match := _OF_NUMPY2.search(text)):
        return "; or ".join(_of_numpy(match))
    return None


def _found(table: dict[str, str], text: str) -> str | None:
    """Returns the advice of the first pattern of a table that a message has, or None."""
    return next((what for what, pattern in table.items() if re.search(pattern, text)), None)


def has_numpy2() -> bool:
    """Returns whether the program gets NumPy 2, which TensorFlow 1 never had."""
    return np.lib.NumpyVersion(np.__version__) >= "2.0.0"


def how_to_get_numpy1() -> str:
    """Returns what to do in order to run with NumPy 1."""
    return "pip install 'numpy<2'" if sys.version_info < (3, 13) else "use Python 3.12 or older"


def _of_numpy(match: re.Match[str]) -> Iterator[str]:
    yield f"NumPy {np.__version__} has changed this. To run with NumPy 1: {how_to_get_numpy1()}"
    if match["method"]:
        yield _METHODS[match["method"]]
    elif match["item"]:
        yield "write x.item() for the only element of an array"


def _of_scipy(match: re.Match[str]) -> str:
    name = match["name"] or match["imported"]
    path = match["missing"] or f"{match['module'] or match['source']}.{name}"
    version = getattr(sys.modules.get("scipy"), "__version__", "")
    text = f"SciPy {version} has no {path}"
    module, _, name = path.rpartition(".")
    if place := _IN_SCIPY.get(name):
        return f"{text}: use {place}"
    if module == "scipy" and hasattr(np, name):
        return f"{text}: use np.{name}"
    windows = sys.modules.get("scipy.signal.windows")
    if module == "scipy.signal" and hasattr(windows, name):
        return f"{text}: use scipy.signal.windows.{name}"
    return text
