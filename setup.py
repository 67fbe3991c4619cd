"""Builds the native library and puts it into the wheel.

The library is compiled for an installed TensorFlow, and the package then requires its release. This
TensorFlow is looked for in the Python that CONDACC_PYTHON names. Without this variable, it is that
of the Python that runs this program, also where pip isolates the build. Other tools create an
environment for the build alone; then it is that of the environment that the user has activated.

CONDACC_LIBRARIES names a folder with libraries that are built already. The package then holds
these, and requires a TensorFlow between the oldest and the newest of their releases.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # Build backends leave it out.

from condacc import build, libraries  # noqa: E402
from condacc._interrupts import raise_on_termination  # noqa: E402

# The setuptools commands that make wheels or their metadata.
_MAKES_A_WHEEL = {"bdist_wheel", "dist_info", "editable_wheel"}
LIBRARIES = Path(os.environ["CONDACC_LIBRARIES"]) if "CONDACC_LIBRARIES" in os.environ else None


def _python() -> str:
    """Returns the Python to build for."""
    if "CONDACC_PYTHON" in os.environ:
        return os.environ["CONDACC_PYTHON"]
    others = [] if _is_built_by_pip() else _activated_pythons()
    return next(
        (each for each in (sys.executable, *others) if _tensorflow_of(each)), sys.executable
    )


def _is_built_by_pip() -> bool:
    """Returns whether this is the Python of the user's environment, and not one of the build's.

    pip isolates a build by a folder of modules, and runs the Python that runs pip itself.
    """
    is_isolated_by_pip = "pip-build-env-" in os.environ.get("PYTHONPATH", "")
    return is_isolated_by_pip or importlib.util.find_spec("pip") is not None


def _activated_pythons() -> list[str]:
    """Returns the Pythons of the environments that the user has activated.

    uv sets VIRTUAL_ENV to the environment of the build. Its own process, which is the parent of
    this one, still has the user's.
    """
    folders = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    folders += re.findall(r"(?:^|\0)VIRTUAL_ENV=([^\0]*)", _of_parent("environ"))
    pythons = (Path(folder, "bin", "python") for folder in folders if folder)
    return [str(python) for python in pythons if python.exists()]


def _of_parent(name: str) -> str:
    """Returns what Linux tells about the process that has started this one."""
    try:
        return Path(f"/proc/{os.getppid()}/{name}").read_text(errors="surrogateescape")
    except OSError:
        return ""


def _tensorflow_of(python: str) -> list[str]:
    """Returns the name and the version of the TensorFlow of a Python, or nothing."""
    find = [python, str(ROOT / "condacc" / "_find_tensorflow.py")]
    found = subprocess.run(find, capture_output=True, text=True, env=build.environment()).stdout
    return found.split()[:2]


def _above(key: str) -> str:
    major, minor = key.split(".")
    return f"{major}.{int(minor) + 1}"


def _requirement() -> str:
    """Returns which TensorFlow the package asks for."""
    if LIBRARIES is not None:
        keys = libraries.keys_in(LIBRARIES)
        if len(keys) == 1:
            return libraries.requirement_of("tensorflow", keys[0])
        return f"tensorflow>={keys[0]},<{_above(keys[-1])}"
    if found := _tensorflow_of(PYTHON):
        name, version = found
        return libraries.requirement_of(name, libraries.key_of(version))
    if _MAKES_A_WHEEL & set(sys.argv):
        if sys.platform != "linux":
            raise SystemExit(f"tf_condacc: there is no version for {sys.platform}, only for Linux.")
        # Otherwise pip would fetch a TensorFlow before the build can say that there is none.
        raise SystemExit(f"tf_condacc: there is no TensorFlow in {PYTHON}: {_advice()}.")
    return f"tensorflow>={libraries.SUPPORTED[0]},<{_above(libraries.SUPPORTED[-1])}"


def _advice() -> str:
    """Returns what to do if there is no TensorFlow."""
    newest = libraries.requirement_of("tensorflow", libraries.SUPPORTED[-1])
    if "pipx" in sys.prefix + _of_parent("cmdline"):
        return (
            f"use `pipx install --preinstall '{newest}' --preinstall 'setuptools>=77' "
            "--pip-args=--no-build-isolation`"
        )
    if not _is_built_by_pip() and "CONDACC_PYTHON" not in os.environ:
        return (
            "activate the environment that has it, name the Python that has it in CONDACC_PYTHON, "
            "or build without isolation, for example with `uv pip install --no-build-isolation`"
        )
    return (
        f"install it there first, with `pip install '{newest}'` as a separate command, or name a "
        "Python that has it in CONDACC_PYTHON"
    )


PYTHON = _python()


def _description() -> str:
    """Returns README.md without the pictures and links that lead into the source tree.

    Package indexes show it, and the metadata of the installed package contains it.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"^!\[.*\n\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]+\)", r"\1", text)


class BuildWithPlugin(build_py):
    """Copies the Python files and the native sources, then the native libraries beside them."""

    def run(self) -> None:
        """Fills `build_lib`; for an editable install, the source tree."""
        if self.editable_mode:
            super().run()
            self._add_libraries(ROOT / "tf_condacc")
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        package = Path(self.build_lib) / "tf_condacc"
        for file in (ROOT / "cc").rglob("*"):
            if libraries.is_packed(file):
                target = package / "_sources" / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        self._add_libraries(package)

    def _add_libraries(self, package: Path) -> None:
        if LIBRARIES is None:
            raise_on_termination()  # So that the compilers are ended.
            try:
                build.compile_library(PYTHON, ROOT, package)
            except build.BuildError as error:
                raise SystemExit(f"tf_condacc: {error}.") from None
            except KeyboardInterrupt:
                raise SystemExit("tf_condacc: interrupted; nothing was installed.") from None
            return
        for key in libraries.keys_in(LIBRARIES):
            built, target = libraries.paths_in(LIBRARIES, key), libraries.paths_in(package, key)
            build.replace(*zip(built, target, strict=True))


class PlatformWheel(bdist_wheel):
    """One wheel for every Python 3: the library talks to TensorFlow, not to Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the wheel's tag: any Python 3, no Python ABI, this platform."""
        return "py3", "none", super().get_tag()[2]


class PlatformDistribution(Distribution):
    """A distribution that belongs to a platform."""

    def has_ext_modules(self) -> bool:
        """Returns True, because the native library does not come from setuptools."""
        return True


setup(
    cmdclass={"build_py": BuildWithPlugin, "bdist_wheel": PlatformWheel},
    distclass=PlatformDistribution,
    install_requires=[_requirement(), "numpy"],
    long_description=_description(),
    long_description_content_type="text/markdown",
)
