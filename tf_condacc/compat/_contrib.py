"""The modules of ``tf.contrib``, which look their names up when they are used."""

from __future__ import annotations

import importlib
import types
from typing import Any

from tensorflow.tools.compatibility import all_renames_v2

from condacc.advice import GENERAL, USE_KERAS2, advice
from condacc.extras import INSTALL_ESTIMATOR
from condacc.originals import CONTRIB, CONTRIB_SAME, CONTRIB_SOURCES, PACKAGES, resolve
from condacc.versions import has_module
from tf_condacc.compat._errors import MissingNameError

_ROOT = "tensorflow.contrib"
# TensorFlow lists these as renamed, but the new functions have other arguments.
_NOT_RENAMES = ("tf.contrib.summary.", "tf.contrib.saved_model.")


class Missing(Exception):
    """A name is not provided. The message says what to do."""


class ContribModule(types.ModuleType):
    """A module of ``tf.contrib``.

    Attributes:
        __path__: An empty path. It makes Python look for missing names among modules, so that
            ``from tensorflow.contrib.opt import name`` fails with a message that says what to do.
    """

    __path__: list[str] = []

    def __init__(self, path: str) -> None:
        """Creates the module.

        Args:
            path: Path below ``tf.contrib``; "" for ``tf.contrib`` itself.
        """
        super().__init__(f"{_ROOT}.{path}" if path else _ROOT)
        self.__package__ = self.__name__
        self._path = path

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *names_of(self._path)})

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return names_of(self._path)
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            value = self._find(name)
        except Missing as error:
            message = str(error)
        else:
            setattr(self, name, value)
            return value
        raise MissingNameError(message, name=name, obj=self)

    def _find(self, name: str) -> Any:
        child = f"{self._path}.{name}" if self._path else name
        try:
            found = find(self._path, name)
        except Missing:
            if sources_of(child) is None:
                raise
        else:
            # Modules of tf_slim import modules of TensorFlow, of which some have the names of
            # modules that tf.contrib had at the same place.
            is_ours = child in _KNOWN_PATHS and name not in CONTRIB.get(self._path, ())
            if not isinstance(found, types.ModuleType) or not is_ours:
                return found
        return importlib.import_module(f"{_ROOT}.{child}")


def _known_paths() -> frozenset[str]:
    """Returns the paths of all modules in the tables, and of the modules above them."""
    renames = [
        name.removeprefix("tf.contrib.").rpartition(".")[0]
        for name in all_renames_v2.symbol_renames
        if name.startswith("tf.contrib.") and not name.startswith(_NOT_RENAMES)
    ]
    paths: set[str] = set()
    for path in (*CONTRIB, *CONTRIB_SAME, *CONTRIB_SOURCES, *renames):
        while path:
            paths.add(path)
            path = path.rpartition(".")[0]
    return frozenset(paths)


_KNOWN_PATHS = _known_paths()


def sources_of(path: str) -> tuple[str, ...] | None:
    """Returns the modules of other packages whose names a module of ``tf.contrib`` has.

    Args:
        path: Path of the module below ``tf.contrib``; "" for ``tf.contrib`` itself.

    Returns:
        The paths of the modules; none if all names of the module are those of our own tables. None
        if there is no module at `path`.

    Raises:
        Missing: The module is provided by a package that is not installed.
    """
    if path in CONTRIB_SOURCES or path in _KNOWN_PATHS or not path:
        sources = CONTRIB_SOURCES.get(path, ())
        # Of the other modules with sources, our own tables have some names that need no package.
        if sources and (path not in CONTRIB or path.startswith("layers")):
            _check_installed(f"tf.contrib.{path}", sources)
        return sources
    parent, _, name = path.rpartition(".")
    place = CONTRIB.get(parent, {}).get(name)
    if place is not None:
        return (place,) if ":" not in place else None
    above = sources_of(parent) if parent else None
    found = [f"{source}.{name}" for source in above or () if has_module(f"{source}.{name}")]
    return tuple(found) or None


