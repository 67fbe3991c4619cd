"""Builds the native library with Bazel and puts it into the wheel.

The library is built against the TensorFlow of the Python that runs this, also where pip isolates
the build; CONDACC_PYTHON names another one.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PRODUCTS = ("_condacc_ops.so", "_build_info.json")
TENSORFLOW = "2.21"  # The release that pyproject.toml asks for.


def _run(*command: str) -> None:
    environment = {"CONDACC_PYTHON": sys.executable, **os.environ}
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if status != 0:
        raise SystemExit(f"tf_condacc: `{' '.join(command)}` failed; its message is above.")


class BuildWithPlugin(build_py):
    """Copies the Python files, then builds the native library beside them."""

    def run(self) -> None:
        """Fills `build_lib`; for an editable install, the source tree."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        _run("./configure.sh")
        _run(".tools/bazelisk", "build", "//:plugin")
        info = json.loads((ROOT / "bazel-bin" / "_build_info.json").read_text())
        if not info["tensorflow"].startswith(f"{TENSORFLOW}."):
            raise SystemExit(
                f"tf_condacc: a package can be made for TensorFlow {TENSORFLOW} only, not for the "
                f"{info['tensorflow']} installed: pip install tensorflow=={TENSORFLOW}.*"
            )
        package = (ROOT if self.editable_mode else Path(self.build_lib)) / "tf_condacc"
        for name in PRODUCTS:
            # A file of its own, then a rename: a running process may have the old one mapped.
            fresh = package / f"{name}.new"
            shutil.copyfile(ROOT / "bazel-bin" / name, fresh)
            fresh.rename(package / name)


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
)
