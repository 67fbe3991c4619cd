"""Private names of TensorFlow and Keras: which modules use them, and the page that lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import condacc
import tf_condacc

ROOT = Path(tf_condacc.__file__).parent
FOLDERS = [Path(package.__file__).parent for package in (condacc, tf_condacc)]
DESIGN = Path(__file__).resolve().parents[2] / "docs" / "design.md"
PRIVATE = re.compile(
    r"^\s*(from|import) (tensorflow\.python|keras\.src)|\b__internal__\b", re.MULTILINE
)
# These are public names of named tuples and of the modules os and sys.
OF_PYTHON = {"_asdict", "_current_frames", "_exit", "_fields", "_getframe", "_replace"}


def test_private_modules_of_tensorflow_are_used_in_one_module():
    found = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if PRIVATE.search(path.read_text(encoding="utf-8"))
    }
    assert {path for path in found if not path.startswith("compat/")} == {"_tensorflow.py"}


def accesses(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yields each object of which code reads or sets an attribute by name, and this name."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(owner, name):
                yield owner, name
            case ast.Call(ast.Name("getattr" | "hasattr" | "setattr"), [owner, named, *_]):
                if isinstance(named, ast.Constant):
                    yield owner, named.value


def defined(tree: ast.AST) -> Iterator[str]:
    """Yields the names that a module defines, also as attributes of `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.Name(name, ast.Store()):
                yield name
            case ast.Attribute(ast.Name("self"), name, ast.Store()):
                yield name


def overridden(tree: ast.AST) -> Iterator[str]:
    """Yields the methods that call those of the same name, of `super()` or of another object."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            named = (owner for owner, name in accesses(node) if name == node.name)
            yield from (node.name for owner in named if ast.unparse(owner) != "self")


def of_private_modules(tree: ast.AST) -> Iterator[str]:
    """Yields what a module imports of private modules or names in a string, and their members."""
    modules = {"tf.__internal__"}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(str(module), names) if module.startswith("tensorflow.python"):
                modules |= {alias.asname or alias.name for alias in names}
                yield from (alias.name for alias in names)
            case ast.Call(ast.Attribute(_, "import_module"), [ast.Constant(str(module)), *_]):
                yield from re.findall(r"^tensorflow\.python\..*?(\w+)$", module)
            case ast.Constant(str(module)):
                yield from re.findall(r"^keras\.src\..*?(\w+)$", module)
    yield from (name for owner, name in accesses(tree) if ast.unparse(owner) in modules)


def test_the_design_lists_the_private_names_in_use():
    trees = [ast.parse(file.read_text("utf-8")) for each in FOLDERS for file in each.rglob("*.py")]
    used = {name for tree in trees for _, name in accesses(tree)}
    ours = {name for tree in trees for name in defined(tree)}
    ours -= {name for tree in trees for name in overridden(tree)}
    private = {name for name in used - ours - OF_PYTHON if re.match(r"_(?!_|condacc_)", name)}
    private |= {name for tree in trees for name in of_private_modules(tree)}
    assert len(private) > 30

    section = re.search(r"^### Private parts.*?^## ", DESIGN.read_text("utf-8"), re.M | re.S)
    cells = re.findall(r"^\| (.*?) \|", section[0], re.M)
    listed = [name.split(".") for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    assert private - {part for name in listed for part in name} == set()
    assert {name[-1] for name in listed} - used - private == set()
