"""``condacc info``: the versions that a bug report needs.

The versions are read from the metadata of the installed packages. TensorFlow is not imported, which
takes seconds, and is impossible where a bug report is about its import.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence

from condacc import __version__, libraries, versions
from condacc._find_tensorflow import installed_tensorflow

_PACKAGES = (
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
    name, tensorflow = installed_tensorflow() or ("tensorflow", _MISSING)
    packages = {
        name: tensorflow,
        "keras": _keras(),
        **{each: versions.version_of(each) or _MISSING for each in _PACKAGES},
    }
    python = f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})"
    machine = f"{platform.platform()} ({platform.machine()})"
    build = _build(tensorflow)
    return {"tf_condacc": __version__, **build, "Python": python, **packages, "platform": machine}


def _keras() -> str:
    """Returns the version of Keras, with the name of its package if it is another one."""
    name, version = versions.installed_keras() or ("keras", _MISSING)
    return version if name == "keras" else f"{version} ({name})"


def _build(tensorflow: str) -> dict[str, str]:
    """Returns how the native library was built.

    Args:
        tensorflow: The version of the installed TensorFlow, or that it is missing.
    """
    try:
        folder = libraries.package_folder()
    except ImportError as error:
        return {"library": f"not built: {error}"}
    library = libraries.find(tensorflow)
    if library is None:
        keys = libraries.keys_in(folder)
        if not keys:
            return {"library": f"not built, in {folder}"}
        missing = "" if tensorflow == _MISSING else f"; none for TensorFlow {tensorflow}"
        return {"library": f"for TensorFlow {', '.join(keys)}, in {folder}{missing}"}
    info = library.info()
    archs = ", ".join(info["cuda_archs"])
    return {
        "library": f"built for TensorFlow {info['tensorflow']}, in {library.file.parent}",
        "compiler": info["compiler"],
        "CUDA": f"{info['cuda']} ({archs})" if info["cuda"] else "none",
    }
