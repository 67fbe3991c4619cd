"""What ``condacc run`` is told to run, and how."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of the command line.

    Attributes:
        keras: The version of Keras that is asked for, 2 or 3, or None if none is.
        quiet: Whether the runner says nothing about what it provides.
        script: Path of the program, or None if `module` is given.
        module: Name of the program's module, or None if `script` is given.
        arguments: Arguments of the program.
        roots: Folders whose modules belong to the program.
        also: Installed packages that belong to the program.
        excluded: Packages that do not belong to the program.
    """

    keras: int | None
    quiet: bool
    script: str | None
    module: str | None
    arguments: list[str]
    roots: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
