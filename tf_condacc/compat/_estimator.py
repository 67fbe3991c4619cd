"""What ``tf.estimator`` is for legacy programs."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

from tf_condacc.compat import _canned, _chiefs, _estimator_stubs, _our_specs, _own_estimator

_PACKAGE = "tensorflow_estimator"
_API = "tensorflow_estimator._api.v1.estimator"

# Modules of the package that were there before `estimator_module` imported it.
_before: set[str] = set()
# Modules that `undo` has taken out of `sys.modules`. They cannot be imported twice, because they
# register metrics with TensorFlow.
_kept: dict[str, ModuleType] = {}


def estimator_module() -> ModuleType:
    """Returns the module that stands for ``tf.estimator``.

    Returns:
        The API of version 1 of the package tensorflow_estimator, if that is installed. It is
        imported as it is; only its decorator that deprecates everything is left out. Its
        Estimator accepts `tf_condacc.estimator.EstimatorSpec` as well, and its RunConfig accepts a
        cluster without a job "chief", whose chief is worker 0.

        Otherwise a module with what `tf_condacc.estimator` has. Its other names raise an
        AttributeError that says how to install the package.
    """
    if _API in sys.modules:
        return sys.modules[_API]
    if not _kept and not _is_found(_PACKAGE):
        return _own_estimator.MODULE
    _before.update(_modules())
    if _kept:
        sys.modules.update(_kept)
        _kept.clear()
    else:
        _import()
    return sys.modules[_API]


def undo() -> None:
    """Takes the package out of `sys.modules`, if `estimator_module` has imported it."""
    if _API in _modules() and _API not in _before:
        _kept.update({name: each for name, each in _modules().items() if name not in _before})
        for name in _kept:
            del sys.modules[name]
    _before.clear()


def _import() -> None:
    with _stubs():
        api = importlib.import_module(_API)
    _our_specs.accept(api)
    _chiefs.accept_first_workers(api)
    _canned.check_keras(api)


@contextlib.contextmanager
def _stubs() -> Iterator[None]:
    """Returns a context in which modules that TensorFlow does not have can be imported.

    The stub that takes the place of a module of the package remains afterwards, because the package
    has further modules that may import it.
    """
    stubs = [stub for stub in _estimator_stubs.modules() if stub.__name__ not in sys.modules]
    sys.modules.update({stub.__name__: stub for stub in stubs})
    try:
        yield
    finally:
        for stub in stubs:
            if not _is_of_package(stub.__name__):
                del sys.modules[stub.__name__]


def _modules() -> dict[str, ModuleType]:
    """Returns the modules of the package that have been imported, by their names."""
    return {name: module for name, module in sys.modules.items() if _is_of_package(name) and module}


def _is_of_package(name: str) -> bool:
    return name.partition(".")[0] == _PACKAGE


def _is_found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # Its entry in `sys.modules` is None, or has no spec.
        return False
