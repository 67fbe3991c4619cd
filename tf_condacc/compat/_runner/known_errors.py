"""Errors by which programs of that time show what Python, NumPy and SciPy have changed since."""

from __future__ import annotations

import re
import sys

import numpy as np

from condacc import _python2

_OF_NUMPY2 = re.compile(
    r"`np\.\w+` was removed|module 'numpy[\w.]*' has no attribute|No module named 'numpy\."
    r"|cannot import name '\w+' from 'numpy|Unable to avoid copy while creating an array"
    r"|'numpy\.\w+' object has no attribute '(tostring|itemset|ptp|newbyteorder)'"
    r"|only 0-dimensional arrays can be converted|a real number is required, not numpy"
    r"|Python integer -?\d+ out of bounds for"
)
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
    if (found := _python2.advice(error)) is not None:
        return found
    if match := _OF_SCIPY.search(text):
        return _of_scipy(match)
    if has_numpy2() and _OF_NUMPY2.search(text):
        return (
            f"NumPy {np.__version__} has changed this. To run with NumPy 1: {how_to_get_numpy1()}"
        )
    return None


def has_numpy2() -> bool:
    """Returns whether the program gets NumPy 2, which TensorFlow 1 never had."""
    return np.lib.NumpyVersion(np.__version__) >= "2.0.0"


def how_to_get_numpy1() -> str:
    """Returns what to do in order to run with NumPy 1."""
    return "pip install 'numpy<2'" if sys.version_info < (3, 13) else "use Python 3.12 or older"


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
