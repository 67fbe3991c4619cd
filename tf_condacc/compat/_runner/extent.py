"""Which modules belong to the program, and are given TensorFlow 1."""

from __future__ import annotations

import ast
import dataclasses
import glob
import os
import site
import sysconfig
from collections.abc import Iterator, Sequence

import condacc
import tf_condacc

_OWN = [os.path.dirname(os.path.realpath(file)) for file in (condacc.__file__, tf_condacc.__file__)]
_PACKAGES = ("site-packages", "dist-packages")
# Modules that import it are written for TensorFlow 2.
_OF_VERSION_2 = ("tensorflow.compat.v1",)


@dataclasses.dataclass(frozen=True)
class Extent:
    """The modules of a program.

    These are the modules in the folder of the program and below, and all others that Python finds
    and that are neither of its standard library nor installed. Of these others, modules that import
    ``tensorflow.compat.v1`` themselves are not given TensorFlow 1.

    Attributes:
        folder: The folder of the program.
        roots: Further folders whose modules belong to the program.
        also: Packages that belong to the program although they are installed.
        excluded: Packages that do not belong to the program.
    """

    folder: str
    roots: Sequence[str] = ()
    also: Sequence[str] = ()
    excluded: Sequence[str] = ()

    def has(self, name: str, path: str, is_editable: bool = False) -> bool:
        """Returns whether a module belongs to the program.

        Args:
            name: The full name of the module.
            path: The path of its file.
            is_editable: Whether a finder of an editable installation has found it.
        """
        if _is_in(name, self.excluded):
            return False
        if _is_in(name, self.also):
            return True
        path = os.path.realpath(path)
        for folder in map(os.path.realpath, (self.folder, *self.roots)):
            if _is_below(path, folder):
                return not is_installed(path, folder)
        return not is_editable and not is_installed(path) and not _is_of_version_2(path)

    def how_to_add(self, name: str, path: str) -> str:
        """Returns what makes a module belong to the program that does not.

        Args:
            name: The full name of the module.
            path: The path of its file.
        """
        package = name.partition(".")[0]
        if _is_in(name, self.excluded):
            return f"run it without --not {package}"
        if set(os.path.realpath(path).split(os.sep)).intersection(_PACKAGES):
            return f"run it with --also {package}"
        root = os.path.dirname(os.path.realpath(path))
        for _ in range(name.count(".") + (os.path.basename(path) == "__init__.py")):
            root = os.path.dirname(root)
        return f"run it with --root {root}, or with -m in that folder"


def is_installed(path: str, folder: str | None = None) -> bool:
    """Returns whether a file belongs to Python, to an installed package or to this package.

    Args:
        path: The path of the file.
        folder: A folder that contains the file. If given, it does not matter where the folder is.
    """
    parts = (path if folder is None else os.path.relpath(path, folder)).split(os.sep)
    if any(name in parts for name in _PACKAGES):
        return True
    others = _installed_folders() if folder is None else _own_folders()
    return any(
        _is_below(path, other) for other in others if folder is None or not _is_below(folder, other)
    )


def _own_folders() -> Iterator[str]:
    """Yields the folders of Python and of this package."""
    yield from _OWN
    paths = sysconfig.get_paths()
    for key in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield os.path.realpath(paths[key])


def _installed_folders() -> Iterator[str]:
    """Yields the folders of Python, of this package and of editable installations."""
    yield from _own_folders()
    paths = sysconfig.get_paths()
    sites = {paths["purelib"], paths["platlib"], *site.getsitepackages()}
    for place in (*sites, site.getusersitepackages()):
        for file in glob.glob(os.path.join(glob.escape(place), "*.pth")):
            with open(file, encoding="utf-8", errors="replace") as lines:
                for line in map(str.strip, lines):
                    if line and not line.startswith(("#", "import ", "import\t")):
                        yield os.path.realpath(os.path.join(place, line))


def _is_of_version_2(path: str) -> bool:
    """Returns whether a module imports what only programs for TensorFlow 2 do."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):  # Python's own loader reports it.
        return False
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        if any(_is_in(name, _OF_VERSION_2) for name in names):
            return True
    return False


def _is_in(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
