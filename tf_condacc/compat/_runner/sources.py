"""Modules of the program: where they are, and what ``import tensorflow`` means in them."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
import types
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

import tf_condacc
from condacc import run
from condacc.run import uses_keras2

_V1 = "tensorflow.compat.v1"
# Parts of TensorFlow that programs import by these paths, and that are not in tf.compat.v1.
_NOT_API = frozenset(
    {"_api", "compat", "contrib", "core", "estimator", "examples", "python", "tools"}
)
_OWN = [os.path.dirname(os.path.realpath(file)) for file in (run.__file__, tf_condacc.__file__)]
_INSTALLED = ("site-packages", "dist-packages")


def compile_program(source: bytes | str, path: str) -> types.CodeType:
    """Compiles a module of the program. In it ``tensorflow`` means ``tensorflow.compat.v1``.

    Lines and columns of the code are those of the source.

    Args:
        source: The source of the module.
        path: Path of the file, for tracebacks.

    Raises:
        SyntaxError: The source is not valid.
    """
    tree = compile(source, path, "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
    return compile(_Imports().visit(tree), path, "exec", dont_inherit=True)


class _Imports(ast.NodeTransformer):
    """Changes the statements that import TensorFlow."""

    def visit_Import(self, node: ast.Import) -> ast.AST:
        names: list[ast.alias] = []
        for alias in node.names:
            top_level = alias.name.partition(".")[0]
            if top_level != "tensorflow":
                names.append(alias)
            elif alias.name == "tensorflow":
                names.append(_alias(alias, _V1, alias.asname or "tensorflow"))
            elif alias.asname is not None:
                names.append(_alias(alias, _public_path(alias.name), alias.asname))
            else:  # It imports the module and binds the name "tensorflow".
                names += [alias, _alias(alias, _V1, "tensorflow")]
        node.names = names
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.level == 0 and node.module is not None:
            node.module = _public_path(node.module)
        return node


def _alias(like: ast.alias, name: str, asname: str) -> ast.alias:
    return ast.copy_location(ast.alias(name, asname), like)


def _public_path(path: str) -> str:
    """Returns the path in ``tf.compat.v1`` of a public module of TensorFlow."""
    if path == "tensorflow":
        return _V1
    first, _, rest = path.partition(".")
    part = rest.partition(".")[0]
    is_public = first == "tensorflow" and part not in _NOT_API
    if not is_public or (part == "keras" and not uses_keras2()):  # Keras 3 has no version 1.
        return path
    return f"{_V1}.{rest}"


class ProgramFinder(MetaPathFinder):
    """Finds the modules in the folder of the program, but not those of installed packages."""

    def __init__(self, folder: str) -> None:
        """Creates a finder that finds nothing before `insert`.

        Args:
            folder: Folder of the program.
        """
        self._folder = os.path.realpath(folder)
        paths = sysconfig.get_paths()
        self._others = {os.path.realpath(paths[key]) for key in ("stdlib", "platstdlib")}
        self._others |= {os.path.realpath(paths[key]) for key in ("purelib", "platlib")}
        self._others.update(_OWN)

    def insert(self) -> None:
        """Puts the finder before Python's own finder of files."""
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
        sys.meta_path.insert(place, self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Returns the specification of a module of the program that imports TensorFlow."""
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        if not self._is_of_program(spec.origin) or not _mentions_tensorflow(spec.origin):
            return None
        spec.loader = _ProgramLoader(fullname, spec.origin)
        return spec

    def _is_of_program(self, path: str) -> bool:
        path = os.path.realpath(path)
        if not _is_below(path, self._folder):
            return False
        below = os.path.relpath(path, self._folder).split(os.sep)
        if any(name in below for name in _INSTALLED):
            return False
        others = (other for other in self._others if not _is_below(self._folder, other))
        return not any(_is_below(path, other) for other in others)


class _ProgramLoader(SourceFileLoader):
    """Loads a module of the program. It writes no bytecode, which other runs would load."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        return compile_program(self.get_data(path), path)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _mentions_tensorflow(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"tensorflow" in file.read()
    except OSError:  # Python's own loader reports it.
        return False
