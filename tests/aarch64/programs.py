"""C++ programs of the core and of its tests, built without Bazel, for this machine or aarch64."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from condacc import build

ROOT = Path(__file__).resolve().parents[2]
# The tests of the explorer need stand-ins for locks and timers, and those of the GPU need CUDA.
FOLDERS = ("accumulator", "base", "dense", "fuzz", "memory", "sparse", "staleness", "sync")
_NO_TENSORFLOW = build.TensorFlow("2.21.0", [], [])  # The core does not use it.


class Programs:
    """Programs that are linked with the core, whose invariants are checked."""

    def __init__(self, folder: Path, compiler: str | None = None) -> None:
        """Prepares a build.

        Args:
            folder: Folder for objects and programs.
            compiler: The compiler's command for a shell. By default, that of this machine.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._compiler = build.Compiler(ROOT, compiler)
        self._recipe = build.Build(self._compiler, _NO_TENSORFLOW, ROOT, print)

    def make(self, sources: dict[str, Sequence[Path]], *libraries: str) -> dict[str, Path]:
        """Makes some programs, and returns their paths by their names.

        Args:
            sources: The sources of each program, by its name. They are compiled as one.
            *libraries: Options of the linker.
        """
        with ThreadPoolExecutor(build.num_jobs()) as pool:
            core = [pool.submit(self._compile_core, folder) for folder in ("core", "memory")]
            tests = {name: pool.submit(self._compile, name, files) for name, files in sources.items()}
            objects = [str(each.result()) for each in core]
            return {
                name: self._link(name, [str(test.result()), *objects, *libraries])
                for name, test in tests.items()
            }

    def object_of(self, folder: str) -> Path:
        """Returns the path of the object of a folder of ``cc``."""
        return self._folder / f"cc_{folder}.o"

    def _compile_core(self, folder: str) -> Path:
        files = build.groups_of(ROOT)[folder]
        made = self.object_of(folder)
        self._recipe.compile(folder, files, "-DCONDACC_CHECK_INVARIANTS", "-c", "-o", str(made))
        return made

    def _compile(self, name: str, files: Sequence[Path]) -> Path:
        made = self._folder / f"{name}.o"
        options = ("-O1", "-DCONDACC_CHECK_INVARIANTS", "-c", "-o", str(made))
        self._recipe.compile("tests", files, *options)
        return made

    def _link(self, name: str, arguments: Sequence[str]) -> Path:
        program = self._folder / name
        self._compiler.run(["-o", str(program), *arguments, "-ldl", "-lpthread"])
        return program


def core_tests() -> dict[str, list[Path]]:
    """Returns the sources of the core's tests, by the name of their program."""
    sources = {}
    for folder in FOLDERS:
        files = sorted((ROOT / "tests" / "cc" / folder).glob("*_test.cc"))
        sources[f"{folder}_test"] = files
    sources["fuzz_test"].append(ROOT / "tests" / "cc" / "fuzz" / "calls.cc")
    return sources
