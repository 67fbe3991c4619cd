"""Tests of ``condacc build``, with a stand-in for TensorFlow's kernels: a source of one line."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf

from condacc import build, libraries
from tests.command.processes import ROOT
from tests.processes.launched import wait_until_gone
from tests.support.waiting import PATIENCE_SECS, until

# A source with the include path of a real one, and TensorFlow's headers.
_SOURCE = """
#include "cc/number.h"
#include "tensorflow/core/public/version.h"
extern "C" int number() { return kNumber + TF_GRAPH_DEF_VERSION_MIN_CONSUMER; }
"""
# More bytes than a small file system has.
_LARGE_SOURCE = 'extern "C" { char large[1 << 20] = {1}; }\n'
_SMALL = "256k"
GXX = shutil.which("g++")
# Runs `condacc build --force` with the sources, the target and the Python that its arguments name.
_BUILD = """
import sys
from pathlib import Path
from condacc import _times, build, libraries
_times.current = _times.Times(compiler_secs=600)
libraries.sources_folder = lambda: Path(sys.argv[1])
libraries.is_source_tree = lambda package: False
sys.executable = sys.argv[2]
library = libraries.paths_in(libraries.cache_folder(), sys.argv[3])
library.file.parent.mkdir(parents=True)
library.file.write_text("the former library")
try:
    sys.exit(build.main(["--force"]))
