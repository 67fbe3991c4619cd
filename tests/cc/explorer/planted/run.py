"""Plants each bug of bugs.py in a copy of the core, and has the explorer find it.

Fails if a bug is not found in as many schedules as `make test-schedules` explores, or if it cannot
be planted because the core has changed.

usage: python tests/cc/explorer/planted/run.py [WORD]

Only bugs whose description contains WORD are planted.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bugs import BUGS, Bug
from build_explorer import EXPLORER, build

ROOT = Path(__file__).resolve().parents[4]
CACHE = ROOT / "build/planted"
# The schedules of `make test-schedules`, so that the outcome is always the same.
NUM_SCHEDULES, FIRST_SEED = "60000", "1"
TIMEOUT_SECS = 600  # A bug may make a schedule endless.


def explore(program: Path, name: str) -> str | None:
    """Explores the schedules of a program. Returns what was found, or None."""
    try:
        run = subprocess.run(
            [program, name, NUM_SCHEDULES, FIRST_SEED],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the explorer did not end"
    if run.returncode == 0:
        return None
    return next((line for line in run.stderr.splitlines() if "schedule " in line), run.stderr)


def result_with(bug: Bug, tree: Path) -> tuple[bool, str]:
    """Plants a bug in a tree. Returns whether the explorer finds it, and how or why not."""
    file = tree / "cc/core" / bug.file
    text = file.read_text()
    if text.count(bug.old) != 1:
        return False, f"its text does not stand in cc/core/{bug.file} exactly once"
    file.write_text(text.replace(bug.old, bug.new))
    try:
        found = explore(build(tree, CACHE), bug.program)
    finally:
        file.write_text(text)
    return found is not None, found or "no schedule failed"


def main() -> int:
    """Runs the explorer without and with each bug."""
    bugs = [bug for bug in BUGS if not sys.argv[1:] or sys.argv[1] in bug.breaks]
    num_missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in (Path("cc/core"), Path("tests/cc/base"), EXPLORER):
            shutil.copytree(ROOT / part, tree / part)
        healthy = build(tree, CACHE)
        for program in sorted({bug.program for bug in bugs}):
            if failure := explore(healthy, program):
                print(f"without a bug, {program} fails: {failure}")
                return 1
        for bug in bugs:
            is_found, how = result_with(bug, tree)
            num_missed += not is_found
            print(f"{'found' if is_found else 'MISSED'}: {bug.breaks}\n    {how}", flush=True)
    print(f"{len(bugs) - num_missed} of {len(bugs)} planted bugs were found")
    return 1 if num_missed else 0


if __name__ == "__main__":
    sys.exit(main())
