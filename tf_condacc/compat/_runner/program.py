"""The start of a program as Python itself would start it, and its module ``__main__``."""

from __future__ import annotations

import argparse
import builtins
import dataclasses
import functools
import importlib
import importlib.util
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

import tensorflow as tf
from tensorflow.compat import v1

from condacc import versions
from tf_condacc.compat import install
from tf_condacc.compat._runner import clusters, graphs, known_errors
from tf_condacc.compat._runner.errors import show_as_program
from tf_condacc.compat._runner.extent import Extent
from tf_condacc.compat._runner.removed import bring_back
from tf_condacc.compat._runner.sources import ProgramFinder, compile_program

# The environment variable that describes the program to processes that multiprocessing spawns.
_PROGRAM = "TF_CONDACC_COMPAT_PROGRAM"
_SPAWNED = "tf_condacc.compat._runner.spawned"


class _MainSpec(ModuleSpec):
    """The specification of the module ``__main__``.

    multiprocessing imports the program by this name in the processes that it spawns.
    """

    def __init__(self, package: str) -> None:
        super().__init__(_SPAWNED, None)
        self._package = package

    @property
    def parent(self) -> str:
        return self._package


def prepare(options: argparse.Namespace, why_keras: str) -> Callable[[], None]:
    """Makes this process that of a program, and returns the function that runs the program.

    Args:
        options: The command line, as `condacc.run.parse` returns it.
        why_keras: Why the program has this version of Keras.
    """
    extent = Extent(_folder(options), options.roots, options.also, options.excluded)
    sys.excepthook = show_as_program(sys.excepthook, extent)
    set_up(extent)
    if not options.quiet:
        for line in _provided(why_keras):
            print(f"condacc run: {line}", file=sys.stderr)
    path, package = _find(options)
    program = {"path": path, "package": package, "extent": dataclasses.asdict(extent)}
    os.environ[_PROGRAM] = json.dumps(program)
    module = types.ModuleType("__main__")
    # pytest rewrites assertions when it imports modules of tests, and would give them TensorFlow 2.
    first = ["--assert=plain"] if options.module in ("pytest", "py.test") else []
    sys.argv = [path, *first, *options.arguments]
    sys.modules["__main__"] = module
    return functools.partial(run_in, vars(module), path, package)


def run_spawned(names: dict[str, Any]) -> None:
    """Runs the program in a process that multiprocessing has started.

    Args:
        names: The names of the module in which it runs.
    """
    program = json.loads(os.environ[_PROGRAM])
    set_up(Extent(**program["extent"]))
    run_in(names, program["path"], program["package"])


def set_up(extent: Extent) -> None:
    """Makes TensorFlow what it was for the modules of a program."""
    install()
    bring_back()
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")  # It would warn about version 1 variables.
    v1.disable_v2_behavior()
    logger.setLevel(level)
    for name in ("core", "python"):
        setattr(v1, name, importlib.import_module(f"tensorflow.{name}"))
    clusters.poll_for_chiefs()
    clusters.share_variables()
    graphs.collect_tensors()
    graphs.keep_requested_shapes()
    ProgramFinder(extent).insert()


def run_in(names: dict[str, Any], path: str, package: str | None) -> None:
    """Runs the program in the names of a module."""
    with open(path, "rb") as file:
        code = compile_program(file.read(), path)
    loader = SourceFileLoader(names["__name__"], path)
    names.update(__file__=path, __cached__=None, __loader__=loader, __package__=package)
    names.update(__spec__=_MainSpec(package or ""), __builtins__=builtins)
    exec(code, names)


def _folder(options: argparse.Namespace) -> str:
    """Returns the folder of the program, and puts it first in Python's path."""
    if options.script is None:
        folder = os.getcwd()
    else:
        folder = os.path.dirname(os.path.realpath(options.script))
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
    return folder


def _find(options: argparse.Namespace) -> tuple[str, str | None]:
    """Returns the path of the program's file, and the package that it is in.

    Raises:
        SystemExit: There is no such module, or it has no source.
    """
    if options.script is not None:
        return options.script, None
    name = options.module or ""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = importlib.util.find_spec(name)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        sys.exit(f"condacc run: no module {name} with Python source")
    return spec.loader.path, name.rpartition(".")[0]


def _provided(why_keras: str) -> Iterator[str]:
    """Yields a line for each thing that is provided.

    Args:
        why_keras: Why the program has this version of Keras.
    """
    yield f"tensorflow is tf.compat.v1 of TensorFlow {tf.__version__}, with v2 behaviour off"
    yield "accumulators, SyncReplicasOptimizer, DropStaleGradientOptimizer, TowerOptimizer and " + (
        "replicate_model_fn are those of tf_condacc"
    )
    slim = versions.version_of("tf-slim")
    yield (
        f"tf.contrib.slim, layers and the like are those of tf-slim {slim}"
        if slim
        else "tf.contrib.slim, layers and the like are missing: pip install tf-slim"
    )
    package = v1.estimator.Estimator.__module__.partition(".")[0]
    name = package.replace("tensorflow_estimator", "tensorflow-estimator")
    yield f"tf.estimator is that of {name} {versions.version_of(name) or ''}".rstrip()
    _, keras = versions.installed_keras() or ("", "")
    if versions.brings_keras2():
        text = f"tf.layers and tf.keras are Keras {keras}"
    elif versions.uses_keras2():
        text = f"tf.layers and tf.keras are tf-keras {versions.version_of('tf-keras')}"
    else:
        text = f"there is no tf.layers, and tf.keras is Keras {keras}"
    yield f"{text}, because {why_keras}"
    if known_errors.has_numpy2():
        yield (
            "NumPy 2 lacks and rounds some things that NumPy 1 does not. To run with NumPy 1: "
            + (known_errors.how_to_get_numpy1())
        )
