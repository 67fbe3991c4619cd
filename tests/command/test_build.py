"""Tests of ``condacc build``, with a stand-in for TensorFlow's kernels: a source of one line."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from condacc import build, libraries

# A source with the include path of a real one, and TensorFlow's headers.
_SOURCE = """
#include "cc/number.h"
#include "tensorflow/core/public/version.h"
extern "C" int number() { return kNumber + TF_GRAPH_DEF_VERSION_MIN_CONSUMER; }
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources" / "cc" / "room"
    folder.mkdir(parents=True)
    (folder / "number.cc").write_text(_SOURCE)
    (folder / "left_out.cu.cc").write_text("#error CUDA is left out")
    (folder.parent / "number.h").write_text("const int kNumber = 42;\n")
    return tmp_path / "sources"


@pytest.fixture
def lines() -> list[str]:
    return []


def test_library_is_built_for_the_installed_tensorflow(sources, lines, tmp_path):
    library = build.compile_library(sys.executable, sources, tmp_path / "new", lines.append)
    assert library == libraries.paths_in(tmp_path / "new", libraries.key_of(tf.__version__))
    assert ctypes.CDLL(str(library.file)).number() == 42
    info = library.info()
    assert (info["tensorflow"], info["cuda"]) == (tf.__version__, None)
    assert "[1/1] cc/room/number.cc" in lines
    assert sorted(path.name for path in library.file.parent.iterdir()) == sorted(
        path.name for path in library
    )


def test_an_error_of_the_compiler_leaves_the_former_library(sources, lines, tmp_path):
    library = build.compile_library(sys.executable, sources, tmp_path, lines.append)
    before = library.file.read_bytes()
    (sources / "cc" / "number.h").write_text("const int kNumber = missing;\n")
    with pytest.raises(build.BuildError, match="missing. was not declared"):
        build.compile_library(sys.executable, sources, tmp_path, lines.append)
    assert library.file.read_bytes() == before


def test_a_missing_compiler_is_one_sentence(monkeypatch, sources, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match=r"^there is no C\+\+ compiler no-such-compiler: "):
        build.compile_library(sys.executable, sources, tmp_path)


def test_an_old_compiler_is_refused_before_anything_is_compiled(monkeypatch, sources, tmp_path):
    old = tmp_path / "old-g++"
    old.write_text("#!/bin/sh\ncase $1 in -dump*) echo 4.8;; *) exit 1;; esac\n")
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(old))
    with pytest.raises(build.BuildError, match=r"does not compile C\+\+17: install g\+\+ 9"):
        build.compile_library(sys.executable, sources, tmp_path)


def test_a_cached_library_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert libraries.find("2.99.0") is None
    folder = libraries.cache_folder()
    assert folder.is_relative_to(tmp_path)
    folder.mkdir(parents=True)
    library = libraries.paths_in(folder, "2.99")
    library.file.touch()
    assert libraries.find("2.99.0") is None  # It has no description yet.
    library.info_file.touch()
    assert libraries.find("2.99.0") == library


def test_command_removes_a_library_that_cannot_be_imported(monkeypatch, sources, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tf_condacc.py").write_text("raise ImportError('undefined symbol: x')\n")
    monkeypatch.setattr(build, "sources_folder", lambda: sources)
    monkeypatch.setattr(libraries, "find", lambda tensorflow: None)
    assert build.main([]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("condacc build: the new library cannot be imported: ")
    assert said.endswith("undefined symbol: x")
    assert os.listdir(libraries.cache_folder()) == []


def test_command_builds_nothing_if_there_is_a_library(monkeypatch, capsys):
    monkeypatch.setattr(build, "compile_library", None)
    assert build.main([]) == 0
    assert f"There is a library for TensorFlow {tf.__version__}: " in capsys.readouterr().out
