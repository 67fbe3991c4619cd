"""Names and arguments that Python and NumPy have removed since the time of TensorFlow 1."""

from __future__ import annotations

import base64
import builtins
import collections
import collections.abc
import fractions
import functools
import inspect
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from condacc.originals import NUMPY_RENAMED
from tf_condacc.compat._runner.known_errors import has_numpy2


class _Cast:
    """``np.cast``: functions that convert their argument to an array of a type, by the type."""

    def __getitem__(self, dtype: Any) -> Callable[[Any], np.ndarray]:
        return lambda array: np.asarray(array).astype(np.dtype(dtype))


def _asfarray(a: Any, dtype: Any = np.float64) -> np.ndarray:
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


_NUMPY: dict[str, Any] = {
    "NINF": -np.inf,
    "NZERO": -0.0,
    "PZERO": 0.0,
    "alen": lambda a: len(np.array(a, ndmin=1)),
    "asfarray": _asfarray,
    "asscalar": lambda array: np.asarray(array).item(),
    "cast": _Cast(),
    "in1d": lambda ar1, ar2, *args, **kwargs: np.isin(np.ravel(ar1), ar2, *args, **kwargs),
    "math": math,
    "msort": lambda a: np.sort(a, axis=0),
    "obj2sctype": lambda rep: np.dtype(rep).type,
    "sctypes": {
        "int": [np.int8, np.int16, np.int32, np.int64],
        "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
        "float": [np.float16, np.float32, np.float64, np.longdouble],
        "complex": [np.complex64, np.complex128, np.clongdouble],
        "others": [bool, object, bytes, str, np.void],
    },
}
for _old, _new in NUMPY_RENAMED.items():
    _place, _, _name = _new.rpartition(".")
    # None stands for np.trapezoid, which NumPy 1 lacks. It has np.trapz itself.
    _NUMPY[_old] = getattr(builtins if _place else np, _name, None)
_NEW_PLACE = getattr(np, "exceptions", None)  # NumPy 1.25 was the first to have it.
_EXCEPTIONS = {name: getattr(_NEW_PLACE, name) for name in getattr(_NEW_PLACE, "__all__", ())}
ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def _getargspec(func: Callable[..., Any]) -> ArgSpec:
    """Mirrors ``inspect.getargspec``, and accepts functions with annotations as well.

    Functions of TensorFlow have annotations today.

    Raises:
        ValueError: The function has arguments that can only be passed by keyword.
    """
    spec = inspect.getfullargspec(func)
    if spec.kwonlyargs:
        raise ValueError(
            f"getargspec: {func!r} has arguments that can only be passed by keyword, "
            f"{spec.kwonlyargs}; use inspect.signature"
        )
    return ArgSpec(*spec[:4])


_COLLECTIONS = {name: getattr(collections.abc, name) for name in collections.abc.__all__}
_REMOVED: tuple[tuple[Any, dict[str, Any]], ...] = (
    (np, _NUMPY | _EXCEPTIONS),
    (collections, _COLLECTIONS),
    (base64, {"decodestring": base64.decodebytes, "encodestring": base64.encodebytes}),
    (fractions, {"gcd": math.gcd}),
    (inspect, {"ArgSpec": ArgSpec}),
    (threading.Thread, {"isAlive": threading.Thread.is_alive}),
    (time, {"clock": time.process_time}),
)


def bring_back() -> None:
    """Sets the names where they are missing, for the rest of the process.

    They mean what they meant: those of NumPy are its old names for the types and functions of
    Python and for its own, and ``time.clock`` is the processor time, as on Linux. ``np.reshape``
    and ``np.fromstring`` accept again what NumPy 1 accepted, and ``np.lib`` has functions of NumPy.
    """
    # That of Python 3.10 refuses functions with annotations.
    inspect.getargspec = _getargspec  # type: ignore[assignment]
    for owner, names in _REMOVED:
        for name, value in names.items():
            if name not in vars(owner):
                setattr(owner, name, value)
    if has_numpy2():
        np.lib.__getattr__ = _falling_back(np.lib.__getattr__)  # type: ignore[method-assign]
        np.reshape = _reshaping(np.reshape)
        np.fromstring = _reading_bytes(np.fromstring)


def _falling_back(original: Callable[[str], Any]) -> Callable[[str], Any]:
    """Returns a ``__getattr__`` of ``np.lib`` that also finds the public names of NumPy."""

    def __getattr__(name: str) -> Any:
        return getattr(np, name) if name in np.__all__ else original(name)

    return __getattr__


def _reshaping(original: Callable[..., Any]) -> Any:
    """Returns an ``np.reshape`` that also accepts `shape` by its old name `newshape`."""

    @functools.wraps(original)
    def reshape(a: Any, *args: Any, **kwargs: Any) -> Any:
        shape = (kwargs.pop("newshape"),) if "newshape" in kwargs else ()
        return original(a, *shape, *args, **kwargs)

    return reshape


def _reading_bytes(original: Callable[..., Any]) -> Any:
    """Returns an ``np.fromstring`` that reads binary data as well, if there is no separator."""

    @functools.wraps(original)
    def fromstring(
        string: Any, dtype: Any = float, count: int = -1, sep: str = "", **options: Any
    ) -> np.ndarray:
        if sep:
            return original(string, dtype, count, sep=sep, **options)
        data = string.encode() if isinstance(string, str) else string
        return np.frombuffer(data, dtype, count, **options).copy()

    return fromstring
