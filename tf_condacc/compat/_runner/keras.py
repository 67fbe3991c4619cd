"""The package ``keras`` of a program: its ``tf.keras``, with the module paths of Keras 2.0 to 2.3.

Import statements of the program that name ``keras`` import the modules below this one, by the same
paths. They exist in no file: `KerasFinder` makes them.
"""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from tensorflow.compat import v1

from condacc.versions import has_module

_PACKAGE = v1.keras.Model.__module__.partition(".")[0]
_V1 = f"{_PACKAGE}.api._v1.keras"  # What tf.compat.v1.keras is.
__version__ = importlib.import_module(_PACKAGE).__version__
__path__: list[str] = []  # Python imports modules below this one only if it is a package.
# Modules that Keras had and tf.keras lacks, by patterns of their paths, and the modules of tf.keras
# that have their public names.
_MOVED = {
    r"backend\.(common|tensorflow_backend)": ("backend",),
    r"callbacks\.(callbacks|tensorboard_v[12])": ("callbacks",),
    r"engine(\.(base_layer|input_layer|network|sequential|topology|training))?": (
        *("layers", "models", "utils"),
    ),
    r"layers\.(advanced_activations|convolutional(_recurrent)?|core|(cudnn_)?recurrent|embeddings"
    r"|local|merge|noise|normalization|pooling|wrappers)": ("layers",),
    r"objectives": ("losses",),
    r"utils\.(conv|data|generic|io|layer|np|vis)_utils": ("utils",),
}
_ORDERINGS = {"tf": "channels_last", "th": "channels_first"}
# Names of the old backend that tf.keras lacks: TensorFlow, and old names of the data format.
_OF_BACKEND = types.SimpleNamespace(
    tf=v1,
    image_dim_ordering=lambda: "th" if "first" in v1.keras.backend.image_data_format() else "tf",
    set_image_dim_ordering=lambda dim_ordering: v1.keras.backend.set_image_data_format(
        _ORDERINGS[dim_ordering]
    ),
)


class KerasFinder(MetaPathFinder, Loader):
    """Finds the modules below this one."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Returns the specification of a module of ``keras``, or None if Keras never had it."""
        if not fullname.startswith(f"{__name__}."):
            return None
        sources = list(_sources(fullname.removeprefix(f"{__name__}.")))
        if not sources:
            return None
        spec = ModuleSpec(fullname, self, is_package=True)
        spec.loader_state = sources
        return spec

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Returns a module that looks names up in those of ``tf.keras``."""
        return _KerasModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Imports the modules of ``tf.keras`` whose names the module has."""
        assert isinstance(module, _KerasModule) and module.__spec__ is not None
        sources = module.__spec__.loader_state
        module.sources = [*map(importlib.import_module, sources)]
        if module.__name__.startswith(f"{__name__}.backend"):
            module.sources.append(_OF_BACKEND)


class _KerasModule(types.ModuleType):
    """A module of ``keras``.

    Attributes:
        sources: The modules in which names are looked up, one after the other.
    """

    sources: Sequence[Any] = ()

    def __getattr__(self, name: str) -> Any:
        return _find(self.__name__, name, self.sources)

    def __dir__(self) -> list[str]:
        return _names(self.sources)


def __getattr__(name: str) -> Any:
    return _find(__name__, name, [v1.keras])


def __dir__() -> list[str]:
    return _names([v1.keras])


def _find(module: str, name: str, sources: Sequence[Any]) -> Any:
    """Returns an object of a module of ``keras``: a public name of ``tf.keras``, or a module."""
    if name == "__all__":
        return _names(sources)
    if not name.startswith("__"):
        found = next((getattr(each, name) for each in sources if hasattr(each, name)), None)
        if isinstance(found, types.ModuleType | None) and has_module(f"{module}.{name}"):
            return importlib.import_module(f"{module}.{name}")
        if found is not None:
            return found
    path = module.replace(__name__, "keras", 1)
    raise AttributeError(f"module {path!r} has no attribute {name!r}")


def _names(sources: Sequence[Any]) -> list[str]:
    return sorted({name for source in sources for name in dir(source) if name[0] != "_"})


def _sources(path: str) -> Iterator[str]:
    """Yields the modules whose names a module of Keras had.

    Those of ``tf.keras`` come before the private module of the same path, which also has functions
    that were public: ``utils.conv_utils.normalize_padding``.

    Args:
        path: Path of the module below ``keras``.
    """
    if has_module(f"{_V1}.{path}"):
        yield f"{_V1}.{path}"
        return
    for pattern, modules in _MOVED.items():
        if re.fullmatch(pattern, path):
            yield from (f"{_V1}.{module}" for module in modules)
    if has_module(private := f"{_PACKAGE}.src.{path}"):
        yield private


sys.meta_path.insert(0, KerasFinder())
