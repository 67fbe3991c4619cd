"""``condacc build``: compiles the native library for the installed TensorFlow.

It needs a C++ compiler and no Bazel. The sources are those of the source tree, or those that the
wheel carries. ``setup.py`` builds the libraries of wheels with `compile_library`, too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from condacc import __version__, libraries
from condacc._interrupts import INTERRUPTED, raise_on_interrupt

# The flags that Bazel passes with --compilation_mode=opt and the options of .bazelrc.
_COMPILE = (
    "-O2",
    "-DNDEBUG",
    "-DEIGEN_USE_THREADS",
    "-fPIC",
    "-fno-semantic-interposition",
    "-fno-sized-deallocation",  # Its operator is newer than TensorFlow's libstdc++.
    "-ffunction-sections",
    "-fdata-sections",
    "-w",  # Warnings are for developers.
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
# Files with the memory limit of a container, in both versions of control groups.
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_NEEDS_CXX17 = """
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 9
#error "The compiler is too old."
#endif
int main() { if constexpr (true) return 0; }
"""
_PRINT_TENSORFLOW = """
import json
import tensorflow as tf
flags = [tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]
print("\\n" + json.dumps([tf.__version__, *flags]))
"""
_LOAD = "import sys, tensorflow as tf; tf.load_op_library(sys.argv[1])"
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
    parser.add_argument(
        "--force", action="store_true", help="builds a library although there is one"
    )
    options = parser.parse_args(arguments)
    raise_on_interrupt()  # So that the scratch folder is removed.
    try:
        version = _ask_tensorflow(sys.executable).version
        library = libraries.find(version)
        if library is not None and not options.force:
            print(f"There is a library for TensorFlow {version}: {library.file}")
            return 0
        library = compile_library(sys.executable, sources_folder(), _target_folder())
    except BuildError as error:
        print(f"condacc build: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    print(f"Built {library.file}")
    return 0


def _target_folder() -> Path:
    """Returns the folder for the library: the package in a source tree, else the user's cache.

    Raises:
        BuildError: The user has no home directory.
    """
    package = libraries.package_folder()
    try:
        return package if libraries.is_source_tree(package) else libraries.cache_folder()
    except RuntimeError as error:
        raise BuildError(f"{error} Name a folder for caches in XDG_CACHE_HOME") from error


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
        folder: Folder for the library, which need not exist. It gets the library when TensorFlow
            has loaded it.
        say: Function that is called with each line of progress. By default it goes to stderr.

    Raises:
        BuildError: There is no TensorFlow or no compiler, the folder cannot be written, or the
            compiler or TensorFlow reports an error.
    """
    say = say or (lambda line: print(line, file=sys.stderr, flush=True))
    compiler = _Compiler()
    tensorflow = _ask_tensorflow(python)
    say(f"TensorFlow {tensorflow.version}, {compiler.name}")
    library = libraries.paths_in(folder, libraries.key_of(tensorflow.version))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise BuildError(
            f"{folder} cannot be written ({error.strerror}): make it writable, or name another "
            "folder for caches in XDG_CACHE_HOME"
        ) from error
    with tempfile.TemporaryDirectory(prefix="condacc-build-") as scratch:
        objects = _compile(compiler, tensorflow, sources, Path(scratch), say)
        built = Path(scratch) / "library.so"
        say("linking")
        compiler.run(["-o", str(built), *objects, *tensorflow.link_flags, *_LINK])
        _check_load(python, built)
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
    """Copies `source` to `target`.

    The new file takes the old one's place by a rename, so that processes that have mapped the old
    one keep it.
    """
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
        path, *options = shlex.split(wanted)
        found = shutil.which(path)
        if found is None:
            raise BuildError(
                f"there is no C++ compiler {path}: install one (Debian: apt-get install g++), or "
                "name it in CXX"
            )
        self._command = [found, *options]
        version = self.run(["-dumpfullversion", "-dumpversion"]).strip()
        self.name = f"{Path(found).name} {version}"
        try:
            self.run(["-std=c++17", "-Werror", "-x", "c++", "-fsyntax-only", "-"], _NEEDS_CXX17)
        except BuildError as error:
            raise BuildError(
                f"{found} does not compile C++17 as g++ 9 and newer do: install one of these, or "
                "name another in CXX"
            ) from error

    def run(self, arguments: Sequence[str], stdin: str = "") -> str:
        """Runs the compiler and returns what it prints.

        Raises:
            BuildError: It fails. The message ends with its first error.
        """
        done = subprocess.run(
            [*self._command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        if done.returncode != 0:
            lines = done.stderr.splitlines()
            first = next((line for line in lines if "error: " in line), "\n".join(lines[-5:]))
            raise BuildError(f"{self._command[0]} failed: {first}")
        return done.stdout


def _ask_tensorflow(python: str) -> _TensorFlow:
    """Returns the TensorFlow of a Python, which imports it.

    Raises:
        BuildError: There is none, or it is older than those that are supported.
    """
    if not os.access(python, os.X_OK):
        raise BuildError(f"there is no Python {python}")
    asked = subprocess.run(
        [python, "-c", _PRINT_TENSORFLOW], capture_output=True, text=True, env=environment()
    )
    if asked.returncode != 0:
        last = asked.stderr.strip().splitlines()[-1:] or [""]
        raise BuildError(
            f"TensorFlow cannot be imported in {python} ({last[0]}): install it there first, with "
            f"`pip install '{libraries.requirement_of('tensorflow', libraries.SUPPORTED[-1])}'`, "
            "or name a Python that has it in CONDACC_PYTHON"
        )
    version, compile_flags, link_flags = json.loads(asked.stdout.splitlines()[-1])
    if libraries.numbers_of(version) < libraries.numbers_of(libraries.SUPPORTED[0]):
        raise BuildError(
            f"{python} has TensorFlow {version}, but the oldest that is supported is "
            f"{libraries.SUPPORTED[0]}"
        )
    return _TensorFlow(version, compile_flags, link_flags)


def environment() -> dict[str, str]:
    """Returns the environment for a Python that imports the installed TensorFlow.

    pip's build isolation hides the installed packages behind a folder of its own.
    """
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    if "pip-build-env-" in variables.get("PYTHONPATH", ""):
        del variables["PYTHONPATH"]
        variables.pop("PYTHONNOUSERSITE", None)
    return variables


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
    """Returns the number of files to compile at once, which processors and memory limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # The limit may be "max".
            limits.append(int(Path(file).read_text()))
    return max(1, min(len(os.sched_getaffinity(0)), min(limits) // _MIN_MEMORY))


def _check_load(python: str, library: Path) -> None:
    """Loads a library in the TensorFlow of a Python.

    Raises:
        BuildError: It does not load.
    """
    load = [python, "-c", _LOAD, str(library)]
    done = subprocess.run(load, capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise BuildError(f"TensorFlow does not load the new library: {last[0]}")
