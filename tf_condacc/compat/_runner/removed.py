"""Names that Python and NumPy have removed since the time of TensorFlow 1."""

from __future__ import annotations

import base64
import collections
import collections.abc
import fractions
import math
import threading
import time
from typing import Any

import numpy as np

_NUMPY: dict[str, Any] = {
    "Inf": np.inf,
    "NaN": np.nan,
    "alltrue": np.all,
    "asscalar": lambda array: np.asarray(array).item(),
    "complex": complex,
    "cumproduct": np.cumprod,
    "float": float,
    "float_": np.float64,
    "int": int,
    "math": math,
    "object": object,
    "product": np.prod,
    "sometrue": np.any,
    "str": str,
    "unicode_": np.str_,
}
_COLLECTIONS = {name: getattr(collections.abc, name) for name in collections.abc.__all__}
_REMOVED: tuple[tuple[Any, dict[str, Any]], ...] = (
    (np, _NUMPY),
    (collections, _COLLECTIONS),
    (base64, {"decodestring": base64.decodebytes, "encodestring": base64.encodebytes}),
    (fractions, {"gcd": math.gcd}),
    (threading.Thread, {"isAlive": threading.Thread.is_alive}),
    (time, {"clock": time.process_time}),
)


def bring_back() -> None:
    """Sets the names where they are missing, for the rest of the process.

    They mean what they meant: those of NumPy are its old names for the types and functions of
    Python and for its own, and ``time.clock`` is the processor time, as on Linux.
    """
    for owner, names in _REMOVED:
        for name, value in names.items():
            if name not in vars(owner):
                setattr(owner, name, value)
