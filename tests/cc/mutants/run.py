"""Makes mutants of the core, and has the C++ tests find them.

All mutants are compiled at once and switched on one at a time (mutate.py). They are drawn at random
until the time is up. Each runs the tests of its part of the core, the fast ones first, until one
fails. A mutant that no test finds either changes no behaviour, which survivors.py then explains, or
shows what the tests lack.

usage: python tests/cc/mutants/run.py [--explorer] SECONDS [SEED]
       python tests/cc/mutants/run.py [--explorer] --only NUMBER

With --explorer, only the explorer of schedules looks for them.

Fails if tests find fewer than 95 % of the mutants that change the behaviour.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutate import Mutant, mutants_of, with_mutants
from survivors import SURVIVORS

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("accumulator", "sync", "staleness")
COMMAND = [
    *(os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-I.", "-ffp-contract=off", "-w"),
    *("-DCONDACC_CHECK_INVARIANTS", "-include", "tests/cc/mutants/mutants.h"),
]


def included(*headers: str) -> list[str]:
    """Returns the options that put stand-ins in the place of headers; see cc/core/stand_ins.bzl."""
    return [option for name in headers for option in ("-include", f"tests/cc/{name}.h")]


CHECKED = included("stand_ins/cond_var", "stand_ins/timer_queue")
EXPLORED = included(*(f"explorer/stand_ins/{name}" for name in ("mutex", "timer_queue", "reached")))
# The tests of each room: folders of tests/cc, and programs of the explorer.
TESTS = {
    "accumulator": (
        ("accumulator", "fuzz", "sparse", "dense"),
        ("dense", "sparse", "device", "tower", "gate"),
    ),
    "sync": (("sync",), ("gate", "bundle")),
    "staleness": (("staleness",), ("staleness",)),
}
FOLDERS = ("accumulator", "dense", "fuzz", "sparse", "staleness", "sync")
FEW, MANY = "3000", "60000"  # Schedules.
# A test that takes longer than this, and than so many times what it takes without a mutant, does
# not end. The machine may be busy.
TIMEOUT_SECS, TIMEOUT_FACTOR = 60, 6
GOAL_PERCENT = 95


@dataclass(frozen=True)
class Site:
    """A mutant of one file of the core."""

    number: int
    file: str
    line: int
    mutant: Mutant

    def __str__(self) -> str:
        return f"{self.number:4} {self.file}:{self.line}: {self.mutant.change}: {self.mutant.code}"


def plant(tree: Path) -> list[Site]:
    """Puts all mutants into the sources of a tree, and returns them."""
    sites: list[Site] = []
    for room in ROOMS:
        for path in sorted((tree / "cc/core" / room).iterdir()):
            text = path.read_text()
            mutants = mutants_of(text)
            path.write_text(with_mutants(text, mutants, len(sites)))
            for mutant in mutants:
                line = text.count("\n", 0, mutant.position) + 1
                sites.append(Site(len(sites), f"{room}/{path.name}", line, mutant))
    return sites


def gtest_options() -> list[str]:
    """Returns how the tests are compiled and linked, from what configure.sh has found."""
    lines = (ROOT / ".condacc.bazelrc").read_text().splitlines()
    found = dict(
        line.split('repo_env="')[-1].split("--repo_env=")[-1].rstrip('"').split("=", 1)
        for line in lines
        if "CONDACC_GTEST" in line
    )
    libraries = Path(found["CONDACC_GTEST_LIB_DIR"])
    return [
        *("-isystem", f"{found['CONDACC_GTEST_DIR']}/include"),
        *(str(libraries / f"lib{name}.a") for name in ("gtest_main", "gtest")),
        "-lpthread",
    ]


def build(tree: Path) -> None:
    """Builds the explorer and the tests of each folder, as programs of the tree."""
    core = [path for path in sorted(tree.glob("cc/core/*/*.cc")) if path.name != "timer_queue.cc"]
    clock = tree / "tests/cc/stand_ins/clock.cc"
    explorer = [
        path
        for path in sorted((tree / "tests/cc/explorer").glob("**/*.cc"))
        if not path.name.endswith("_test.cc")
    ]
    jobs = [(path, f"{path.stem}.core.o", CHECKED) for path in [*core, clock]]
    jobs += [(path, f"{path.stem}.explored.o", EXPLORED) for path in core]
    jobs += [
        (path, f"{path.stem}.explorer.o", [] if path.parent.name == "fibers" else EXPLORED)
        for path in explorer
    ]
    gtest = gtest_options()
    for folder in FOLDERS:
        sources = sorted((tree / "tests/cc" / folder).glob("*_test.cc"))
        if folder == "fuzz":
            sources += [tree / "tests/cc/fuzz" / name for name in ("calls.cc", "states.cc")]
        group = tree / f"{folder}_tests.cc"
        group.write_text("".join(f'#include "{path.relative_to(tree)}"\n' for path in sources))
        jobs.append((group, f"{folder}.tests.o", [*CHECKED, *gtest[:2]]))

    def compile_one(job: tuple[Path, str, list[str]]) -> None:
        source, made, options = job
        command = [*COMMAND, *options, "-c", str(source.relative_to(tree)), "-o", made]
        subprocess.run(command, cwd=tree, check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, jobs))

    def link(made: str, *objects: str) -> None:
        found = sorted(str(path) for pattern in objects for path in tree.glob(pattern))
        subprocess.run([COMMAND[0], *found, *gtest[2:], "-o", made], cwd=tree, check=True)

    link("explorer", "*.explored.o", "*.explorer.o")
    for folder in FOLDERS:
        link(f"{folder}_tests", f"{folder}.tests.o", "*.core.o")


def commands(tree: Path, room: str) -> Iterator[list[str]]:
    """Yields the tests of a room, the fast ones first."""
    folders, programs = TESTS[room]
    explorer = str(tree / "explorer")
    for program in programs:
        yield [explorer, program, FEW, "1"]
    for folder in folders:
        yield [str(tree / f"{folder}_tests"), "--gtest_brief=1", "--gtest_fail_fast"]
    for program in programs:
        yield [explorer, program, MANY, "1"]


def finder_of(tree: Path, room: str, number: int, took: dict[str, float]) -> str | None:
    """Returns which test finds a mutant, or None.

    Args:
        tree: The tree with the programs.
        room: The room of the mutant.
        number: The number of the mutant, or -1 for none.
        took: The seconds that each test takes without a mutant. Is filled if there is none.
    """
    for command in commands(tree, room):
        name = " ".join([Path(command[0]).name, *command[1:3]])
        begun = time.monotonic()
        try:
            run = subprocess.run(
                command,
                cwd=tree,
                env={**os.environ, "CONDACC_MUTANT": str(number)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=max(TIMEOUT_SECS, TIMEOUT_FACTOR * took.get(name, TIMEOUT_SECS)),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{name}: did not end"
        if run.returncode != 0:
            return name
        if number < 0:
            took[name] = time.monotonic() - begun
    return None


def reason_of(site: Site) -> str | None:
    """Returns why a mutant changes no behaviour, if that is known."""
    key = (site.file, site.mutant.change, site.mutant.code)
    return SURVIVORS.get(key)


def report(found: int, explained: list[Site], survivors: list[Site]) -> int:
    """Prints the result of a run. Returns the exit status."""
    for site in survivors:
        print(f"SURVIVED {site}")
    total = found + len(survivors)
    percent = 100 * found / total if total else 100
    print(
        f"{total + len(explained)} mutants: {found} were found, {len(explained)} change no"
        f" behaviour, {len(survivors)} survived; {percent:.1f} % of those that may change it"
        f" were found"
    )
    return 0 if percent >= GOAL_PERCENT else 1


def main() -> int:
    """Draws mutants until the time is up."""
    if "--explorer" in sys.argv:
        sys.argv.remove("--explorer")
        for room, (_, programs) in TESTS.items():
            TESTS[room] = ((), programs)
    only = int(sys.argv[2]) if sys.argv[1] == "--only" else None
    seconds = 0 if only is not None else float(sys.argv[1])
    seed = int(sys.argv[2]) if only is None and len(sys.argv) > 2 else random.randrange(2**32)
    found, explained, survivors = 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in ("cc/core", "cc/gpu", "tests/cc"):
            shutil.copytree(ROOT / part, tree / part)
        sites = plant(tree)
        build(tree)
        took: dict[str, float] = {}
        for room in ROOMS:
            if (finder := finder_of(tree, room, -1, took)) is not None:
                print(f"without a mutant, a test of {room} fails: {finder}")
                return 1
        print(f"{len(sites)} mutants, drawn with seed {seed}", flush=True)
        order = random.Random(seed).sample(sites, len(sites))
        if only is not None:
            order = [sites[only]]
        end = time.monotonic() + seconds
        for site in order:
            if time.monotonic() > end and only is None:
                break
            finder = finder_of(tree, site.file.split("/")[0], site.number, took)
            if finder is not None:
                found += 1
                print(f"found {site}\n     by {finder}", flush=True)
            elif reason := reason_of(site):
                explained.append(site)
                print(f"changes nothing {site}\n     {reason}", flush=True)
            else:
                survivors.append(site)
                print(f"survived {site}", flush=True)
        return report(found, explained, survivors)


if __name__ == "__main__":
    sys.exit(main())
