"""The library that users get: that of a wheel which pip makes from this source tree."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

_PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def make_wheel(tree: Path, place: Path) -> Path:
    """Makes the wheel of a source tree in the empty folder `place`, and returns its path.

    Raises:
        subprocess.CalledProcessError: pip has failed, and said why.
    """
    options = ["--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", str(place)]
    subprocess.run([*_PIP, "wheel", *options, str(tree)], check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def make_environment(wheel: Path, folder: Path) -> Path:
    """Creates the environment `folder`, installs a wheel into it, and returns its site-packages.

    One that is there is removed before. All other packages are those of the Python that runs this.
    The environment's Python is `python_of(folder)`.

    Raises:
        subprocess.CalledProcessError: pip has failed, and said why.
    """
    venv.create(folder, clear=True, with_pip=False)
    packages = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    target = ["--python", str(python_of(folder)), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*_PIP, *target], check=True)
    return packages


def python_of(folder: Path) -> Path:
    """Returns the Python of an environment."""
    return folder / "bin" / "python"
