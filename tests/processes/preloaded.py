"""Libraries in C that stand between a process and the C library."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# Marks tests whose process needs such a library.
needs_preloaded = pytest.mark.skipif("LD_PRELOAD" not in os.environ, reason="needs a C compiler")


def preloaded(folder: Path, source: str, **variables: str) -> dict[str, str]:
    """Returns the environment that loads a library, if there is a compiler.

    Args:
        folder: Folder of the library.
        source: The library in C.
        **variables: Further variables of the environment.
    """
    compiler = os.environ.get("CXX") or shutil.which("gcc") or shutil.which("g++")
    if not compiler:
        return variables
    path, library = folder / "preloaded.c", folder / "preloaded.so"
    path.write_text(source)
    subprocess.run(
        [compiler, "-x", "c", "-shared", "-fPIC", "-O1", "-fexceptions"]
        + [str(path), "-o", str(library), "-ldl"],
        check=True,
        capture_output=True,
    )
    return {"LD_PRELOAD": str(library), **variables}
