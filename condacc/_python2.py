"""Errors by which programs of Python 2 show that they are such. TensorFlow is not imported here."""

from __future__ import annotations

import re

_PYTHON3 = "programs must be Python 3: convert it, for example with 2to3"
# Patterns of the messages that programs of Python 2 get, by what is left to do after 2to3. An empty
# text means that nothing is.
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


def advice(error: BaseException) -> str | None:
    """Returns what to do about an error, or None if it is not one of these."""
    if isinstance(error, TabError):
        return _of_tabs(error)
    matching = (what for what, each in _OF_PYTHON2.items() if re.search(each, str(error)))
    found = next(matching, None)
    if found is None and isinstance(error, SyntaxError) and _STATEMENTS.search(error.text or ""):
        found = ""
    if found is None:
        return None
    return f"{_PYTHON3}; {found}" if found else _PYTHON3


def _of_tabs(error: TabError) -> str:
    """Returns what to do about a file whose lines are indented by tabs and by spaces.

    The effect of the command is tried: if the result is not Python 3 either, 2to3 is needed too.
    """
    path = error.filename or ""
    text = (
        "Python 3 does not allow mixed tabs and spaces: replace the file with the output of "
        f"`expand -t 8 {path}`"
    )
    try:
        with open(path, "rb") as file:
            compile(file.read().expandtabs(8), path, "exec", dont_inherit=True)
    except OSError:
        return text
    except (SyntaxError, ValueError):
        return f"{text}. The program must then be converted to Python 3, for example with 2to3"
    return text
