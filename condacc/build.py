"""``condacc build``: compiles the native library for the installed TensorFlow.

It needs a C++ compiler and no Bazel. The sources are those of the source tree, or those that the
wheel carries. ``setup.py`` builds the libraries of wheels with `compile_library`, too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from condacc import __version__, libraries
from condacc._find_tensorflow import installed_tensorflow

# As Bazel compiles with --compilation_mode=opt and the options of .bazelrc.
_COMPILE = (
    "-O2",
    "-DNDEBUG",
    "-DEIGEN_USE_THREADS",
    "-fPIC",
    "-fno-semantic-interposition",
    "-ffunction-sections",
    "-fdata-sections",
    "-w",  # Warnings are for those who develop.
)
_LINK = (
    "-shared",
    "-s",
    "-Wl,--gc-sections",
    "-Wl,--exclude-libs,ALL",
    "-ldl",
    "-lpthread",
    "-lrt",
)
_MIN_MEMORY = 2 << 30  # Bytes that compiling one file may take.
_ASK = """
import json
import tensorflow as tf
flags = [tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]
print("\\n" + json.dumps([tf.__version__, *flags]))
"""
_EPILOG = """\
The library is kept for this user, in ~/.cache/tf_condacc. In a source tree it is put into the
package. CXX names the compiler (g++), and XDG_CACHE_HOME another folder for caches.
"""


class BuildError(Exception):
    """The library cannot be built. The message says why, in one sentence."""


class _TensorFlow(NamedTuple):
    """The TensorFlow to build for: its version, and its options for compiler and linker."""

    version: str
    compile_flags: list[str]
    link_flags: list[str]


def main(arguments: Sequence[str]) -> int:
    """Builds the library for the installed TensorFlow, imports it, and returns the exit status.

    Args:
        arguments: Command-line arguments, of which there are none but ``--help``.
    """
    parser = argparse.ArgumentParser(
        prog="condacc build",
        description="Compiles the native library of tf_condacc for the TensorFlow that is "
        "installed. This takes minutes and needs only a C++ compiler.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(arguments)
    _, version = installed_tensorflow() or ("", "")
    library = libraries.find(version)
    if library is not None:
        print(f"There is a library for TensorFlow {version}: {library.file}")
        return 0
    try:
        sources = sources_folder()
        package = libraries.package_folder()
        folder = package if sources == package.parent else libraries.cache_folder()
        library = compile_library(sys.executable, sources, folder)
        _check_import(library)
    except BuildError as error:
        print(f"condacc build: {error}", file=sys.stderr)
        return 1
    print(f"Built {library.file}")
    return 0


def sources_folder() -> Path:
    """Returns the folder that contains ``cc``: that in the package, or the source tree.

    Raises:
        BuildError: There are no sources.
    """
    package = libraries.package_folder()
    for folder in (package / "_sources", package.parent):
        if (folder / "cc").is_dir():
            return folder
    raise BuildError(f"there are no native sources in {package}")


def compile_library(
    python: str, sources: Path, folder: Path, say: Callable[[str], None] | None = None
) -> libraries.Library:
    """Compiles the library for the TensorFlow of a Python.

    Args:
        python: Path of the Python.
        sources: Folder that contains ``cc``.
        folder: Folder for the library, which need not exist. A library for the same TensorFlow is
            replaced by a rename, since a running process may have it mapped.
        say: Function that is called with each line of progress. By default it goes to stderr.

    Raises:
        BuildError: There is no TensorFlow or no compiler, or the compiler reports an error.
    """
    say = say or (lambda line: print(line, file=sys.stderr, flush=True))
    compiler = _Compiler()
    tensorflow = _ask_tensorflow(python)
    say(f"TensorFlow {tensorflow.version}, {compiler.name}")
    library = libraries.paths_in(folder, libraries.key_of(tensorflow.version))
    with tempfile.TemporaryDirectory(prefix="condacc-build-") as scratch:
        objects = _compile(compiler, tensorflow, sources, Path(scratch), say)
        built = Path(scratch) / "library.so"
        say("linking")
        compiler.run(["-o", str(built), *objects, *tensorflow.link_flags, *_LINK])
        folder.mkdir(parents=True, exist_ok=True)
        info: dict[str, Any] = {
            "tensorflow": tensorflow.version,
            "compiler": compiler.name,
            "cuda": None,
            "cuda_archs": [],
            "version": __version__,
        }
        described = Path(scratch) / "info.json"
        described.write_text(json.dumps(info, indent=2) + "\n")
        replace(described, library.info_file)
        replace(built, library.file)
    return library


def replace(source: Path, target: Path) -> None:
    """Copies a file to another place, and replaces an old file there atomically."""
    fresh = target.with_name(f"{target.name}.new-{os.getpid()}")
    shutil.copyfile(source, fresh)
    fresh.replace(target)


class _Compiler:
    """The C++ compiler.

    Attributes:
        name: Its name and version, such as "g++ 12.2.0".
    """

    def __init__(self) -> None:
        """Finds the compiler.

        Raises:
            BuildError: There is none, or it does not compile C++17.
        """
        wanted = os.environ.get("CXX") or "g++"
        path, *options = wanted.split()
        found = shutil.which(path)
        if found is None:
            raise BuildError(
                f"there is no C++ compiler {path}: install one (Debian: apt-get install g++), or "
                "name it in CXX"
            )
        self._command = [found, *options]
        version = self.run(["-dumpfullversion", "-dumpversion"]).strip()
        self.name = f"{Path(found).name} {version}"
        program = "int main() { if constexpr (true) return 0; }"
        try:
            self.run(["-std=c++17", "-Werror", "-x", "c++", "-fsyntax-only", "-"], program)
        except BuildError as error:
            raise BuildError(
                f"{found} does not compile C++17: install g++ 9 or newer, or name another in CXX"
            ) from error

    def run(self, arguments: Sequence[str], stdin: str = "") -> str:
        """Runs the compiler and returns what it prints.

        Raises:
            BuildError: It fails. The message ends with its first error.
        """
        done = subprocess.run(
            [*self._command, *arguments], input=stdin, capture_output=True, text=True
        )
        if done.returncode != 0:
            lines = done.stderr.splitlines()
            first = next((line for line in lines if "error: " in line), "\n".join(lines[-5:]))
            raise BuildError(f"{self._command[0]} failed: {first}")
        return done.stdout


def _ask_tensorflow(python: str) -> _TensorFlow:
    """Returns the TensorFlow of a Python, which imports it.

    With -I, Python ignores what pip's build isolation puts in front of the installed packages.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    asked = subprocess.run(
        [python, "-I", "-c", _ASK], capture_output=True, text=True, env=environment
    )
    if asked.returncode != 0:
        last = asked.stderr.strip().splitlines()[-1:] or [""]
        raise BuildError(
            f"TensorFlow cannot be imported in {python} ({last[0]}): install it there first, such "
            "as with `pip install tensorflow`"
        )
    version, compile_flags, link_flags = json.loads(asked.stdout.splitlines()[-1])
    return _TensorFlow(version, compile_flags, link_flags)