finally:
    files = [file.name for file in library.file.parent.iterdir()]
    print(files == [library.file.name] and library.file.read_text())
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources" / "cc" / "room"
    folder.mkdir(parents=True)
    (folder / "number.cc").write_text(_SOURCE)
    (folder / "left_out.cu.cc").write_text("#error CUDA is left out")
    (folder.parent / "number.h").write_text("const int kNumber = 42;\n")
    for name in ("options.bzl", "supported_compiler.h"):
        shutil.copy(libraries.sources_folder() / "cc" / name, folder.parent)
    return tmp_path / "sources"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns a stand-in for the Python that has TensorFlow, which answers at once."""
    answer = [tf.__version__, tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]
    program = tmp_path_factory.mktemp("python") / "python"
    return executable(program, f"cat <<'END'\n{json.dumps(answer)}\nEND")


def executable(file: Path, script: str) -> str:
    """Writes a shell script, and returns its path."""
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def key() -> str:
    return libraries.key_of(tf.__version__)


def says_that_it_started(file: Path) -> str:
    """Returns a command of a shell that writes its process id into a file, all at once."""
    return f"echo $$ >{file}.new; mv {file}.new {file}"


@pytest.mark.install
def test_library_is_built_for_the_installed_tensorflow(sources, lines, tmp_path):
    library = build.compile_library(sys.executable, sources, tmp_path / "new", lines.append)
    assert library == libraries.paths_in(tmp_path / "new", key())
    assert ctypes.CDLL(str(library.file)).number() == 42
    info = library.info()
    assert (info["tensorflow"], info["cuda"]) == (tf.__version__, None)
    assert info["sources"] == libraries.digest_of(sources)
    assert "compiling 1 files in 1 parts, 1 at once" in lines
    assert any(line.startswith("[1/1] cc/room (") for line in lines)
    assert sorted(path.name for path in library.file.parent.iterdir()) == sorted(
        path.name for path in library
    )


def test_a_folder_of_cc_is_one_translation_unit(python, sources, tmp_path):
    (sources / "cc" / "room" / "a.cc").write_text("namespace { constexpr int kNumber2 = 1; }\n")
    in_room = 'extern "C" int number2() { return kNumber2; }\n'
    (sources / "cc" / "room" / "deep").mkdir()
    (sources / "cc" / "room" / "deep" / "b.cc").write_text(in_room)
    library = build.compile_library(python, sources, tmp_path / "new", print)
    assert ctypes.CDLL(str(library.file)).number2() == 1


@pytest.mark.parametrize("has_memfd", [True, False])  # Pythons of conda and uv have none.
def test_an_error_of_the_compiler_leaves_the_former_library(
    monkeypatch, python, sources, lines, tmp_path, has_memfd
):
    if not has_memfd:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    library = build.compile_library(python, sources, tmp_path, lines.append)
    before = library.file.read_bytes()
    (sources / "cc" / "number.h").write_text("const int kNumber = missing;\n")
    with pytest.raises(build.BuildError, match="missing. was not declared"):
        build.compile_library(python, sources, tmp_path, lines.append)
    assert library.file.read_bytes() == before


def test_the_first_error_ends_the_other_compilers(monkeypatch, python, sources, tmp_path):
    (sources / "cc" / "slow").mkdir()
    (sources / "cc" / "slow" / "wait.cc").touch()
    (sources / "cc" / "room" / "number.cc").write_text("#error Stop here.\n")
    started = tmp_path / "started"
    waits = f"*/slow.o) {says_that_it_started(started)}; sleep 999;;"
    fails = f'*/room.o) while [ ! -e {started} ]; do :; done; exec {GXX} "$@";;'
    script = f'case $* in {waits} {fails} *) exec {GXX} "$@";; esac'
    monkeypatch.setenv("CXX", executable(tmp_path / "g++", script))
    monkeypatch.setattr(build, "num_jobs", lambda: 2)
    with pytest.raises(build.BuildError, match="Stop here"):
        build.compile_library(python, sources, tmp_path / "new", print)
    wait_until_gone(int(started.read_text()))


def test_the_current_folder_does_not_matter(monkeypatch, python, sources, tmp_path):
    other = tmp_path / "other" / "cc" / "room"
    other.mkdir(parents=True)
    for file in (other / "number.cc", other.parent / "number.h"):
        file.write_text("#error This is another tree.\n")
    monkeypatch.chdir(tmp_path / "other")
    library = build.compile_library(python, sources, tmp_path / "new", print)
    assert ctypes.CDLL(str(library.file)).number() == 42


OLD = r"is too old: install g\+\+ 11 or clang 14"
NO_TENSORFLOW = "echo 'no module named tensorflow' >&2; exit 1"


@pytest.mark.parametrize(
    ("compiler", "answer", "message"),
    [
        ("no-such-compiler", None, r"^C\+\+ compiler not found: no-such-compiler; "),
        (f'exec {GXX} -w -D__GNUC__=10 "$@"', None, OLD),
        (f'exec {GXX} -w -D__clang__ -D__clang_major__=13 "$@"', None, OLD),
        (None, "echo '[\"2.9.3\", [], []]'", r"2\.9\.3, but the oldest .* is 2\.15"),
        (None, NO_TENSORFLOW, "TensorFlow cannot be imported in .*pip install "),
        (None, None, "make it writable$"),
    ],
    ids=["no compiler", "old g++", "old clang", "old TensorFlow", "no TensorFlow", "no folder"],
)
def test_what_cannot_be_built_is_refused_before_anything_is_compiled(
    monkeypatch, python, sources, tmp_path, compiler, answer, message
):
    (tmp_path / "file").touch()
    if compiler is not None:
        name = executable(tmp_path / "compiler", compiler) if " " in compiler else compiler
        monkeypatch.setenv("CXX", name)
    asked = executable(tmp_path / "answer", answer) if answer is not None else python
    with pytest.raises(build.BuildError, match=message):
        build.compile_library(asked, sources, tmp_path / "file" / "package", print)


@pytest.mark.install
def test_a_library_that_does_not_load_is_not_kept(sources, lines, tmp_path):
    library = libraries.paths_in(tmp_path, key())
    library.file.write_text("the former library")
    missing = 'extern "C" int missing();\nextern "C" int number() { return missing(); }\n'
    (sources / "cc" / "room" / "number.cc").write_text(missing)
    with pytest.raises(build.BuildError, match="does not load the new library: .* missing"):
        build.compile_library(sys.executable, sources, tmp_path, lines.append)
    assert library.file.read_text() == "the former library"


def test_without_a_folder_for_scratch_files_it_says_so(monkeypatch, python, sources, tmp_path):
    def fail(**options: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", fail)
    with pytest.raises(build.BuildError, match="no folder for temporary files: No usable"):
        build.compile_library(python, sources, tmp_path / "new", print)


def command(sources: Path, python: str) -> list[str]:
    """Returns a command that is ``condacc build --force`` with these sources and this Python.

    There is a former library. What is left of it is printed at the end.
    """
    return [sys.executable, "-c", _BUILD, str(sources), python, key()]


def in_small_file_system(folder: Path, words: list[str]) -> list[str]:
    """Returns a command that runs another one with a small file system at `folder`."""
    mount = f'mount -t tmpfs -o size={_SMALL} tmpfs "$0" && exec "$@"'
    within = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(folder)]
    tried = subprocess.run([*within, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"file systems cannot be mounted here: {tried.stderr.strip()}")
    return [*within, *words]


@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no command unshare")
@pytest.mark.parametrize("full", ["TMPDIR", "XDG_CACHE_HOME"])
def test_without_space_it_says_which_folder_is_full(python, sources, tmp_path, full):
    (sources / "cc" / "room" / "large.cc").write_text(_LARGE_SOURCE)
    folders = {name: tmp_path / name for name in ("TMPDIR", "XDG_CACHE_HOME")}
    for folder in folders.values():
        folder.mkdir()
    done = subprocess.run(
        in_small_file_system(folders[full], command(sources, python)),
        cwd=ROOT,
        env=os.environ | {name: str(folder) for name, folder in folders.items()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith("condacc build: ") and "No space left on device" in message
    assert "make room " in message and str(folders[full]) in message
    assert done.stdout == "the former library\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("output", ["room.o", "library.so"])
def test_an_interrupted_build_leaves_the_former_library_and_no_compiler(
    python, sources, tmp_path, output, number
):
    started, scratch = tmp_path / "started", tmp_path / "scratch"
    scratch.mkdir()
    # Like g++, it removes its temporary files if it is terminated.
    own = f"touch {scratch}/cc.s; trap 'rm {scratch}/cc.s; exit 1' TERM"
    waits = f"*{output}*) {own}; {says_that_it_started(started)}; sleep 999 & wait;;"
    compiler = executable(tmp_path / "g++", f'case $* in {waits} *) exec {GXX} "$@";; esac')
    folders = {"TMPDIR": str(scratch), "XDG_CACHE_HOME": str(tmp_path / "caches")}
    with subprocess.Popen(
        command(sources, python),
        cwd=ROOT,
        env=os.environ | folders | {"CXX": compiler},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(lambda: started.exists() or process.poll() is not None, "the compiler has started")
        process.send_signal(number)
        left, errors = process.communicate(timeout=PATIENCE_SECS)
    assert process.returncode == 128 + number
    if number == signal.SIGINT:
        assert errors.endswith("condacc build: interrupted; no library was changed\n")
    assert "Traceback" not in errors
    wait_until_gone(int(started.read_text()))
    assert list(scratch.iterdir()) == []
    assert left == "the former library\n"


def test_nothing_changes_if_one_of_the_files_cannot_be_copied(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "other")):
        build.replace((tmp_path / "new", tmp_path / "old"), (tmp_path / "no", tmp_path / "other"))
    assert (tmp_path / "old").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_the_reason_of_the_linker_is_in_the_message(python, sources, tmp_path):
    (sources / "cc" / "options.bzl").write_text('COMPILE = []\nOPTIMIZED = []\nLINK = ["-lnone"]\n')
    with pytest.raises(build.BuildError, match="cannot find -lnone"):
        build.compile_library(python, sources, tmp_path / "new", print)


@pytest.mark.parametrize(
    "available, limit, jobs", [(9 << 30, "max", 2), (9 << 30, str(3 << 30), 1), (1 << 30, "max", 1)]
)
def test_no_more_compilers_run_at_once_than_memory_allows(
    monkeypatch, tmp_path, available, limit, jobs
):
    (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(build, "_MEMORY_LIMITS", (tmp_path / "memory.max", tmp_path / "none"))
    monkeypatch.setattr(build, "_available_memory", lambda: available)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    assert build.num_jobs() == jobs


def test_pip_does_not_hide_the_installed_tensorflow(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/tmp/pip-build-env-x1/site")
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    assert not {"PYTHONPATH", "PYTHONNOUSERSITE"} & set(build.environment())
    monkeypatch.setenv("PYTHONPATH", "/opt/modules")
    assert build.environment()["PYTHONPATH"] == "/opt/modules"


@pytest.fixture
def cache(monkeypatch, tmp_path, sources) -> Path:
    """Returns the folder of the cache of an installed package, whose sources are `sources`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(libraries, "is_source_tree", lambda package: False)
    monkeypatch.setattr(libraries, "sources_folder", lambda: sources)
    assert libraries.cache_folder().is_relative_to(tmp_path)
    return libraries.cache_folder()


