"""Tests of release/: what is noted about tests, how libraries are checked, tools for aarch64."""

from __future__ import annotations

import contextlib
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from condacc import libraries

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "release"))

import aarch64  # noqa: E402  (release/aarch64.py)
import versions  # noqa: E402  (release/versions.py)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "install.md"
    file.write_text(f"# Page\n\n{versions.TABLE}\n|---|\n\nThe end.\n")
    monkeypatch.setattr(versions, "PAGE", file)
    monkeypatch.setattr(versions, "commit", lambda: "1234567")
    return file


def test_each_run_has_a_row_which_the_next_one_replaces(page: Path):
    versions.note("2.20", "3.10", ["2.20.0", "3.10.1", "3.1", "2.0"], "2 failed, 1234 passed in 9s")
    versions.note("2.15", "3.11", ["2.15.1", "3.11.2", "2.15.0", "1.26"], "5 passed, 1 error in 9s")
    versions.note("2.15", "3.10", ["2.15.1", "3.10.1", "2.15.0", "1.26"], "7 passed, 3 skipped")
    versions.note("2.20", "3.10", ["2.20.1", "3.10.2", "3.1", "2.0"], "1236 passed, 64 skipped")
    cells = ["2.22.0rc1", "3.13.1", "3.16.0.dev1", "2.5"]
    versions.note("2.22.0rc1", "3.13", cells, "1 failed, 2 passed in 9s")
    versions.note("2.22.0rc1", "3.13", cells, "3 passed in 9s")
    versions.note("2.22.0rc0", "3.13", ["2.22.0rc0", *cells[1:]], "3 passed in 9s")
    begin, _, rest = page.read_text().partition("|---|\n")
    rows, _, end = rest.partition("\n\n")
    assert [row.rpartition("| 20")[0] for row in rows.splitlines()] == [
        "| 2.15.1 | 3.10.1 | 2.15.0 | 1.26 | 7 | 3 | 0 ",
        "| 2.15.1 | 3.11.2 | 2.15.0 | 1.26 | 5 | 0 | 1 ",
        "| 2.20.1 | 3.10.2 | 3.1 | 2.0 | 1,236 | 64 | 0 ",
        "| 2.22.0rc0 | 3.13.1 | 3.16.0.dev1 | 2.5 | 3 | 0 | 0 ",
        "| 2.22.0rc1 | 3.13.1 | 3.16.0.dev1 | 2.5 | 3 | 0 | 0 ",
    ]
    assert (begin, end) == (f"# Page\n\n{versions.TABLE}\n", "The end.\n")


def test_the_table_is_in_the_page_and_each_release_has_pythons():
    assert versions.TABLE in (ROOT / "docs" / "install.md").read_text().splitlines()
    assert tuple(versions.PYTHONS) == libraries.SUPPORTED


# Names that a framework defines, by how it versions them: TensorFlow does so since 2.22.
_SUFFIXES = [("", ""), ("@@tensorflow", "@tensorflow")]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that checks a library by made-up lines of nm."""
    framework = tmp_path / "lib/python3.13/site-packages/tensorflow" / versions.FRAMEWORK
    framework.parent.mkdir(parents=True)
    library = tmp_path / "library.so"
    for file in (framework, library):
        file.touch()

    def run(defined: list[str], asked: list[str], system: str = "GLIBC_2.17") -> None:
        lines = {
            (framework, "--defined-only"): [f"0000000000001a30 T {name}" for name in defined],
            (framework, "--undefined-only"): [f"                 U malloc@{system}"],
            (library, "--undefined-only"): [
                "                 w __gmon_start__",
                *(f"                 U {name}" for name in asked),
            ],
        }
        monkeypatch.setattr(versions, "symbols", lambda file, option: lines[file, option])
        versions.check_symbols(library, tmp_path / "bin" / "python")

    return run


@pytest.mark.parametrize(("defined", "asked"), _SUFFIXES)
def test_symbols_of_tensorflow_may_have_its_version(check, capsys, defined, asked):
    of_framework = [f"_ZN3tsl5Mutex{defined}", f"_ZN10tensorflow6Tensor{defined}"]
    check(of_framework, [f"_ZN10tensorflow6Tensor{asked}", "memcpy@GLIBC_2.14"])
    assert "library.so: 1 symbols of TensorFlow" in capsys.readouterr().err


@pytest.mark.parametrize(("defined", "asked"), _SUFFIXES)
def test_a_symbol_that_tensorflow_lacks_is_named(check, defined, asked):
    with pytest.raises(SystemExit, match=r"undefined symbols: \['_ZN10tensorflow4Lost'\]"):
        check(
            [f"_ZN3tsl5Mutex{defined}"], [f"_ZN3tsl5Mutex{asked}", f"_ZN10tensorflow4Lost{asked}"]
        )


@pytest.mark.parametrize(("defined", "asked"), _SUFFIXES)
def test_a_symbol_of_glibc_is_none_of_tensorflow_and_must_not_be_newer(check, defined, asked):
    with pytest.raises(SystemExit, match=r"undefined symbols: \[\]"):
        check(["memcpy@@tensorflow"], ["memcpy@GLIBC_2.14"])
    with pytest.raises(SystemExit, match=r"asks for GLIBC \[2, 34\], TensorFlow for \[2, 17\]"):
        check([f"_ZN3tsl5Mutex{defined}"], [f"_ZN3tsl5Mutex{asked}", "dlopen@GLIBC_2.34"])


def test_a_pre_release_is_asked_for_with_its_python():
    assert versions.asked_for("2.22.0rc0/3.13") == ("2.22.0rc0", ("3.13",))
    assert versions.asked_for("2.21") == ("2.21", versions.PYTHONS["2.21"])
    with pytest.raises(SystemExit, match="name a Python for TensorFlow 2.22.0rc0, as in"):
        versions.asked_for("2.22.0rc0")


class EmulatedTools:
    """Stands for the tools for aarch64, and notes what is installed."""

    def __init__(self, installed: list[tuple[str, ...]]) -> None:
        self._installed = installed

    def make_python(self, folder: Path, *requirements: str, pip: list[str]) -> Path:
        self._installed.append(requirements)
        folder.mkdir(parents=True)
        return folder / "bin" / "python"


def test_libraries_for_aarch64_are_built_with_the_package_that_has_its_tensorflow(
    tmp_path, monkeypatch
):
    installed: list[tuple[str, ...]] = []
    monkeypatch.setattr(versions, "WORK", tmp_path)
    monkeypatch.setattr(versions, "find_python", lambda number: Path(f"python{number}"))
    monkeypatch.setattr(versions, "emulation", lambda: EmulatedTools(installed))
    for minor in ("2.15", "2.20"):
        with versions.environment_for("aarch64", minor, "3.13") as python:
            assert python.parents[1].exists()
        assert not python.parents[1].exists()
    assert installed == [("tensorflow-cpu-aws==2.15.*",), ("tensorflow==2.20.*", "protobuf<7")]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for libraries, with made-up ones of the present sources for each processor."""
    monkeypatch.setattr(versions, "LIBRARIES", tmp_path / "libraries")
    monkeypatch.setattr(versions, "DIST", tmp_path / "dist")
    (tmp_path / "dist").mkdir()
    for processor in versions.PROCESSORS:
        for key in libraries.SUPPORTED:
            write_library(versions.LIBRARIES / processor, key, libraries.digest_of(ROOT))
    return versions.LIBRARIES


