"""Checks with mypy and pyright that users' programs use this package with the right types.

Both know TensorFlow by the stubs types-tensorflow: mypy recommends them, and pyright, which is also
the checker of Visual Studio Code, contains them. The programs are those of the documentation, which
must have no error, and `mistakes.py`, in which both must find each mistake.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.docs.programs import ROOT, programs_of

TOOLS = ROOT / ".tools" / "types"
PAGES = ("README.md", "docs/getting-started.md", "docs/guides/usage.md", "docs/guides/keras.md")
MISTAKES = Path(__file__).parent / "mistakes.py"
_VARIABLE = "The stubs do not know that a variable may be made from numbers."
# Patterns of errors that say nothing about this package, and why the programs have them.
EXCEPTIONS = {
    r'Argument 1 to "Variable" has incompatible type': _VARIABLE,
    r'parameter "initial_value" of type .* in function "__init__"': _VARIABLE,
    r'Skipping analyzing "keras"': "Keras has no types.",
    r'parameter "verbose" of type "str" in function "fit"': "pyright guesses it from the default.",
}

Place = tuple[str, int]  # A file and a line.


def found_by_mypy(folder: Path) -> Iterator[tuple[Place, str]]:
    """Yields the errors that mypy finds in the programs of a folder."""
    options = ["--config-file=", "--check-untyped-defs", "--output=json"]
    command = [TOOLS / "bin" / "mypy", *options, *sorted(folder.glob("*.py"))]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        error = json.loads(line)
        if error["severity"] == "error":
            yield (Path(error["file"]).stem, error["line"]), error["message"]


def found_by_pyright(folder: Path) -> Iterator[tuple[Place, str]]:
    """Yields the errors that pyright finds in the programs of a folder."""
    pyright = TOOLS / "node_modules" / ".bin" / "pyright"
    command = [pyright, "--outputjson", "--pythonpath", TOOLS / "bin" / "python", folder]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    for error in json.loads(done.stdout)["generalDiagnostics"]:
        if error["severity"] == "error":
            line = error["range"]["start"]["line"] + 1
            yield (Path(error["file"]).stem, line), error["message"]


def complaints(found: list[tuple[Place, str]]) -> Iterator[str]:
    """Yields the errors of a tool that a program should not have, and the mistakes it missed."""
    mistakes = {
        (MISTAKES.stem, number)
        for number, line in enumerate(MISTAKES.read_text("utf-8").splitlines(), start=1)
        if "  # " in line
    }
    for (program, line), message in found:
        is_exception = any(re.search(pattern, message) for pattern in EXCEPTIONS)
        if (program, line) not in mistakes and not is_exception:
            yield f"{program}, line {line}: {message}"
    for program, line in sorted(mistakes - {place for place, _ in found}):
        yield f"{program}, line {line}: it did not find the mistake"


def main() -> int:
    """Prints what is wrong, and returns the exit status."""
    (site_packages,) = TOOLS.glob("lib/python*/site-packages")
    (site_packages / "tf_condacc.pth").write_text(f"{ROOT}\n")  # As `pip install -e` does.
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / MISTAKES.name).write_text(MISTAKES.read_text("utf-8"))
        for page in PAGES:
            for number, program in enumerate(programs_of(page), start=1):
                name = Path(page).stem.replace("-", "_")
                (folder / f"{name}_{number}.py").write_text(program)
        found = {"mypy": [*found_by_mypy(folder)], "pyright": [*found_by_pyright(folder)]}
    wrong = [f"{tool}: {each}" for tool in found for each in complaints(found[tool])]
    messages = "\n".join(message for errors in found.values() for _, message in errors)
    wrong += [f"no longer needed: {each}" for each in EXCEPTIONS if not re.search(each, messages)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