def test_a_library_in_the_cache_comes_before_that_of_the_package(cache, sources):
    of_package = libraries.find(tf.__version__)
    assert of_package is not None and libraries.find("2.99.0") is None
    cache.mkdir(parents=True)
    library = libraries.paths_in(cache, key())
    library.file.touch()
    assert libraries.find(tf.__version__) == of_package  # The other has no description yet.
    library.info_file.write_text(json.dumps({"sources": libraries.digest_of(sources)}))
    assert libraries.find(tf.__version__) == library


@pytest.mark.parametrize(
    "description", ["", "{}", '{"sources": "another"}'], ids=["empty", "of 0.2.0", "other sources"]
)
def test_a_library_of_other_sources_is_passed_over(cache, description):
    cache.mkdir(parents=True)
    library = libraries.paths_in(cache, key())
    library.file.touch()
    library.info_file.write_text(description)
    found = libraries.find(tf.__version__)
    assert found is not None and found != library


@pytest.mark.parametrize("is_own_current", [True, False])
def test_a_source_tree_takes_a_library_of_its_sources_wherever_it_lies(
    monkeypatch, tmp_path, sources, is_own_current
):
    digest = libraries.digest_of(sources)
    folders = [tmp_path / name for name in ("tree", "cache", "installed")]
    found = [libraries.paths_in(folder, key()) for folder in folders]
    digests = (digest if is_own_current else "older", "another", digest)
    for library, built_from in zip(found, digests, strict=True):
        library.file.parent.mkdir()
        library.file.touch()
        library.info_file.write_text(json.dumps({"sources": built_from}))
    tree, cache, installed = folders
    monkeypatch.setattr(libraries, "package_folder", lambda: tree)
    monkeypatch.setattr(libraries, "is_source_tree", lambda package: package == tree)
    monkeypatch.setattr(libraries, "sources_folder", lambda: sources)
    monkeypatch.setattr(libraries, "cache_folder", lambda: cache)
    monkeypatch.setattr(libraries, "_installed_folders", lambda: [installed])
    assert libraries.find(tf.__version__) == found[0 if is_own_current else 2]
    found[2].file.unlink()
    assert libraries.find(tf.__version__) == found[0]  # If need be, the outdated one.
    assert libraries.is_outdated(found[0]) == (not is_own_current)


