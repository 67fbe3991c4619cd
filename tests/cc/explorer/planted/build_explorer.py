"""Builds the explorer without Bazel, and keeps the object files of earlier builds.

An object is made again only if its source or a header that it includes has changed. So a changed
line of the core costs the compilation of a few files.
"""

import contextlib
import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EXPLORER = Path("tests/cc/explorer")
COMMAND = [
    *(os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-I.", "-ffp-contract=off"),
    "-DCONDACC_CHECK_INVARIANTS",
]
STAND_INS = [
    *("-include", f"{EXPLORER}/stand_ins/mutex.h"),
    *("-include", f"{EXPLORER}/stand_ins/timer_queue.h"),
    *("-include", f"{EXPLORER}/stand_ins/reached.h"),
]
FIBERS = EXPLORER / "fibers"  # The stand-ins depend on them.


def sources(tree: Path) -> list[Path]:
    """Returns the sources of the core and of the explorer, relative to the tree."""
    found = [*tree.glob("cc/core/*/*.cc"), *tree.glob(f"{EXPLORER}/**/*.cc")]
    return sorted(
        path.relative_to(tree)
        for path in found
        if path.name != "timer_queue.cc" and not path.name.endswith("_test.cc")
    )


def compile_source(tree: Path, source: Path, cache: Path) -> Path:
    """Returns the object of a source, which `cache` may have."""
    command = COMMAND + ([] if source.parent == FIBERS else STAND_INS)
    dependencies = cache / (str(source).replace("/", "_") + ".d")

    def path_in_cache() -> Path:
        content = hashlib.sha256(" ".join(command).encode())
        for name in dependencies.read_text().replace("\\\n", " ").split()[1:]:
            content.update(name.encode() + (tree / name).read_bytes())
        return cache / f"{content.hexdigest()}.o"

    with contextlib.suppress(FileNotFoundError):  # Nothing was compiled, or a header is gone.
        if path_in_cache().exists():
            return path_in_cache()
    made = cache / f"{source.name}.o"
    options = ["-MMD", "-MF", str(dependencies), "-c", str(source), "-o", str(made)]
    subprocess.run([*command, *options], cwd=tree, check=True)
    return made.rename(path_in_cache())


def build(tree: Path, cache: Path) -> Path:
    """Builds the explorer of a tree, and returns the path of the program."""
    cache.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(lambda source: compile_source(tree, source, cache), sources(tree)))
    program = cache / "explorer"
    subprocess.run([COMMAND[0], *map(str, objects), "-o", str(program)], check=True)
    return program
