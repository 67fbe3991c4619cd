"""Finds out from its files, without running it, whether a program imports the package keras."""

from __future__ import annotations

import contextlib
import modulefinder
import os
from collections.abc import Sequence


def importer_of_keras(program: str, is_module: bool, roots: Sequence[str] = ()) -> str | None:
    """Returns the name of a module of a program that imports the package keras, or None.

    Modules are looked for in the folder of the program, in `roots`, and in the folders that the
    environment variable PYTHONPATH names. All others do not belong to the program. Files that
    Python cannot read are passed over: an error comes when the program imports them.

    Args:
        program: Path of the program, or the name of its module.
        is_module: Whether `program` is the name of a module.
        roots: Further folders with modules of the program.
    """
    own = os.getcwd() if is_module else os.path.dirname(os.path.realpath(program))
    others = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    finder = modulefinder.ModuleFinder([own, *roots, *others])
    for name in (program, f"{program}.__main__") if is_module else ():
        with contextlib.suppress(ImportError, SyntaxError):
            finder.import_hook(name)
    if not is_module:
        with contextlib.suppress(SyntaxError):
            finder.run_script(program)
    importers = (
        importer
        for name, importers in finder.badmodules.items()
        if name.partition(".")[0] == "keras" and "keras" not in finder.modules
        for importer in importers
    )
    return next(importers, None)
