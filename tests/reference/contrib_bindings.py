"""Prints what imports from ``tf.contrib`` bind, on TensorFlow 1.15.5 or under tf_condacc.

Arguments: nothing on TensorFlow 1.15.5, which walks through its own folder; otherwise the file with
what it has printed there, of which every name is imported.
"""

import importlib
import inspect
import json
import os
import sys
import types


def modules():
    """Yields the paths of all modules below ``tf.contrib``, and their names."""
    root = os.path.dirname(importlib.import_module("tensorflow.contrib").__file__)
    for folder, _, files in os.walk(root):
        below = os.path.relpath(folder, root).strip(".").split(os.sep)
        for file in sorted(each for each in files if each.endswith(".py")):
            parts = [part for part in [*below, file[:-3]] if part not in ("", "__init__")]
            module = imported(".".join(parts))
            if module is not None:
                yield ".".join(parts), [name for name in dir(module) if not name.startswith("_")]


def imported(path):
    """Returns a module of ``tf.contrib``, or None if it cannot be imported."""
    try:
        return importlib.import_module(("tensorflow.contrib." + path).rstrip("."))
    except Exception:  # One module of the original asks for scikit-learn.
        return None


def described(value):
    """Returns the path of a module, the arguments of a function or a class, or None."""
    if isinstance(value, types.ModuleType):
        return value.__name__.replace("tensorflow_core", "tensorflow")
    if not callable(value):
        return None
    try:
        signature = inspect.signature(value.__init__ if inspect.isclass(value) else value)
    except ValueError:
        return None
    return [[each.name, each.kind.name] for each in signature.parameters.values()]


def main():
    if len(sys.argv) > 1:
        importlib.import_module("tf_condacc.compat").install()
        with open(sys.argv[1]) as file:
            wanted = json.load(file).items()
    else:
        wanted = modules()
    found = {}
    for path, names in wanted:
        module = imported(path)
        found[path] = {}
        for name in names if module is not None else ():
            bound = {}
            try:
                exec(
                    f"from tensorflow.contrib.{path} import {name} as value".replace(". ", " "),
                    bound,
                )
            except ImportError:
                continue
            found[path][name] = described(bound["value"])
    print(json.dumps(found))


main()
