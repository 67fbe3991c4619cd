#!/usr/bin/env python3
"""Builds the wheel that has a library for each TensorFlow, and tests it with each of them.

  release/versions.py wheels [MINOR ...]   # into dist/, with the source distribution
  release/versions.py test [MINOR ...]     # the tests of every room, with the wheel in dist/

Each TensorFlow is installed in an environment of its own below .tools/versions, of up to 1.9 GB,
which is removed when it has been used. `make wheels` and `make test-versions` call this.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from condacc import build, libraries  # noqa: E402

# The Pythons that each TensorFlow has packages for, the oldest and the newest.
PYTHONS = {
    "2.15": ("3.10", "3.11"),
    "2.16": ("3.10", "3.12"),
    "2.17": ("3.10", "3.12"),
    "2.18": ("3.10", "3.12"),
    "2.19": ("3.10", "3.12"),
    "2.20": ("3.10", "3.13"),
    "2.21": ("3.10", "3.13"),
}
# Packages without which a TensorFlow does not work.
BESIDE = {"2.20": ("protobuf<7",)}
WORK = ROOT / ".tools" / "versions"
LIBRARIES = ROOT / "build" / "libraries"
DIST = ROOT / "dist"
FRAMEWORK = "libtensorflow_framework.so.2"
# The newest glibc whose symbols libraries may use; see release/sysroot.sh.
PLATFORM = "manylinux_2_31_x86_64"


def main() -> int:
    """Runs the command that the command line names, and returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("wheels", "test"))
    parser.add_argument("minor", nargs="*", choices=[*libraries.SUPPORTED, []], help="(all)")
    options = parser.parse_args()
    minors = options.minor or libraries.SUPPORTED
    return make_wheels(minors) if options.command == "wheels" else test(minors)


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


def make_wheels(minors: Sequence[str]) -> int:
    """Builds the libraries, then the wheel of all and the source distribution."""
    shutil.rmtree(LIBRARIES, ignore_errors=True)
    os.environ["CXX"] = run(ROOT / "release" / "sysroot.sh", WORK / "sysroot").strip()
    for minor in minors:
        say(f"TensorFlow {minor}: library")
        with environment(minor, PYTHONS[minor][-1], f"tensorflow-cpu=={minor}.*") as python:
            library = build.compile_library(str(python), ROOT, LIBRARIES)
            check_symbols(library.file, python)
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        run(*pip, "-w", place, ROOT, env={**os.environ, "CONDACC_LIBRARIES": str(LIBRARIES)})
        (wheel,) = Path(place).glob("*.whl")
        auditwheel = [sys.executable, "-m", "auditwheel", "repair", "--exclude", FRAMEWORK]
        run(*auditwheel, "--plat", PLATFORM, "-w", DIST, wheel)
    backend = f"from setuptools import build_meta as b; b.build_sdist({str(DIST)!r})"
    run(sys.executable, "-c", backend, cwd=ROOT)
    (wheel,) = DIST.glob("*manylinux*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.glob("tf_condacc-*"))
    say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
    print(run(sys.executable, "-m", "auditwheel", "show", wheel))
    return 0


def check_symbols(library: Path, python: Path) -> None:
    """Checks that TensorFlow's framework defines every symbol that a library asks it for.

    The others have a version, as those of glibc and libstdc++ do, or are weak.
    """
    (framework,) = python.parents[1].glob(f"lib/python*/site-packages/tensorflow/{FRAMEWORK}")
    defined = {line.split()[-1] for line in symbols(framework, "--defined-only")}
    asked = [line.split() for line in symbols(library, "--undefined-only")]
    names = {name for kind, name in asked if kind == "U" and "@" not in name}
    if not names or names - defined:
        raise SystemExit(f"{library.name} has undefined symbols: {sorted(names - defined)}")
    say(f"{library.name}: {len(names)} symbols of TensorFlow, {library.stat().st_size} bytes")


def symbols(file: Path, option: str) -> list[str]:
    """Returns the lines that nm prints about the dynamic symbols of a library."""
    return run("nm", "-D", option, file).splitlines()


def test(minors: Sequence[str]) -> int:
    """Runs the tests with the wheel in dist/, and returns 1 if any failed."""
    (wheel,) = DIST.glob("*manylinux*.whl")
    outcomes = []
    for minor in minors:
        for number in sorted(set(PYTHONS[minor])):
            begin = time.monotonic()
            requirements = (f"{wheel}[compat,estimator,migrate]", f"tensorflow=={minor}.*")
            with environment(minor, number, *requirements, *test_requirements()) as python:
                summary = run_tests(python, wheel)
            outcomes.append(
                f"TensorFlow {minor}, Python {number}: {summary} "
                f"({(time.monotonic() - begin) / 60:.0f} min)"
            )
            say(outcomes[-1])
    print("\n".join(outcomes))
    return int(any("failed" in outcome or "error" in outcome for outcome in outcomes))


def test_requirements() -> list[str]:
    """Returns the packages that tests need."""
    wanted = (
        "pytest",
        "pyyaml",
        "kubernetes-validate",
        "matplotlib",
        "tqdm",
        "setuptools",
        "wheel",
    )
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    return [line.partition(";")[0] for line in lines if line.startswith(wanted)]


def run_tests(python: Path, wheel: Path) -> str:
    """Runs the tests outside of the source tree, and returns pytest's last line."""
    with tempfile.TemporaryDirectory(prefix="condacc-tests-") as place:
        for name in ("tests", "docs", "examples", "benchmarks"):
            shutil.copytree(ROOT / name, Path(place) / name)
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, place)
        # These tests are about the source tree and its build.
        ignored = [f"--ignore=tests/{name}" for name in ("build", "cc", "gpu", "reference")]
        command = [python, "-m", "pytest", "-q", "-n", "3", "--dist", "loadfile", *ignored, "tests"]
        done = subprocess.run(
            [str(word) for word in command], cwd=place, stdout=subprocess.PIPE, text=True
        )
    print(done.stdout, file=sys.stderr)
    return done.stdout.strip().splitlines()[-1].strip("= ")


@contextlib.contextmanager
def environment(minor: str, number: str, *requirements: str) -> Iterator[Path]:
    """Yields the Python of an environment with some packages, which is then removed."""
    folder = WORK / f"{minor}-{number}"
    python = folder / "bin" / "python"
    try:
        run(find_python(number), "-m", "venv", "--clear", folder)
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run(*install, *requirements, *BESIDE.get(minor, ()))
        yield python
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_python(number: str) -> Path:
    """Returns a Python of a version, of the PATH or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which(f"python{number}"), *pyenv.glob(f"versions/{number}.*/bin/python")]
    for candidate in filter(None, found):
        # A shim of pyenv may stand for a version that is not active.
        asked = subprocess.run([candidate, "-c", "import ensurepip"], stderr=subprocess.DEVNULL)
        if asked.returncode == 0:
            return Path(candidate)
    raise SystemExit(f"there is no Python {number}, in the PATH or from pyenv")


if __name__ == "__main__":
    sys.exit(main())
