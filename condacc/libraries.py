"""The native libraries of an installation: one for each minor release of TensorFlow.

TensorFlow's C++ interface changes with each minor release, and may change between pre-releases. A
library is therefore kept under a *key*: "2.21" for TensorFlow 2.21.0 and its patches, and the whole
version for a pre-release. The libraries of a wheel or a build in the source tree lie in the package
`tf_condacc`, and those of ``condacc build`` in a cache of the user.

After an installation from a clone, users often run Python in the clone, where it imports the
package of the source tree. That package takes a library which was built from its sources: its own,
or else that of the cache or of the installed package.

TensorFlow is not imported here.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

from condacc._version import __version__

# The minor releases that wheels have libraries for.
SUPPORTED = ("2.15", "2.16", "2.17", "2.18", "2.19", "2.20", "2.21")

_FINAL = re.compile(r"(\d+\.\d+)\.\d+(\.post\d+)?")
_LIBRARY = "_condacc_ops-{}.so"
_INFO = "_build_info-{}.json"


class NoSourcesError(Exception):
    """The package has no native sources. The message says so in one sentence."""


class Library(NamedTuple):
    """A native library, and the file that says how it was built."""

    file: Path
    info_file: Path

    def info(self) -> dict[str, Any]:
        """Returns the versions that the library was built with; see `tf_condacc.build_info`."""
        info: dict[str, Any] = json.loads(self.info_file.read_text(encoding="utf-8"))
        return info


def key_of(tensorflow: str) -> str:
    """Returns the key of the libraries for a version of TensorFlow."""
    version, _, _ = tensorflow.partition("+")  # Vendors add a local version.
    final = _FINAL.fullmatch(version)
    # TensorFlow calls itself "2.22.0-rc0", and its metadata says "2.22.0rc0".
    return final.group(1) if final else version.replace("-rc", "rc").replace("-dev", ".dev")


def requirement_of(package: str, key: str) -> str:
    """Returns the requirement of a package whose releases are numbered as TensorFlow's."""
    return f"{package}=={key}.*" if re.fullmatch(r"\d+\.\d+", key) else f"{package}=={key}"


def paths_in(folder: Path, key: str) -> Library:
    """Returns the paths of a library in a folder, which may not exist."""
    return Library(folder / _LIBRARY.format(key), folder / _INFO.format(key))


def package_folder() -> Path:
    """Returns the folder of the package `tf_condacc`, which is not imported.

    Raises:
        ImportError: There is no package `tf_condacc`.
    """
    spec = importlib.util.find_spec("tf_condacc")
    if spec is None or spec.origin is None:
        raise ImportError("there is no package tf_condacc")
    return Path(spec.origin).parent


def sources_folder() -> Path:
    """Returns the folder that contains ``cc``: that in the package, or the source tree.

    Raises:
        NoSourcesError: There are no sources.
    """
    package = package_folder()
    for folder in (package / "_sources", package.parent):
        if (folder / "cc").is_dir():
            return folder
    raise NoSourcesError(f"there are no native sources in {package}")


def digest_of(sources: Path) -> str:
    """Returns a digest of the sources below ``cc``.

    Only the files that packages carry count, which leaves out those for CUDA and for Bazel alone.
    """
    digest = hashlib.sha256()
    for file in sorted(sources.glob("cc/**/*")):
        if is_packed(file):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(sources)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def is_packed(file: Path) -> bool:
    """Returns whether a file below ``cc`` is needed to build a library, and so is in packages."""
    is_source = file.suffix in (".h", ".cc") and ".cu" not in file.suffixes
    return is_source or file.name == "options.bzl"


def is_source_tree(package: Path) -> bool:
    """Returns whether the package lies in a source tree, and not among installed packages."""
    return (package.parent / "setup.py").exists()


def cache_folder() -> Path:
    """Returns the folder in which ``condacc build`` keeps libraries of this version.

    Raises:
        RuntimeError: The user has no home directory.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "tf_condacc" / f"{__version__}-{sysconfig.get_platform()}"


def find(tensorflow: str) -> Library | None:
    """Returns the library for a version of TensorFlow, or None if there is none.

    For an installed package, that is one that the user has built from its sources, or else the
    package's own, which may not fit the machine. For a source tree, it is one that was built from
    its sources, wherever it lies. If there is none, it is the tree's own, although the sources have
    been edited since (see `is_outdated`).
    """
    package, key = package_folder(), key_of(tensorflow)
    is_tree = is_source_tree(package)
    others = _installed_folders() if is_tree else []
    with contextlib.suppress(RuntimeError):  # The user has no home directory.
        others.insert(0, cache_folder())
    candidates = [paths_in(folder, key) for folder in ([package, *others] if is_tree else others)]
    own = paths_in(package, key)
    current = (each for each in candidates if _exists(each) and is_current(each))
    return next(current, own if _exists(own) else None)


def _exists(library: Library) -> bool:
    try:
        return library.file.exists() and library.info_file.exists()
    except PermissionError:  # It may lie in another user's home directory.
        return False


def _installed_folders() -> list[Path]:
    """Returns the folders of the package `tf_condacc` that are installed, if any.

    The folder of the source tree is not among them, although it may hold metadata of the package.
    """
    found = importlib.metadata.distributions(name="tf_condacc")
    folders = [Path(str(each.locate_file("tf_condacc"))) for each in found]
    return [
        folder
        for folder in folders
        if (folder / "__init__.py").exists() and not is_source_tree(folder)
    ]


def is_outdated(library: Library) -> bool:
    """Returns whether a library lies in a source tree and was built from other sources."""
    return is_source_tree(library.file.parent) and not is_current(library)


def is_current(library: Library) -> bool:
    """Returns whether a library was built from the present sources of this package."""
    with contextlib.suppress(NoSourcesError, OSError, ValueError):
        return library.info().get("sources") == digest_of(sources_folder())
    return False


def keys_in(folder: Path) -> list[str]:
    """Returns the keys of all libraries in a folder, the oldest first."""
    prefix, suffix = _LIBRARY.split("{}")
    names = [path.name for path in folder.glob(f"{prefix}*{suffix}")]
    return sorted((name[len(prefix) : -len(suffix)] for name in names), key=numbers_of)


def numbers_of(version: str) -> list[int]:
    """Returns the numbers of a version or a key, which compare as it does."""
    return [int(number) for number in re.findall(r"\d+", version)]


def why_none(tensorflow: str) -> str:
    """Returns the text of the ImportError for a TensorFlow that has no library."""
    folder = package_folder()
    if is_source_tree(folder):
        return _why_none_in_tree(tensorflow, folder)
    keys = keys_in(folder)
    has = f"it has those for TensorFlow {', '.join(keys)}" if keys else "it has none"
    ways = "build one with `condacc build`, which needs a C++ compiler"
    if keys:
        ways += f", or install {requirement_of('tensorflow', keys[-1])}"
    return (
        f"tf_condacc in {folder} has no native library for TensorFlow {tensorflow} ({has}): {ways}."
    )


def _why_none_in_tree(tensorflow: str, folder: Path) -> str:
    """Returns the text of the ImportError for a source tree that has no library."""
    missing = f"the source tree {folder.parent} has no native library for TensorFlow {tensorflow}"
    ways = "build one with `python -m condacc build`"
    for installed in _installed_folders():
        if paths_in(installed, key_of(tensorflow)).file.exists():
            missing += (
                ", and that of the installed tf_condacc was built from other sources "
                f"({installed.parent})"
            )
            ways += ", or start Python in another folder to import the installed package"
            break
    return f"tf_condacc: {missing}: {ways}."
