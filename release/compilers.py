#!/usr/bin/env python3
"""Checks that every source compiles with the oldest compilers that are supported.

  release/compilers.py [COMPILER ...]   # g++-11 and clang++-14 by default

The last compiler compiles each source alone, which shows that it includes what it uses. The others
compile each folder of cc as one, as the library is built. Only the syntax is checked, which
takes a few minutes. Call it with a Python that has TensorFlow. It exits with 1 if a source does not
compile, or if there is no such compiler.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from condacc import build  # noqa: E402

COMPILERS = ("g++-11", "clang++-14")


def main() -> int:
    """Checks all sources with each compiler, and returns the exit status."""
    compilers = sys.argv[1:] or COMPILERS
    tensorflow = build.ask_tensorflow(sys.executable)
    all_compile = True
    for name in compilers:
        try:
            errors = errors_of(name, tensorflow, one_by_one=name == compilers[-1])
        except build.BuildError as error:
            errors = [str(error)]
        print("\n".join(errors) or f"Every source compiles with {name}.", flush=True)
        all_compile = all_compile and not errors
    return int(not all_compile)


def errors_of(name: str, tensorflow: build.TensorFlow, one_by_one: bool) -> list[str]:
    """Returns the messages of a compiler about sources that it does not compile.

    Raises:
        build.BuildError: There is no such compiler, or it is too old.
    """
    recipe = build.Build(build.Compiler(ROOT, name), tensorflow, ROOT, print)

    def check(folder: str, files: list[Path]) -> str:
        try:
            recipe.compile(folder, files, "-fsyntax-only")
        except build.BuildError as error:
            return str(error)
        return ""

    units = [
        (folder, unit)
        for folder, files in build.groups_of(ROOT).items()
        for unit in ([[file] for file in files] if one_by_one else [files])
    ]
    with ThreadPoolExecutor(build.num_jobs()) as pool:
        return list(filter(None, pool.map(lambda unit: check(*unit), units)))


if __name__ == "__main__":
    sys.exit(main())
