"""``condacc build``: compiles the native library for the installed TensorFlow.

It needs a C++ compiler and no Bazel. The sources are those of the source tree, or those that the
wheel carries. ``setup.py`` builds the libraries of wheels with `compile_library`, too.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from condacc import __version__, _times, libraries
from condacc._interrupts import (
    INTERRUPTED,
    held_back,
    raise_on_interrupt,
    raise_on_termination,
)

# Options that are added to those of cc/options.bzl.
_QUIET = "-w"  # Warnings are for developers.
_STRIP = "-s"
_POLL_SECS = 0.01  # How often the compilers are looked at.
_MIN_MEMORY = 2 << 30  # Bytes for each compiler, which takes up to half of them.
# Files with the memory limit of a container, in both versions of control groups.
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_PRINT_TENSORFLOW = """
import json
import tensorflow as tf
flags = [tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]
print("\\n" + json.dumps([tf.__version__, *flags]))
"""
_LOAD = "import sys, tensorflow as tf; tf.load_op_library(sys.argv[1])"
_EPILOG = """\
The library is stored in ~/.cache/tf_condacc or, in a source tree, in the package.

environment variables:
  CXX             the compiler (default: g++)
  XDG_CACHE_HOME  the folder for caches (default: ~/.cache)
  TMPDIR          the folder for temporary files
"""


class BuildError(Exception):
    """The library cannot be built. The message says why, in one sentence."""


class TensorFlow(NamedTuple):
    """The TensorFlow to build for: its version, and its options for compiler and linker."""

    version: str
    compile_flags: list[str]
    link_flags: list[str]


def main(arguments: Sequence[str]) -> int:
    """Builds the library for the installed TensorFlow, imports it, and returns the exit status.

    Args:
        arguments: Command-line arguments; see ``--help``.
    """
    parser = argparse.ArgumentParser(
        prog="condacc build",
        description="Compiles the native library of tf_condacc for the installed TensorFlow. This "
        "takes about a\nminute and needs only a C++ compiler.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--force", action="store_true", help="build the library even if there is one"
    )
    options = parser.parse_args(arguments)
    # Signals raise exceptions, so that the scratch folder is removed and the compilers are ended.
    raise_on_interrupt()
    raise_on_termination()
    try:
        version = ask_tensorflow(sys.executable).version
        library = libraries.find(version)
        if library is not None and not options.force:
            print(f"There is already a library for TensorFlow {version}: {library.file}")
            return 0
        package = libraries.package_folder()
        # The cache is in the home directory, without which there is a RuntimeError.
        folder = package if libraries.is_source_tree(package) else libraries.cache_folder()
        library = compile_library(sys.executable, libraries.sources_folder(), folder)
    except (BuildError, libraries.NoSourcesError, RuntimeError) as error:
        print(f"condacc build: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("condacc build: interrupted; no library was changed", file=sys.stderr)
        return INTERRUPTED
    print(f"Built {library.file}")
    return 0


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
    compiler = Compiler(sources)
    tensorflow = ask_tensorflow(python)
    say(f"TensorFlow {tensorflow.version}, {compiler.name}")
    library = libraries.paths_in(folder, libraries.key_of(tensorflow.version))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise BuildError(_cannot_write(folder, error)) from error
    digest = libraries.digest_of(sources)
    with _scratch_folder() as scratch:
        built = Build(compiler, tensorflow, sources, say).make_library(scratch)
        _check_load(python, built)
        info: dict[str, Any] = {
            "tensorflow": tensorflow.version,
            "compiler": compiler.name,
            "cuda": None,
            "cuda_archs": [],
            "version": __version__,
            "sources": digest,
        }
        described = scratch / "info.json"
        try:
            described.write_text(json.dumps(info, indent=2) + "\n")
            replace((built, library.file), (described, library.info_file))
        except OSError as error:
            raise BuildError(_cannot_write(error.filename, error)) from error
    return library


@contextlib.contextmanager
def _scratch_folder() -> Iterator[Path]:
    """Yields a new folder, which is removed afterwards.

    Raises:
        BuildError: No folder for temporary files can be written.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="condacc-build-")
    except OSError as error:
        raise BuildError(f"no folder for temporary files: {error.strerror}") from error
    with folder as name:
        yield Path(name).resolve()


