"""The changes that `tf_condacc.compat.install` makes, each with its reversal."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import types
from collections.abc import Iterator

import tf_condacc
from tf_condacc.compat import _estimator
from tf_condacc.compat._attributes import set_attribute
from tf_condacc.compat._finder import Finder
from tf_condacc.compat._private_names import MOVED_NAMES, resolve
from tf_condacc.compat._replacement import places_of, replace_everywhere

# An import by one of these names executes the module again, and replaces the attribute tf.compat or
# one below it. So they are imported before anything is changed.
_SPELLINGS = (
    "tensorflow.compat.v1",
    "tensorflow.compat.v1.compat.v1",
    "tensorflow.compat.v2",
    "tensorflow.compat.v2.compat.v1",
)
_TOP_LEVEL = re.compile(r"tensorflow(\._api\.v2)?((\.compat\.v2)?(\.compat\.v1)+)?")


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
    for module in list(_top_levels()):
        set_attribute(stack, module, "contrib", contrib)
        set_attribute(stack, module, "estimator", estimator)
    for path, names in MOVED_NAMES.items():
        module = importlib.import_module(path)
        for name, place in names.items():
            if not hasattr(module, name):
                set_attribute(stack, module, name, resolve(place))


def _replace_originals(stack: contextlib.ExitStack) -> None:
    data_flow_ops = importlib.import_module("tensorflow.python.ops.data_flow_ops")
    device_setter = importlib.import_module("tensorflow.python.training.device_setter")
    optimizers = importlib.import_module("tensorflow.python.training.sync_replicas_optimizer")
    ps_ops = device_setter.STANDARD_PS_OPS
    replacements = [
        (data_flow_ops.ConditionalAccumulatorBase, tf_condacc.ConditionalAccumulatorBase),
        (data_flow_ops.ConditionalAccumulator, tf_condacc.ConditionalAccumulator),
        (data_flow_ops.SparseConditionalAccumulator, tf_condacc.SparseConditionalAccumulator),
        (optimizers.SyncReplicasOptimizer, tf_condacc.SyncReplicasOptimizer),
        (ps_ops, type(ps_ops)([*ps_ops, *tf_condacc.PS_OPS])),
    ]
    back = [(ours, original) for original, ours in replacements]
    stack.callback(replace_everywhere, back, but_not=places_of([ours for ours, _ in back]))
    replace_everywhere(replacements)


def _top_levels() -> Iterator[types.ModuleType]:
    """Yields all copies of the modules ``tensorflow`` and ``tensorflow.compat.v1``."""
    for name, module in list(sys.modules.items()):
        if module is not None and _TOP_LEVEL.fullmatch(name):
            yield module
