"""The finder of modules that TensorFlow 1 had and the installed TensorFlow has not."""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

from condacc.originals import MOVED_MODULES
from tf_condacc.compat._contrib import ContribModule, Missing, find, missing, sources_of
from tf_condacc.compat._errors import MissingModuleError
from tf_condacc.compat._estimator import private_module, public_module

_TOP_LEVEL = r"tensorflow(?:\._api\.v2)?(?:\.compat\.v[12])*"
_CONTRIB = re.compile(rf"(?:{_TOP_LEVEL}|tensorflow_estimator)\.contrib(?:\.(?P<path>.+))?")
_ESTIMATOR = re.compile(rf"{_TOP_LEVEL}\.estimator(?:\.(?P<path>.+))?")
_PRIVATE_ESTIMATOR = re.compile(r"tensorflow\.python\.estimator(?:\.(?P<path>.+))?")


class Finder(MetaPathFinder, Loader):
    """Finds the modules of ``tf.contrib`` and ``tf.estimator``, and modules that have moved.

    Several names can stand for one module, such as ``tensorflow.contrib.opt`` and
    ``tensorflow.compat.v1.contrib.opt``.
    """

    def __init__(self, estimator: types.ModuleType) -> None:
        """Creates a finder that finds nothing before `insert`.

        Args:
            estimator: The module that ``tf.estimator`` is.
        """
        self._estimator = estimator
        self._contrib: dict[str, ContribModule] = {}
        self._loaded: dict[str, types.ModuleType] = {}

    def insert(self) -> None:
        """Puts the finder before Python's own."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Removes the finder, the modules that it has found, and their names in other modules."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name, module in self._loaded.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
            parent, _, attribute = name.rpartition(".")
            holder = sys.modules.get(parent)
            if holder is not None and vars(holder).get(attribute) is module:
                delattr(holder, attribute)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Returns the specification of a module, or None if this finder does not know its name.

        Raises:
            MissingModuleError: The module belongs to ``tf.contrib`` and is not provided.
        """
        module = self._module(fullname)
        if module is None:
            return None
        spec = ModuleSpec(fullname, self, is_package=True)
        spec.loader_state = module
        return spec

    def exec_module(self, module: types.ModuleType) -> None:
        """Puts the module that was found in the place of the new, empty one."""
        spec = module.__spec__
        assert spec is not None
        found = spec.loader_state
        if getattr(found, "__spec__", None) is None:
            found.__spec__ = spec
            found.__path__ = []  # Python imports modules below it only if it is a package.
        self._loaded[spec.name] = sys.modules[spec.name] = found

    def _module(self, fullname: str) -> types.ModuleType | None:
        if fullname in MOVED_MODULES:
            return importlib.import_module(MOVED_MODULES[fullname])
        match = _CONTRIB.fullmatch(fullname)
        if match:
            return self._contrib_module(match["path"] or "")
        match = _ESTIMATOR.fullmatch(fullname)
        if match:
            return public_module(self._estimator, match["path"] or "")
        match = _PRIVATE_ESTIMATOR.fullmatch(fullname)
        return private_module(self._estimator, match["path"] or "") if match else None

    def _contrib_module(self, path: str) -> ContribModule:
        if path not in self._contrib:
            try:
                if sources_of(path) is None:
                    # Python looks for a name of an import among modules if the module lacks it.
                    parent, _, name = path.rpartition(".")
                    find(parent, name)
                    raise missing(parent, name)
            except Missing as error:
                message = str(error)
            else:
                return self._contrib.setdefault(path, ContribModule(path))
            raise MissingModuleError(message)
        return self._contrib[path]