def _cannot_write(where: object, error: OSError) -> str:
    """Returns the message for a file, or the folder that it would be in."""
    return f"{where} cannot be written ({error.strerror}): make room or make it writable"


def replace(*files: tuple[Path, Path]) -> None:
    """Copies files, each to its target.

    When all have been copied, they take the places of the former ones by renames. So processes that
    have mapped a former one keep it, and if there is no space for one of them, nothing changes.

    Args:
        *files: Pairs of a file and its target.

    Raises:
        OSError: A file cannot be copied. It names the target.
    """
    copies = [target.with_name(f"{target.name}.new-{os.getpid()}") for _, target in files]
    try:
        for (source, target), copy in zip(files, copies, strict=True):
            try:
                shutil.copyfile(source, copy)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(target)) from error
        for (_, target), copy in zip(files, copies, strict=True):
            copy.replace(target)
    finally:
        for copy in copies:
            copy.unlink(missing_ok=True)


class Compiler:
    """The C++ compiler.

    Attributes:
        name: Its name and version, such as "g++ 12.2.0".
    """

    def __init__(self, sources: Path, command: str | None = None) -> None:
        """Finds the compiler.

        Args:
            sources: Folder that contains ``cc``.
            command: The command for a shell that starts it. By default, that of ``CXX``, or g++.

        Raises:
            BuildError: There is none, it does not work, or it is too old.
        """
        words = command or os.environ.get("CXX", "").strip() or "g++"
        try:
            path, *options = shlex.split(words)
        except ValueError as error:
            raise BuildError(f"CXX is not a command ({error}): {words}") from error
        found = shutil.which(path)
        if found is None:
            raise BuildError(
                f"C++ compiler not found: {path}; install one (Debian: apt-get install g++), or "
                "name it in CXX"
            )
        self._command = [found, *options]
        *_, version = ["", *self.run(["-dumpfullversion", "-dumpversion"]).split()]
        self.name = f"{Path(found).name} {version}"
        try:
            check = str(sources / "cc" / "supported_compiler.h")
            self.run(["-std=c++17", "-Werror", "-x", "c++", "-fsyntax-only", check])
        except BuildError as error:
            if "too old" not in str(error):
                raise
            raise BuildError(
                f"{self.name} ({found}) is too old: install g++ 11 or clang 14, or newer, or name "
                "another compiler in CXX"
            ) from error

    def run(self, arguments: Sequence[str], remark: str = "") -> str:
        """Runs the compiler and returns what it prints.

        Args:
            arguments: Its arguments.
            remark: Text to add to the message, unless the error is a lack of space or memory.

        Raises:
            BuildError: It cannot be started, or fails. The message ends with its first error.
        """
        outputs: list[str] = []
        self.run_all({"": arguments}, 1, lambda name, output: outputs.append(output), remark)
        return outputs[0]

    def run_all(
        self,
        arguments: Mapping[str, Sequence[str]],
        at_once: int,
        on_end: Callable[[str, str], None],
        remark: str,
    ) -> None:
        """Runs the compiler with each of several lists of arguments.

        An error or a signal ends all that are running. No thread waits for them: a signal that
        raises an exception could leave a lock of the threads locked.

        Args:
            arguments: The arguments by names.
            at_once: How many run at the same time.
            on_end: Called for each that has ended without an error, with its name and output.
            remark: See `run`.

        Raises:
            BuildError: See `run`.
        """
        waiting = list(arguments)
        running: dict[str, tuple[subprocess.Popen[bytes], IO[str]]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    name = waiting.pop(0)
                    with held_back():
                        running[name] = self._start(arguments[name])
                ended = [name for name, (each, _) in running.items() if each.poll() is not None]
                for name in ended:
                    on_end(name, self._output(*running.pop(name), remark))
                if not ended:
                    time.sleep(_POLL_SECS)
        finally:
            _end([process for process, _ in running.values()])

    def _start(self, arguments: Sequence[str]) -> tuple[subprocess.Popen[bytes], IO[str]]:
        """Starts the compiler, and returns it with the file for all that it prints."""
        try:
            output = _text_file()
            process = subprocess.Popen(
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
        except OSError as error:
            why = f"{self._command[0]} cannot be started ({error.strerror})"
            raise BuildError(why) from error
        return process, output

    def _output(self, process: subprocess.Popen[bytes], output: IO[str], remark: str) -> str:
        """Returns what a compiler that has ended has printed."""
        with output:
            output.seek(0)
            text = output.read()
        if process.returncode != 0:
            text = text or f"error: status {process.returncode}"
            raise BuildError(f"{self._command[0]} failed: {_first_error(text, remark)}")
        return text


def _text_file() -> IO[str]:
    """Returns a new file, in memory, so that it has errors even if there is no space.

    A Python that was built for an old glibc, as those of conda and uv are, has no files in memory.
    """
    if not hasattr(os, "memfd_create"):
        return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
    return open(os.memfd_create("output"), "r+", encoding="utf-8", errors="replace")


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends compilers. They have some time to remove their files, unless a second signal comes."""
    try:
        _signal(running, signal.SIGTERM)
        deadline = time.monotonic() + _times.current.compiler_secs
        while time.monotonic() < deadline and any(each.poll() is None for each in running):
            time.sleep(_POLL_SECS)
    finally:
        _signal(running, signal.SIGKILL)


def _signal(running: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    """Sends a signal to compilers and to the processes that they have started."""
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _first_error(messages: str, remark: str) -> str:
    """Returns the first error that a compiler has printed, with advice.

    Args:
        messages: What the compiler has printed.
        remark: The advice, unless space or memory was lacking.
    """
    lines = [line for line in messages.splitlines() if line.strip()]
    # The linker's own message comes before the one of the compiler that has started it.
    errors = (line for line in lines if "error: " in line and not line.startswith("collect2:"))
    first = next(errors, lines[0])
    if any(os.strerror(code) in messages for code in (errno.ENOSPC, errno.EDQUOT)):
        return f"{first}: make room in {tempfile.gettempdir()}"
    if "Killed" in messages:
        return f"{first}: a compiler needs up to 1 GB of free memory"
    return first + remark


def _remark_on(tensorflow: str) -> str:
    """Returns the remark for errors in the sources.

    It is empty unless TensorFlow is newer than those that they were written for.
    """
    newest = libraries.SUPPORTED[-1]
    if libraries.numbers_of(tensorflow)[:2] <= libraries.numbers_of(newest):
        return ""
    return (
        f"; TensorFlow {tensorflow} is newer than those that the sources were written for, "
        f"{libraries.SUPPORTED[0]} to {newest}"
    )


def ask_tensorflow(python: str) -> TensorFlow:
    """Returns the TensorFlow of a Python, which imports it.

    Raises:
        BuildError: There is none, or it is older than those that are supported.
    """
    if not os.access(python, os.X_OK):
        raise BuildError(f"no such Python: {python}")
    asked = subprocess.run(
        [python, "-c", _PRINT_TENSORFLOW], capture_output=True, text=True, env=environment()
    )
    if asked.returncode != 0:
        newest = libraries.requirement_of("tensorflow", libraries.SUPPORTED[-1])
        raise BuildError(
            f"TensorFlow cannot be imported in {python} ({_last_line(asked)}): install it there "
            f"first, with `pip install '{newest}'`, or name a Python that has it in CONDACC_PYTHON"
        )
    version, compile_flags, link_flags = json.loads(asked.stdout.splitlines()[-1])
    if libraries.numbers_of(version) < libraries.numbers_of(libraries.SUPPORTED[0]):
        raise BuildError(
            f"{python} has TensorFlow {version}, but the oldest that is supported is "
            f"{libraries.SUPPORTED[0]}"
        )
    return TensorFlow(version, compile_flags, link_flags)


def environment() -> dict[str, str]:
    """Returns the environment for a Python that imports the installed TensorFlow.

    pip's build isolation hides the installed packages behind a folder of its own.
    """
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    if "pip-build-env-" in variables.get("PYTHONPATH", ""):
        del variables["PYTHONPATH"]
        variables.pop("PYTHONNOUSERSITE", None)
    return variables


class Build:
    """A run of compilers and linker.

    Each folder of ``cc`` is one translation unit, as in cc/groups.bzl.
    """

    def __init__(
        self,
        compiler: Compiler,
        tensorflow: TensorFlow,
        sources: Path,
        say: Callable[[str], None],
    ) -> None:
        self._compiler = compiler
        self._tensorflow = tensorflow
        self._sources = sources.resolve()
        self._say = say
        self._options = read_options(sources)
        self._remark = _remark_on(tensorflow.version)

    def make_library(self, scratch: Path) -> Path:
        """Compiles and links all sources, and returns the library, which is in `scratch`."""
        objects = self._compile_all(scratch)
        self._say("linking")
        built = scratch / "library.so"
        options = [*self._tensorflow.link_flags, *self._options["LINK"]]
        self._compiler.run(["-shared", _STRIP, "-o", str(built), *objects, *options])
        return built

    def compile(self, folder: str, files: Sequence[Path], *last: str) -> None:
        """Compiles some sources of a folder of ``cc`` as one.

        Args:
            folder: Name of the folder, which decides the options.
            files: Paths of the sources.
            *last: Further options, which say what to make.

        Raises:
            BuildError: A source does not compile.
        """
        self._compiler.run(self._arguments(folder, files, *last), self._remark)

    def _arguments(self, folder: str, files: Sequence[Path], *last: str) -> list[str]:
        options = [*compile_options(self._options, folder), *self._tensorflow.compile_flags, _QUIET]
        # Whole paths, because a relative one would first be looked for in the current folder.
        includes = [word for file in files for word in ("-include", str(file.resolve()))]
        return [*options, f"-I{self._sources}", *includes, "-x", "c++", os.devnull, *last]

    def _compile_all(self, scratch: Path) -> list[str]:
        """Returns the paths of the objects."""
        groups = groups_of(self._sources)
        outputs = {folder: str(scratch / f"{folder}.o") for folder in groups}
        num_files = sum(map(len, groups.values()))
        jobs = min(len(groups), num_jobs())
        self._say(f"compiling {num_files} files in {len(groups)} parts, {jobs} at once")
        begin = time.monotonic()
        ended: list[str] = []

        def tell(folder: str, output: str) -> None:
            ended.append(folder)
            seconds = time.monotonic() - begin
            self._say(f"[{len(ended)}/{len(groups)}] cc/{folder} ({seconds:.0f} s)")

        arguments = {
            folder: self._arguments(folder, files, "-c", "-o", outputs[folder])
            for folder, files in groups.items()
        }
        self._compiler.run_all(arguments, jobs, tell, self._remark)
        return list(outputs.values())


def read_options(sources: Path) -> dict[str, list[str]]:
    """Returns the constants of cc/options.bzl, by name."""
    file = sources / "cc" / "options.bzl"
    assignments = (
        node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Assign)
    )
    return {ast.unparse(each.targets[0]): ast.literal_eval(each.value) for each in assignments}


def compile_options(options: dict[str, list[str]], folder: str) -> list[str]:
    """Returns what the sources of a folder of ``cc`` are compiled with.

    Args:
        options: Constants of cc/options.bzl.
        folder: Name of the folder.
    """
    return [*options["COMPILE"], *(["-O3"] if folder in options["OPTIMIZED"] else [])]


def groups_of(sources: Path) -> dict[str, list[Path]]:
    """Returns the sources to compile, by their folder of ``cc``."""
    groups: dict[str, list[Path]] = {}
    for file in sorted(sources.glob("cc/*/**/*.cc")):
        if ".cu" not in file.suffixes:
            groups.setdefault(file.relative_to(sources).parts[1], []).append(file)
    return groups


def num_jobs() -> int:
    """Returns the number of compilers to run at once, which processors and memory limit."""
    limits = [_available_memory()]
    for file in _MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # The limit may be "max".
            limits.append(int(Path(file).read_text()))
    return max(1, min(len(os.sched_getaffinity(0)), min(limits) // _MIN_MEMORY))


def _available_memory() -> int:
    """Returns how many bytes of memory processes can get without swapping."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _check_load(python: str, library: Path) -> None:
    """Loads a library in the TensorFlow of a Python.

    Raises:
        BuildError: It does not load.
    """
    load = [python, "-c", _LOAD, str(library)]
    done = subprocess.run(load, capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        raise BuildError(f"TensorFlow does not load the new library: {_last_line(done)}")


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Returns the last line that a process has printed to stderr, or its status."""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"status {done.returncode}"
