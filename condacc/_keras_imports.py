"""Finds out from its files, without running it, whether a program imports the package keras."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def importer_of_keras(program: str, is_module: bool, roots: Sequence[str] = ()) -> Path | None:
    """Returns a file of a program that imports the package keras, or None.

    Modules are looked for in the folder of the program, in `roots`, and in the folders that the
    environment variable PYTHONPATH names. Installed packages do not belong to the program. Files
    that Python cannot read are passed over: an error comes when the program imports them.

    Args:
        program: Path of the program, or the name of its module.
        is_module: Whether `program` is the name of a module.
        roots: Further folders with modules of the program.
    """
    own = Path() if is_module else Path(os.path.realpath(program)).parent
    others = map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    folders = [own, *map(Path, roots), *(each for each in others if not _has_packages(each))]
    begin = [Path(program)]
    if is_module:
        begin = [*_files_of(program, folders), *_files_of(f"{program}.__main__", folders)]
    waiting, seen = begin, set(begin)
    while waiting:
        file = waiting.pop()
        for folder, name in _imports(file):
            files = list(_files_of(name, folders if folder is None else [folder]))
            if name.partition(".")[0] == "keras" and folder is None and not files:
                return file
            waiting += [each for each in files if each not in seen]
            seen.update(files)
    return None


def _has_packages(folder: Path) -> bool:
    """Returns whether packages are installed in a folder."""
    return folder.name.endswith("-packages") or any(folder.glob("*.dist-info"))


def _imports(file: Path) -> Iterator[tuple[Path | None, str]]:
    """Yields the names that a file may import as modules.

    With a relative import comes the folder that it starts from, and with others None.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((None, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folder = file.absolute().parents[node.level - 1] if node.level else None
            prefix = [node.module] if node.module else []
            yield from ((folder, ".".join([*prefix, alias.name])) for alias in node.names)


def _files_of(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Yields the files that an import of a module executes: its own, and those of its packages."""
    parts = name.split(".")
    for folder in folders:
        paths = [folder.joinpath(*parts[:end]) for end in range(1, len(parts) + 1)]
        if not (paths[0].is_dir() or paths[0].with_suffix(".py").is_file()):
            continue
        for path in paths:
            yield from filter(Path.is_file, (path.with_suffix(".py"), path / "__init__.py"))
        return
