"""Tests of the core for aarch64, on an emulator: C++ tests of what it computes, sums and vectors.

The emulator runs one instruction after another in the order of the program, so it says nothing
about the order in which an aarch64 processor lets other cores see what one has written. Therefore
the C++ tests of accumulators, gates and timers, which are about threads, are left out.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.aarch64 import programs
from tests.aarch64.programs import ROOT

pytestmark = [pytest.mark.aarch64, pytest.mark.timeout(0)]  # Compilers and emulators are slow.
PAGE_SIZES = (4096, 16384, 65536)


def run(command: list[str]) -> str:
    """Runs a command in the source tree, and returns what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout


@pytest.mark.parametrize("name", programs.test_programs())
def test_the_core_passes_its_tests(tools, core_programs, name):
    output = run([*tools.emulated(core_programs[name]), "--gtest_brief=1"])
    (num_passed,) = re.findall(r"PASSED  \] (\d+) tests?\.", output)
    assert int(num_passed) > 0
    assert "SKIPPED" not in output


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_buffers_consist_of_whole_pages_of_each_size(tools, core_programs, page_size):
    program = tools.emulated(core_programs["strict_memory_test"], "-p", str(page_size))
    output = run([*program, "--gtest_brief=1"])
    assert re.search(r"PASSED  \] \d\d tests\.", output), output


def test_sums_have_the_bits_that_they_have_on_this_machine(tools, core_programs, folder):
    parts = {**programs.core_parts(), **programs.own_parts()}
    wanted = {"sum_digests": programs.own_programs()["sum_digests"]}
    parts = {name: parts[name] for name in wanted["sum_digests"].parts}
    here = programs.make(parts, wanted, folder / "here")["sum_digests"]
    lines = run([str(here)]).splitlines()
    assert len({line.split()[-1] for line in lines}) == len(lines) == 400
    assert run(tools.emulated(core_programs["sum_digests"])).splitlines() == lines


@pytest.fixture(scope="session")
def functions(tools, core_programs, folder) -> list[tuple[str, str]]:
    """The functions of the core: their names, and their instructions in assembly language."""
    listing = run([str(tools.program("objdump")), "-dC", "--no-show-raw-insn", f"{folder}/core.o"])
    blocks = re.findall(r"^[0-9a-f]+ <(.*)>:\n((?:.+\n)+)", listing, re.MULTILINE)
    assert blocks
    return blocks


@pytest.mark.parametrize(
    ("lanes", "wanted"),
    [
        # Four elements at once are widened, added, divided, and narrowed.
        ("Float16Lanes", r"fcvtl\t|fcvtl2\t|fadd\t.*\.4s|fdiv\t.*\.4s|fcvtn\t|fcvtn2\t"),
        ("BFloat16Lanes", r"shl\t.*\.4s|and\t.*\.16b|fadd\t.*\.4s|fdiv\t.*\.4s|ushr\t.*\.4s"),
    ],
    ids=["float16", "bfloat16"],
)
def test_narrow_types_are_added_in_vectors(functions, lanes, wanted):
    name = rf"NarrowPass<condacc::\(anonymous namespace\)::{lanes}>::Run<[1-8]ul>"
    passes = [code for each, code in functions if re.search(name, each)]
    assert len(passes) == 8
    for code in passes:
        for instruction in wanted.split("|"):
            assert re.search(rf"\t{instruction}", code), (instruction, code)


def test_sums_of_products_are_not_fused(functions):
    fused = re.compile(r"\tf(?:n?madd|n?msub|mla|mls)\b")
    assert not [name for name, code in functions if fused.search(code)]