def write_library(folder: Path, key: str, sources: str) -> None:
    library = libraries.paths_in(folder, key)
    folder.mkdir(parents=True, exist_ok=True)
    library.file.touch()
    library.info_file.write_text(json.dumps({"sources": sources}))


def test_no_wheel_is_made_unless_each_processor_has_all_libraries(built: Path):
    for file in libraries.paths_in(built / "aarch64", "2.17"):
        file.unlink()
    write_library(built / "aarch64", "2.18", "other sources")
    wanted = r"no libraries of the present sources for aarch64 and \['2\.17', '2\.18'\]"
    with pytest.raises(SystemExit, match=wanted):
        versions.make_wheels(versions.PROCESSORS)
    assert versions.DIST.exists()


def test_a_wheel_has_the_libraries_of_the_releases_alone(
    built: Path, monkeypatch: pytest.MonkeyPatch
):
    write_library(built / "aarch64", "2.22.0rc0", libraries.digest_of(ROOT))
    keys: list[list[str]] = []

    def run(*command: object, env: dict[str, str], **arguments: object) -> str:
        if "wheel" in command:
            assert env["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"
            keys.append(libraries.keys_in(Path(env["CONDACC_LIBRARIES"])))
            folder, name = Path(str(command[command.index("-w") + 1])), "made-linux_aarch64.whl"
        else:
            folder, name = versions.DIST, "made-manylinux_2_24_aarch64.manylinux2014_aarch64.whl"
        (folder / name).touch()
        return ""

    monkeypatch.setattr(versions, "run", run)
    wheel = versions.make_wheel(built / "aarch64", "aarch64", versions.DIST)
    assert wheel.parent == versions.DIST
    assert keys == [list(libraries.SUPPORTED)]


def test_a_library_takes_its_place_when_it_was_checked_and_the_others_stay(
    built: Path, monkeypatch: pytest.MonkeyPatch
):
    def compile_library(python: str, sources: Path, folder: Path) -> libraries.Library:
        write_library(folder, "2.16", "new sources")
        return libraries.paths_in(folder, "2.16")

    def refuse(library: Path, python: Path) -> None:
        raise SystemExit("undefined symbols")

    monkeypatch.setenv("CXX", "")  # make_libraries() sets it.
    monkeypatch.setattr(versions, "compiler_for", lambda processor: "g++")
    monkeypatch.setattr(versions, "environment_for", lambda *_: contextlib.nullcontext(Path()))
    monkeypatch.setattr(versions.build, "compile_library", compile_library)
    monkeypatch.setattr(versions, "check_symbols", refuse)
    library = libraries.paths_in(built / "aarch64", "2.16")
    with pytest.raises(SystemExit, match="undefined symbols"):
        versions.make_libraries("aarch64", ["2.16"])
    assert library.info()["sources"] == libraries.digest_of(ROOT)
    monkeypatch.setattr(versions, "check_symbols", lambda *_: None)
    versions.make_libraries("aarch64", ["2.16"])
    assert library.info()["sources"] == "new sources"
    assert libraries.keys_in(built / "aarch64") == list(libraries.SUPPORTED)


def test_tools_for_aarch64_say_why_they_cannot_be_had(tmp_path, monkeypatch):
    monkeypatch.setattr(aarch64, "WORK", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(platform, "machine", lambda: "aarch64")
        with pytest.raises(aarch64.UnavailableError, match="runs on x86-64, and this is aarch64"):
            aarch64.Tools()
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'E: there is no network' >&2\nexit 100\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    with pytest.raises(
        aarch64.UnavailableError, match=r"unpack\.sh failed: E: there is no network"
    ):
        aarch64.Tools()
    assert not (tmp_path / "programs" / "ready").exists()
