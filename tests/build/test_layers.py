"""Tests of which part of the Python packages imports which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Each room imports only from those after it.
ROOMS = (
    "compat",
    "parity",
    "keras",
    "estimator",
    "cluster",
    "_towers",
    "_optimizers",
    "_micro_batches",
    "_accumulators",
    "_state",
    "_ops",
    "_model_fn",
    "_sums",
    "_tensorflow",
    "_times",
    "_build_info",
    "_typing",
)
SHARED = (
    "condacc._interrupts",
    "condacc._python2",
    "condacc.advice",
    "condacc.extras",
    "condacc.libraries",
    "condacc.liveness",
    "condacc.originals",
    "condacc.tf_config",
    "condacc.versions",
)


def imports_of(room: str) -> Iterator[tuple[Path, str]]:
    """Yields what the files of a room import of this project, with the file."""
    path = ROOT / "tf_condacc" / room
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                yield from ((file, f"{node.module}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((file, alias.name) for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_those_below_it(room):
    below = ROOMS[ROOMS.index(room) :]
    is_top = room in ("compat", "parity")  # These use the package as a program does.
    for file, name in imports_of(room):
        package, _, rest = name.partition(".")
        if package == "condacc":
            assert name == "condacc" or name.startswith(SHARED), f"{file} imports {name}"
        elif package == "tf_condacc" and not is_top:
            assert rest.partition(".")[0] in below, f"{file} imports {name}"
