"""C++ programs of the core and of its tests, built without Bazel, for this machine or aarch64."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from condacc import build

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "cc"
FOLDERS = ("dense", "math", "memory", "sparse")
_STRICT_FUNCTIONS = ("mmap", "munmap", "madvise", "mincore", "mremap")


# Stand-ins for headers of the core, which are those of cc/core/stand_ins.bzl.
_CHECKED = [TESTS / "stand_ins" / f"{name}.h" for name in ("cond_var", "timer_queue")]
_EXPLORED = [
    TESTS / "explorer" / "stand_ins" / f"{name}.h" for name in ("mutex", "timer_queue", "reached")
]
_NO_TENSORFLOW = build.TensorFlow("2.21.0", [], [])  # The core does not use it.


class Part(NamedTuple):
    """Sources that are compiled as one.

    Attributes:
        folder: The folder of ``cc`` whose options they are compiled with.
        files: The sources.
        stand_ins: Headers that come before them.
        options: Further options.
    """

    folder: str
    files: Sequence[Path]
    stand_ins: Sequence[Path] = ()
    options: Sequence[str] = ()


class Program(NamedTuple):
    """A program.

    Attributes:
        parts: Names of the parts that it consists of.
        options: Options of the linker.
    """

    parts: Sequence[str]
    options: Sequence[str] = ()


def core_parts() -> dict[str, Part]:
    """Returns the parts that programs of the core consist of."""
    return {
        **{folder: Part(folder, _sources_of(folder), _CHECKED) for folder in ("core", "memory")},
        "clock": Part("tests", _sources("stand_ins", "clock.cc"), _CHECKED),
    }


def test_parts() -> dict[str, Part]:
    """Returns the parts of the core's tests, and of the explorer of schedules."""
    tests = {f"{name}_test": _sources(name, "*_test.cc") for name in FOLDERS}
    tests["gpu_pass_test"] = _sources("gpu", "dense_pass_test.cc")
    rooms = ("explorer", "explorer/programs", "explorer/training")
    explorer = [file for room in rooms for file in _sources(room, "*.cc") if file.name != "main.cc"]
    return {
        **{name: Part("tests", files, _CHECKED) for name, files in tests.items()},
        "explored": Part("core", _sources_of("core"), _EXPLORED),
        "explorer": Part("tests", explorer, _EXPLORED),
        # A jump between stacks would be refused if it were checked.
        "fibers": Part("tests", _sources("explorer", "fibers/*.cc"), (), ["-U_FORTIFY_SOURCE"]),
    }


def test_programs() -> dict[str, Program]:
    """Returns the programs of the core's tests."""
    names = [*(f"{folder}_test" for folder in FOLDERS), "gpu_pass_test"]
    return {
        **{name: Program((name, "core", "memory", "clock")) for name in names},
        "explorer_test": Program(("explorer", "explored", "fibers")),
    }


def own_parts() -> dict[str, Part]:
    """Returns the parts whose sources are beside this file."""
    names = ("strict_pages", "sum_digests")
    return {name: Part("tests", [Path(__file__).with_name(f"{name}.cc")]) for name in names}


def own_programs() -> dict[str, Program]:
    """Returns the programs that have such parts."""
    wrap = [f"-Wl,--wrap={function}" for function in _STRICT_FUNCTIONS]
    return {
        "strict_memory_test": Program(
            ("memory_test", "memory", "core", "clock", "strict_pages"), wrap
        ),
        "sum_digests": Program(("sum_digests", "core")),
    }


def _sources_of(folder: str) -> list[Path]:
    """Returns the sources of a folder of cc, without the one that a stand-in replaces."""
    return [file for file in build.groups_of(ROOT)[folder] if file.name != "timer_queue.cc"]


def _sources(folder: str, pattern: str) -> list[Path]:
    """Returns the sources in a folder of tests/cc whose names match a pattern."""
    return sorted((TESTS / folder).glob(pattern))


def make(
    parts: dict[str, Part],
    programs: dict[str, Program],
    folder: Path,
    compiler: str | None = None,
    libraries: Sequence[Path] = (),
) -> dict[str, Path]:
    """Makes programs, in which the core checks its invariants.

    Args:
        parts: The parts of the programs, by name.
        programs: The programs, by name.
        folder: Folder for the objects of the parts (NAME.o), and for the programs.
        compiler: The compiler's command for a shell. By default, that of this machine.
        libraries: Libraries that all programs are linked with.

    Returns:
        The paths of the programs, by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    driver = build.Compiler(ROOT, compiler)
    recipe = build.Build(driver, _NO_TENSORFLOW, ROOT, print)

    def compile_part(name: str) -> None:
        part = parts[name]
        # Tests are compiled with -O1, which takes less time.
        level = ["-O1"] if part.folder == "tests" else []
        last = ("-DCONDACC_CHECK_INVARIANTS", *part.options, "-c", "-o", str(folder / f"{name}.o"))
        recipe.compile(part.folder, [*part.stand_ins, *part.files], *level, *last)

    def link(name: str) -> Path:
        program = programs[name]
        objects = [str(folder / f"{part}.o") for part in program.parts]
        last = [*map(str, libraries), *program.options, "-ldl", "-lpthread"]
        driver.run(["-o", str(folder / name), *objects, *last])
        return folder / name

    with ThreadPoolExecutor(build.num_jobs()) as pool:
        list(pool.map(compile_part, parts))
        return dict(zip(programs, pool.map(link, programs), strict=True))
