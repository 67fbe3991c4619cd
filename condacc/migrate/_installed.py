"""What the private modules of the installed TensorFlow contain. TensorFlow is not imported."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = "tensorflow."


def has(name: str) -> bool:
    """Returns whether the installed TensorFlow has a module, or a name in a module.

    Args:
        name: The full name: "tensorflow.python.framework.ops" or "tensorflow.python.util.nest.map".
    """
    module, _, attribute = name.rpartition(".")
    return _path(name) is not None or attribute in _names(module)


@functools.cache
def contrib_renames() -> dict[str, str]:
    """Returns the names of ``tf.contrib`` that the installed TensorFlow has elsewhere.

    They are those of its own tool for migration, without ``tf.contrib.``, and the names of today.
    """
    path = _path("tensorflow.tools.compatibility.all_renames_v2")
    text = path.read_text(encoding="utf-8") if path is not None else ""
    return dict(re.findall(r"""["']tf\.contrib\.([\w.]+)["']:[\s(]*["'](tf\.[\w.]+)["']""", text))


@functools.cache
def _folder() -> Path | None:
    """Returns the folder of TensorFlow; None if it is not installed."""
    try:
        spec = importlib.util.find_spec("tensorflow")
    except ValueError:  # Its entry in `sys.modules` has no specification.
        return None
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def _path(module: str) -> Path | None:
    """Returns the source of a module of TensorFlow, or None if there is none."""
    folder = _folder()
    if folder is None or not module.startswith(_ROOT):
        return None
    path = folder.joinpath(*module.removeprefix(_ROOT).split("."))
    found = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next((each for each in found if each.is_file()), None)


@functools.cache
def _names(module: str) -> frozenset[str]:
    """Returns the names that a module of TensorFlow binds at its top level."""
    path = _path(module)
    if path is None:
        return frozenset()
    return frozenset(_bound(ast.parse(path.read_bytes()).body))


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """Yields the names that statements bind, also below ``if``, ``try`` and ``with``."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*" and isinstance(node, ast.ImportFrom) and node.module:
                    yield from _names(node.module)
                else:
                    yield alias.asname or alias.name.partition(".")[0]
        for field in ("body", "handlers", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                for part in getattr(node, field, []):
                    yield from _bound(part.body if isinstance(part, ast.ExceptHandler) else [part])
