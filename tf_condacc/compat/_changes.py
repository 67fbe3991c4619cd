"""The changes that `tf_condacc.compat.install` makes, each with its reversal."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import types
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import tf_condacc
from condacc import originals
from tf_condacc._optimizers.sync_replicas.hook import SyncReplicasOptimizerHook
from tf_condacc.compat import _estimator
from tf_condacc.compat._finder import Finder

# An import by one of these names executes the module again, and replaces the attribute tf.compat or
# one below it. So they are imported before anything is changed.
_SPELLINGS = (
    "tensorflow.compat.v1",
    "tensorflow.compat.v1.compat.v1",
    "tensorflow.compat.v2",
    "tensorflow.compat.v2.compat.v1",
)
_TOP_LEVEL = re.compile(r"tensorflow(\._api\.v2)?((\.compat\.v2)?(\.compat\.v1)+)?")
_MISSING = object()

_Attribute = tuple[int, str]  # A module by its identity, and the name of one of its attributes.


def make(stack: contextlib.ExitStack) -> None:
    """Makes all changes, and pushes their reversals on `stack`."""
    for name in _SPELLINGS:
        importlib.import_module(name)
    _replace_originals(stack)
    estimator = _estimator.estimator_module()
    stack.callback(_estimator.undo)
    finder = Finder(estimator)
    stack.callback(finder.remove)
    finder.insert()
    contrib = importlib.import_module("tensorflow.contrib")
    examples = importlib.import_module("tensorflow.examples")
    for module in list(_top_levels()):
        _set_attribute(stack, module, "contrib", contrib)
        _set_attribute(stack, module, "examples", examples)
        _set_attribute(stack, module, "estimator", estimator)
    for path, names in originals.NAMES.items():
        if path.startswith("python."):
            module = importlib.import_module(f"tensorflow.{path}")
            for name, place in names.items():
                if not place.startswith("tf_condacc:"):  # _replace_originals handles the others.
                    _set_attribute(stack, module, name, originals.resolve(place))


def _replace_originals(stack: contextlib.ExitStack) -> None:
    # TensorFlow's own device setter stays, with a longer list of op types to place.
    setters = importlib.import_module("tensorflow.python.training.device_setter")
    ps_ops = setters.STANDARD_PS_OPS
    replacements = [(ps_ops, type(ps_ops)([*ps_ops, *tf_condacc.PS_OPS]))]
    for name, place in originals.places():
        module, _, attribute = f"tensorflow.{name}".rpartition(".")
        if not module.startswith("tensorflow.python.") or attribute == "replica_device_setter":
            continue
        if place.startswith("tf_condacc:"):
            original = getattr(importlib.import_module(module), attribute)
            replacements.append((original, originals.resolve(place)))
    hooks = importlib.import_module("tensorflow.python.training.sync_replicas_optimizer")
    replacements.append((hooks._SyncReplicasOptimizerHook, SyncReplicasOptimizerHook))
    back = [(ours, original) for original, ours in replacements]
    stack.callback(replace_everywhere, back, but_not=_places_of([ours for ours, _ in back]))
    replace_everywhere(replacements)


def _top_levels() -> Iterator[types.ModuleType]:
    """Yields all copies of the modules ``tensorflow`` and ``tensorflow.compat.v1``."""
    for name, module in list(sys.modules.items()):
        if module is not None and _TOP_LEVEL.fullmatch(name):
            yield module


def _set_attribute(
    stack: contextlib.ExitStack, module: types.ModuleType, name: str, value: Any
) -> None:
    """Sets an attribute of a module, and pushes the reversal on `stack`."""
    before = vars(module).get(name, _MISSING)
    stack.callback(_restore, module, name, before)
    setattr(module, name, value)


def _restore(module: types.ModuleType, name: str, before: Any) -> None:
    if before is not _MISSING:
        setattr(module, name, before)
    elif name in vars(module):
        delattr(module, name)


def replace_everywhere(
    replacements: Sequence[tuple[Any, Any]], but_not: Collection[_Attribute] = ()
) -> None:
    """Replaces objects in all imported modules of TensorFlow, under any name that they have there.

    Modules that take the objects by name are found by the identity of the object. Modules that are
    imported later take the replacement, because the modules that define the objects are searched as
    well.

    Args:
        replacements: Pairs of an object and its replacement.
        but_not: Places that stay as they are, as `_places_of` returns them.
    """
    by_identity = {id(before): after for before, after in replacements}
    for module, name, value in list(_attributes()):
        if id(value) in by_identity and (id(module), name) not in but_not:
            setattr(module, name, by_identity[id(value)])


def _places_of(objects: Sequence[Any]) -> set[_Attribute]:
    """Returns the attributes of TensorFlow's modules that hold one of the objects."""
    identities = {id(each) for each in objects}
    return {(id(module), name) for module, name, value in _attributes() if id(value) in identities}


def _attributes() -> Iterator[tuple[types.ModuleType, str, Any]]:
    """Yields the attributes of all imported modules of TensorFlow."""
    for path, module in list(sys.modules.items()):
        if path == "tensorflow" or path.startswith("tensorflow."):
            # A lazily loaded module has no objects before its first use.
            for name, value in list(getattr(module, "__dict__", {}).items()):
                yield module, name, value