def test_every_source_counts_for_the_digest(sources):
    digests = {libraries.digest_of(sources)}
    for name in ("number.h", "room/number.cc", "options.bzl"):
        with (sources / "cc" / name).open("a") as file:
            file.write("\n")
        digests.add(libraries.digest_of(sources))
    (sources / "cc" / "room" / "number.cc").rename(sources / "cc" / "room" / "other.cc")
    digests.add(libraries.digest_of(sources))
    assert len(digests) == 5


def test_without_a_home_the_library_of_the_package_is_found(cache, monkeypatch):
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(libraries, "cache_folder", fail)
    assert libraries.find(tf.__version__) is not None


def test_command_builds_into_the_cache_only_if_it_has_to(
    monkeypatch, cache, python, sources, capsys
):
    monkeypatch.setattr(sys, "executable", python)
    assert build.main([]) == 0
    assert (
        f"There is already a library for TensorFlow {tf.__version__}: " in capsys.readouterr().out
    )
    assert build.main(["--force"]) == 0
    built = libraries.paths_in(cache, key())
    assert capsys.readouterr().out == f"Built {built.file}\n"
    assert libraries.find(tf.__version__) == built


@pytest.mark.parametrize(("version", "is_newer"), [("2.99.0-rc0", True), ("2.21.7", False)])
def test_an_error_of_the_compiler_says_whether_tensorflow_is_newer_than_the_sources(
    version, is_newer, monkeypatch, sources, lines, tmp_path
):
    monkeypatch.setattr(build, "_PRINT_TENSORFLOW", f"print('[\"{version}\", [], []]')")
    (sources / "cc" / "room" / "number.cc").write_text("const int kNumber = missing;\n")
    with pytest.raises(build.BuildError, match="missing. was not declared") as caught:
        build.compile_library(sys.executable, sources, tmp_path, lines.append)
    newer = "TensorFlow 2.99.0-rc0 is newer than those that the sources were written for"
    assert (newer in str(caught.value)) == is_newer
    assert "\n" not in str(caught.value)