def find(path: str, name: str) -> Any:
    """Returns the object of a name of a module of ``tf.contrib``.

    Args:
        path: Path of the module below ``tf.contrib``; "" for ``tf.contrib`` itself.
        name: Name in the module. It is not the name of a module.

    Raises:
        Missing: The name is not provided, or a package that provides it is not installed.
    """
    if path in CONTRIB_SAME:
        return find(CONTRIB_SAME[path], name)
    full_name = ".".join(filter(None, ("tf.contrib", path, name)))
    place = CONTRIB.get(path, {}).get(name) or _renamed(full_name)
    try:
        if place is not None:
            return resolve(place)
        for source in sources_of(path) or ():
            module = importlib.import_module(source)
            if _is_public(module, name):
                return getattr(module, name)
    except ModuleNotFoundError as error:
        raise _not_installed(full_name, error.name or "") from error
    except AttributeError as error:
        if "tensorflow-estimator" in str(error):
            raise Missing(f"{full_name} is not provided: {error}") from error
        if "Keras 3" not in str(error):
            raise missing(path, name) from error
        raise Missing(f"{full_name} is not provided: it needs Keras 2: {USE_KERAS2}.") from error
    if path == "estimator":
        return _of_estimator(path, name)
    raise missing(path, name)


def names_of(path: str) -> list[str]:
    """Returns the names of a module of ``tf.contrib``, other than those of modules below it.

    Args:
        path: Path of the module below ``tf.contrib``; "" for ``tf.contrib`` itself.
    """
    path = CONTRIB_SAME.get(path, path)
    names = set(CONTRIB.get(path, ()))
    for source in sources_of(path) or ():
        if has_module(source.partition(".")[0]):
            names.update(_public_names(importlib.import_module(source)))
    return sorted(names)


def missing(path: str, name: str) -> Missing:
    """Returns the error for a name that is not provided."""
    below = ".".join(filter(None, (path, name)))
    return Missing(f"tf.contrib.{below} is not provided. {advice(below)} {GENERAL}")


def _renamed(full_name: str) -> str | None:
    """Returns the place of a name that TensorFlow's own migration tool renames."""
    new_name = all_renames_v2.symbol_renames.get(full_name)
    if new_name is None or full_name.startswith(_NOT_RENAMES):
        return None
    return "tensorflow.compat.v1:" + new_name.removeprefix("tf.").removeprefix("compat.v1.")


def _of_estimator(path: str, name: str) -> Any:
    """Returns an object that moved from ``tf.contrib`` to ``tf.estimator``."""
    estimator = resolve("tensorflow.compat.v1:estimator")
    for module in (estimator, getattr(estimator, "experimental", None)):
        if hasattr(module, name):
            return getattr(module, name)
    if estimator.Estimator.__module__.startswith("tensorflow_estimator"):
        raise missing(path, name)
    raise Missing(
        f"tf.contrib.{path}.{name} is not provided. The package tensorflow-estimator may have it, "
        f"which is missing: {INSTALL_ESTIMATOR}."
    )


def _is_public(module: types.ModuleType, name: str) -> bool:
    if name.startswith("_") or not hasattr(module, name):
        return False
    public = getattr(module, "__all__", None)
    return public is None or name in public or isinstance(getattr(module, name), types.ModuleType)


def _public_names(module: types.ModuleType) -> list[str]:
    # Modules, and what `from __future__ import` binds, which is of the type of `annotations` here.
    no_names = (types.ModuleType, type(annotations))
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, no_names)
    ]


def _check_installed(full_name: str, sources: tuple[str, ...]) -> None:
    package = sources[0].partition(".")[0]
    if not has_module(package):
        raise _not_installed(full_name, package)


def _not_installed(full_name: str, module: str) -> Missing:
    package = module.partition(".")[0]
    name = PACKAGES.get(package, package)
    return Missing(f"{full_name} needs the package {name}, which is missing: pip install {name}")
