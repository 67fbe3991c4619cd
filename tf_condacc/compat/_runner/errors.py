"""What the runner shows of an error that ends a program: its traceback, and what to do about it."""

from __future__ import annotations

import os
import re
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from condacc.versions import has_module, install_tf_keras, uses_keras2
from tf_condacc.compat._errors import MissingModuleError, MissingNameError
from tf_condacc.compat._runner import known_errors
from tf_condacc.compat._runner.extent import Extent
from tf_condacc.compat._runner.sources import ProgramLoader

ExceptHook = Callable[[type[BaseException], BaseException, types.TracebackType | None], object]

_MISSING = re.compile(r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'")
_OF_KERAS3 = r"'(keras\.|tensorflow\.keras)"
_NOT_IMPORTED = re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'")
# Modules of TensorFlow 2, as error messages name them.
_VERSION_2 = re.compile(
    r"tensorflow(\._api\.v2)?(\.(?P<path>(?!_api|compat|contrib|core|python)[\w.]+))?"
)
_KERAS = f"{__package__}.keras"
# The names that TensorFlow had before version 1, by the present ones.
_BEFORE_1 = {
    "abs": "complex_abs",
    "linalg.inv": "matrix_inverse batch_matrix_inverse",
    "math.reciprocal": "inv",
    "matmul": "batch_matmul",
    "multiply": "mul",
    "negative": "neg",
    "setdiff1d": "listdiff",
    "stack": "pack",
    "subtract": "sub",
    "summary.FileWriter": "SummaryWriter",
    "summary.audio": "audio_summary",
    "summary.histogram": "histogram_summary",
    "summary.image": "image_summary",
    "summary.merge": "merge_summary",
    "summary.merge_all": "merge_all_summaries",
    "summary.scalar": "scalar_summary",
    "unstack": "unpack",
    "where": "select",
}
_NOW = {old: f"tf.{new}" for new, names in _BEFORE_1.items() for old in names.split()}
_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep


def show_as_program(excepthook: ExceptHook, extent: Extent) -> ExceptHook:
    """Returns a function for ``sys.excepthook`` that shows the lines of the program.

    It adds a line that says what to do, if that is known.

    Args:
        excepthook: The function that shows an exception.
        extent: Which modules belong to the program.
    """

    def show(
        kind: type[BaseException], error: BaseException, _: types.TracebackType | None
    ) -> None:
        _strip_chain(error)
        excepthook(kind, error, error.__traceback__)
        text = _of_version(error, extent) or hint(error)
        if text is not None:
            print(f"condacc run: {text}", file=sys.stderr)

    return show


def _strip_chain(error: BaseException | None) -> None:
    """Removes the functions of the runner from an exception and from those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _strip(error.__traceback__)
        error = error.__cause__ or error.__context__


def _strip(traceback: types.TracebackType | None) -> types.TracebackType | None:
    entries: list[types.TracebackType] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not os.path.realpath(code.co_filename).startswith(_OWN):
            entries.append(traceback)
        elif code.co_name == "run_in":  # What comes before it only started the program.
            entries.clear()
        traceback = traceback.tb_next
    stripped = None
    for entry in reversed(entries):
        stripped = types.TracebackType(stripped, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return stripped


def hint(error: BaseException) -> str | None:
    """Returns what to do about an error, or None if the error says it or nothing is known."""
    if isinstance(error, MissingNameError | MissingModuleError):
        return None
    text = str(error)
    if (found := known_errors.advice(error)) is not None:
        return found
    if isinstance(error, AttributeError | ImportError):
        if "Keras 3" in text or (not uses_keras2() and re.search(_OF_KERAS3, text)):
            install = f"install Keras 2: {install_tf_keras()}"
            instead = "run with --keras2 to use Keras 2" if has_module("tf_keras") else install
            return f"Keras 3 lacks what TensorFlow 1 had; {instead}"
        match = _MISSING.search(text) or _NOT_IMPORTED.search(text)
        if match and match["module"].startswith("tensorflow"):
            return _of_name(match["module"], match["name"])
        if match and match["name"].startswith("BoostedTrees"):
            return "use the package tensorflow-decision-forests"
        if match and _KERAS in sys.modules and re.match(rf"({_KERAS}|keras)\b", match["module"]):
            return _of_keras(f"{match['module']}.{match['name']}")
    if isinstance(error, ModuleNotFoundError):
        return _of_module(error.name or "")
    return None


def _of_version(error: BaseException, extent: Extent) -> str | None:
    """Returns what to do if a module got TensorFlow 2 but needs TensorFlow 1, or None."""
    match = _MISSING.search(str(error)) or _NOT_IMPORTED.search(str(error))
    if not isinstance(error, AttributeError | ImportError) or match is None:
        return None
    version_2 = _VERSION_2.fullmatch(match["module"])
    if version_2 is None or not _is_in_version_1(version_2["path"], match["name"]):
        return None
    folder = os.path.dirname(sys.modules["tensorflow"].__file__ or "") + os.sep
    names = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_filename.startswith(folder):
            names = frame.f_globals
    name, path = names.get("__name__"), names.get("__file__")
    if name is None or path is None or isinstance(names.get("__loader__"), ProgramLoader):
        return None
    if name == "__main__":
        return None
    missing = ".".join(filter(None, ("tf", version_2["path"], match["name"])))
    return (
        f"the module {name} is given TensorFlow 2, which has no {missing}, because it does not "
        f"belong to the program. If it is for TensorFlow 1, {extent.how_to_add(name, path)}"
    )


def _is_in_version_1(path: str | None, name: str) -> bool:
    found: Any = sys.modules["tensorflow"].compat.v1
    for part in (path or "").split("."):
        found = getattr(found, part, None) if part else found
    return name in dir(found)


def _of_name(module: str, name: str) -> str:
    """Returns what to do about a name that a module of TensorFlow lacks."""
    if name in _NOW:
        return f"{name} is a name of TensorFlow 0: use {_NOW[name]}"
    path = re.sub(r"^tensorflow(\._api\.v2)?\.compat\.v1", "tf", module)
    if path.startswith("tf"):
        found = sys.modules["tensorflow"]
        for part in path.split(".")[1:]:
            found = getattr(found, part, found)
        if hasattr(found, name):
            place = path.replace("tf", "tf.compat.v2", 1)
            return f"{path}.{name} is only in version 2: use {place}.{name}"
    places = sorted(
        other
        for other, value in list(sys.modules.items())
        if other.startswith("tensorflow.python.") and name in getattr(value, "__dict__", ())
        if getattr(vars(value)[name], "__module__", None) == other
    )
    if places:
        return f"TensorFlow {_version()} has {name} in {' and '.join(places[:3])}"
    return f"TensorFlow {_version()} has no {path}.{name}"


def _of_module(name: str) -> str | None:
    """Returns what to do about a missing module, or None for an unknown one."""
    if name.startswith(_KERAS):
        return _of_keras(name)
    if name.partition(".")[0] == "tf_keras":
        return f"install the layers of TensorFlow 1: {install_tf_keras()}"
    if not name.startswith("tensorflow."):
        return None
    if name.startswith("tensorflow.examples"):
        return "of TensorFlow's examples, tf_condacc provides tutorials.mnist.input_data and mnist"
    return f"TensorFlow {_version()} has no module {name}"


def _of_keras(name: str) -> str:
    """Returns what is missing, by a path below the module that stands for the package keras."""
    version = sys.modules[_KERAS].__version__
    return f"keras is tf.keras of Keras {version}, which has no {name.replace(_KERAS, 'keras', 1)}"


def _version() -> str:
    return sys.modules["tensorflow"].__version__
