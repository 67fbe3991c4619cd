"""``condacc info``: the versions that a bug report needs.

The versions are read from the metadata of the installed packages. TensorFlow is not imported, which
takes seconds, and is impossible where a bug report is about its import.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from condacc import __version__

_PACKAGES = (
    "tensorflow",
    "keras",
    "tf-keras",
    "tf-slim",
    "tensorflow-estimator",
    "numpy",
    "libcst",
)
_MISSING = "not installed"


def main(arguments: Sequence[str]) -> int:
    """Prints the versions, and returns the exit status.

    Args:
        arguments: Command-line arguments, of which there are none but ``--help``.
    """
    parser = argparse.ArgumentParser(
        prog="condacc info", description="Prints the versions that a bug report needs."
    )
    parser.parse_args(arguments)
    for name, value in report().items():
        print(f"{name + ':':22}{value}")
    return 0


def report() -> dict[str, str]:
    """Returns the versions and their names, in the order in which they are printed."""
    versions = {name: _version(name) for name in _PACKAGES}
    python = f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})"
    machine = f"{platform.platform()} ({platform.machine()})"
    build = _build(versions["tensorflow"])
    return {"tf_condacc": __version__, **build, "Python": python, **versions, "platform": machine}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return _MISSING


def _build(tensorflow: str) -> dict[str, str]:
    """Returns how the native library was built.

    Args:
        tensorflow: The version of the installed TensorFlow.
    """
    spec = importlib.util.find_spec("tf_condacc")
    if spec is None or spec.origin is None:
        return {"library": "not built: there is no package tf_condacc"}
    folder = Path(spec.origin).parent
    try:
        info: dict[str, Any] = json.loads((folder / "_build_info.json").read_text("utf-8"))
    except FileNotFoundError:
        info = {}
    if not info or not (folder / "_condacc_ops.so").exists():
        return {"library": f"not built, in {folder}"}
    library = f"built for TensorFlow {info['tensorflow']}, in {folder}"
    if tensorflow not in (_MISSING, info["tensorflow"]):
        library += f"; cannot be loaded with TensorFlow {tensorflow}"
    archs = ", ".join(info["cuda_archs"])
    cuda = f"{info['cuda']} ({archs})" if info["cuda"] else "none"
    return {"library": library, "compiler": info["compiler"], "CUDA": cuda}