def _compile(
    compiler: _Compiler,
    tensorflow: _TensorFlow,
    sources: Path,
    scratch: Path,
    say: Callable[[str], None],
) -> list[str]:
    """Compiles all sources, and returns the paths of their objects in `scratch`."""
    files = [file for file in sorted(sources.glob("cc/**/*.cc")) if ".cu" not in file.suffixes]
    objects = [str(scratch / f"{number}.o") for number in range(len(files))]

    def compile_one(file: Path, output: str) -> Path:
        own = [*_COMPILE, *tensorflow.compile_flags, f"-I{sources}"]
        compiler.run([*own, "-c", str(file), "-o", output])
        return file

    with concurrent.futures.ThreadPoolExecutor(_num_jobs()) as pool:
        started = [pool.submit(compile_one, *each) for each in zip(files, objects, strict=True)]
        try:
            for number, done in enumerate(concurrent.futures.as_completed(started), 1):
                say(f"[{number}/{len(files)}] {done.result().relative_to(sources)}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return objects


def _num_jobs() -> int:
    """Returns the number of files to compile at once, for which the memory must suffice."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // _MIN_MEMORY))


def _check_import(library: libraries.Library) -> None:
    """Imports tf_condacc with the new library.

    Raises:
        BuildError: That fails. The library is removed.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", "import tf_condacc"], capture_output=True, text=True, env=environment
    )
    if done.returncode != 0:
        for file in library:
            file.unlink()
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise BuildError(f"the new library cannot be imported: {last[0]}")
