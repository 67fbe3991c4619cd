"""Modules of the program: where they are, and what ``tensorflow`` and ``keras`` mean in them."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from condacc.versions import uses_keras2
from tf_condacc.compat._runner.extent import Extent, is_installed

_V1 = "tensorflow.compat.v1"
# Parts of TensorFlow that programs import by these paths, and that are not in tf.compat.v1.
_NOT_API = frozenset(
    {"_api", "compat", "contrib", "core", "estimator", "examples", "python", "tools"}
)
_KERAS = f"{__package__}.keras"
_PLACEHOLDERS = f"{__package__}.placeholders"
_CONTRIB = re.compile(r"tensorflow(\.compat\.v1)?\.contrib(\..+)?")


def compile_program(source: bytes | str, path: str) -> types.CodeType:
    """Compiles a module of the program. In it ``tensorflow`` means ``tensorflow.compat.v1``.

    With Keras 2, ``keras`` means the ``tf.keras`` of that.

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
    """Changes the statements that import TensorFlow or Keras.

    Imports from ``tf.contrib`` become calls that bind a placeholder for a name that is missing. In
    a ``try`` statement with handlers, and in ``with suppress(...)``, they stay import statements,
    so that the program handles the ImportError.
    """

    def __init__(self) -> None:
        self._is_guarded = False

    def visit_Try(self, node: ast.Try) -> ast.AST:
        node.body = self._visit_body(node.body, guarded=bool(node.handlers))
        for field in ("handlers", "orelse", "finalbody"):
            setattr(node, field, self._visit_body(getattr(node, field)))
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        managers = [ast.unparse(item.context_expr) for item in node.items]
        guarded = any(re.match(r"(contextlib\.)?suppress\(", each) for each in managers)
        node.body = self._visit_body(node.body, guarded)
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        return [statement for alias in node.names for statement in self._import(node, alias)]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        if node.level != 0 or node.module is None:
            return node
        node.module = _public_path(node.module)
        is_star = node.names[0].name == "*"
        if self._is_guarded or is_star or not _CONTRIB.fullmatch(node.module):
            return node
        return [
            _bind(node, alias.asname or alias.name, "import_name", node.module, alias.name)
            for alias in node.names
        ]

    def _import(self, node: ast.Import, alias: ast.alias) -> Iterator[ast.stmt]:
        """Yields the statements that stand for the import of one module."""
        path, asname = alias.name, alias.asname
        if path.partition(".")[0] == "keras" and _is_tf_keras():
            yield _statement(node, alias, _public_path(path), asname or "keras")
            if asname is None and path != "keras":
                yield _statement(node, alias, _KERAS, "keras")
        elif path.partition(".")[0] != "tensorflow":
            yield _statement(node, alias, path, asname)
        elif path == "tensorflow":
            yield _statement(node, alias, _V1, asname or "tensorflow")
        else:
            is_bound = asname is not None
            if not self._is_guarded and _CONTRIB.fullmatch(path):
                yield _bind(node, asname, "import_module", path)
            else:
                yield _statement(node, alias, _public_path(path) if is_bound else path, asname)
            if not is_bound:  # The statement binds the name "tensorflow".
                yield _statement(node, alias, _V1, "tensorflow")

    def _visit_body(self, body: list[Any], guarded: bool = False) -> list[Any]:
        before, self._is_guarded = self._is_guarded, self._is_guarded or guarded
        body = self.visit(ast.Module(body, [])).body
        self._is_guarded = before
        return body


def _statement(node: ast.Import, like: ast.alias, path: str, asname: str | None) -> ast.Import:
    """Returns an import of one module, with the source locations of `node` and `like`."""
    alias = ast.copy_location(ast.alias(path, asname), like)
    return ast.copy_location(ast.Import([alias]), node)


def _bind(node: ast.stmt, target: str | None, function: str, *arguments: str) -> ast.stmt:
    """Returns a statement that calls a function of `placeholders` and binds its value.

    Args:
        node: The statement that it replaces.
        target: The name that is bound, or None.
        function: The name of the function.
        *arguments: The arguments of the function.
    """
    call = f"__import__({_PLACEHOLDERS!r}, fromlist=['']).{function}{arguments!r}"
    [statement] = ast.parse(f"{target} = {call}" if target else call).body
    for each in ast.walk(statement):
        if hasattr(each, "lineno"):
            ast.copy_location(each, node)
    return statement


def _public_path(path: str) -> str:
    """Returns the path in ``tf.compat.v1`` of a public module of TensorFlow, or of Keras."""
    if path == "tensorflow":
        return _V1
    first, _, rest = path.partition(".")
    if first == "keras" and _is_tf_keras():
        return path.replace("keras", _KERAS, 1)
    part = rest.partition(".")[0]
    is_public = first == "tensorflow" and part not in _NOT_API
    if not is_public or (part == "keras" and not uses_keras2()):  # Keras 3 has no version 1.
        return path
    return f"{_V1}.{rest}"


def _is_tf_keras() -> bool:
    """Returns whether ``keras`` is the program's ``tf.keras``.

    Keras 3 has other modules, and a program may bring a package of that name along.
    """
    spec = PathFinder.find_spec("keras")
    return uses_keras2() and (spec is None or is_installed(spec.origin or ""))


class ProgramFinder(MetaPathFinder):
    """Finds the modules of the program, but not those of installed packages."""

    def __init__(self, extent: Extent) -> None:
        """Creates a finder that finds nothing before `insert`.

        Args:
            extent: Which modules belong to the program.
        """
        self._extent = extent

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
        """Returns the specification of a module of the program that imports TensorFlow or Keras."""
        spec = PathFinder.find_spec(fullname, path, target)
        is_editable = spec is None
        for finder in _editable_installations() if is_editable else ():
            spec = spec or finder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        if not _mentions_libraries(spec.origin):
            return None
        if not self._extent.has(fullname, spec.origin, is_editable):
            return None
        spec.loader = ProgramLoader(fullname, spec.origin)
        return spec


class ProgramLoader(SourceFileLoader):
    """Loads a module of the program. It writes no bytecode, which other runs would load."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        return compile_program(self.get_data(path), path)


def _editable_installations() -> list[Any]:
    """Returns the finders of packages that pip has installed as editable."""
    return [each for each in sys.meta_path if "__editable__" in getattr(each, "__module__", "")]


def _mentions_libraries(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return re.search(b"tensorflow|keras", file.read()) is not None
    except OSError:  # Python's own loader reports it.
        return False
