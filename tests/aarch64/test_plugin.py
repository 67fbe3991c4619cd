"""Tests of the plugin for aarch64, in the emulated TensorFlow of that platform."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import versions  # release/versions.py, whose folder conftest.py adds to the path.
from aarch64 import UnavailableError

from condacc import build, libraries
from tests.aarch64.conftest import ROOT
from tests.docs.programs import printed_by, programs_of

pytestmark = [pytest.mark.aarch64, pytest.mark.timeout(0)]  # Compilers and emulators are slow.
KEY = libraries.SUPPORTED[-1]


@pytest.fixture(scope="session")
def python(tools) -> Iterator[Path]:
    """The emulated Python of an environment with the newest TensorFlow, which is then removed."""
    folder = ROOT / ".tools" / "aarch64" / "tensorflow"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield tools.make_python(folder, libraries.requirement_of("tensorflow", KEY))
    except UnavailableError as error:
        pytest.skip(f"no TensorFlow for aarch64: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def built(tools, python, folder) -> Path:
    """The folder with the library, which TensorFlow has loaded when it was built."""
    place = folder / "libraries"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", tools.compiler)
        build.compile_library(str(python), ROOT, place)
    return place


@pytest.fixture(scope="session")
def installed(tools, python, built, tmp_path_factory) -> Path:
    """The wheel with the library, which is installed in the environment."""
    place = tmp_path_factory.mktemp("wheel")
    variables = {"CONDACC_LIBRARIES": str(built), "_PYTHON_HOST_PLATFORM": "linux-aarch64"}
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", place, ROOT], env={**os.environ, **variables}, check=True)
    (wheel,) = place.glob("*.whl")
    tools.install(python.parents[1] / "lib/python3.11/site-packages", "--no-deps", str(wheel))
    return wheel


def run(python: Path, *arguments: object, folder: Path) -> str:
    """Runs a program in a folder, outside of the source tree, and returns what it prints."""
    command = [str(python), *map(str, arguments)]
    # The variables of the tests are left out. One of them is that TensorFlow uses Keras 2.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TF_"))
    }
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def test_the_library_and_its_wheel_are_for_aarch64(tools, python, built, installed):
    versions.check_symbols(libraries.paths_in(built, KEY).file, python)
    header = subprocess.check_output(
        [tools.program("readelf"), "-h", libraries.paths_in(built, KEY).file], text=True
    )
    assert "AArch64" in header
    assert installed.name.endswith("-py3-none-linux_aarch64.whl")


def test_the_plugin_passes_its_checks_in_tensorflow(python, installed, tmp_path):
    output = run(python, Path(__file__).with_name("plugin_checks.py"), folder=tmp_path)
    print(output)
    assert output.endswith(" passed, 0 failed\n")


def test_the_program_of_the_readme_prints_what_it_says(python, installed, tmp_path):
    program = programs_of("README.md")[0]
    (tmp_path / "program.py").write_text(program)
    assert run(python, "program.py", folder=tmp_path).splitlines() == printed_by(program)
