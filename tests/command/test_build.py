"""Tests of ``condacc build``, with a stand-in for TensorFlow's kernels: a source of one line."""

from __future__ import annotations

import ctypes
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
    with pytest.raises(build.BuildError, match=r"does not compile C\+\+17 as g\+\+ 9"):
        build.compile_library(sys.executable, sources, tmp_path)


def test_a_library_that_does_not_load_is_not_kept(sources, lines, tmp_path):
    library = build.compile_library(sys.executable, sources, tmp_path, lines.append)
    before = library.file.read_bytes()
    missing = 'extern "C" int missing();\nextern "C" int number() { return missing(); }\n'
    (sources / "cc" / "room" / "number.cc").write_text(missing)
    with pytest.raises(build.BuildError, match="does not load the new library: .* missing"):
        build.compile_library(sys.executable, sources, tmp_path, lines.append)
    assert library.file.read_bytes() == before


def test_a_tensorflow_that_is_too_old_is_refused(monkeypatch, sources, tmp_path):
    old = "print('[\"2.9.3\", [], []]')"
    monkeypatch.setattr(build, "_PRINT_TENSORFLOW", old)
    with pytest.raises(build.BuildError, match=r"2\.9\.3, but the oldest .* is 2\.15"):
        build.compile_library(sys.executable, sources, tmp_path)


def test_a_folder_that_cannot_be_written_is_refused_before_the_build(sources, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(build.BuildError, match="name another folder for caches"):
        build.compile_library(sys.executable, sources, tmp_path / "file" / "cache")


def test_pip_does_not_hide_the_installed_tensorflow(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/tmp/pip-build-env-x1/site")
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    assert not {"PYTHONPATH", "PYTHONNOUSERSITE"} & set(build.environment())
    monkeypatch.setenv("PYTHONPATH", "/opt/modules")
    assert build.environment()["PYTHONPATH"] == "/opt/modules"


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    """Returns the folder of the cache of an installed package."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(libraries, "is_source_tree", lambda package: False)
    assert libraries.cache_folder().is_relative_to(tmp_path)
    return libraries.cache_folder()


def test_a_library_in_the_cache_comes_before_that_of_the_package(cache):
    of_package = libraries.find(tf.__version__)
    assert of_package is not None and libraries.find("2.99.0") is None
    cache.mkdir(parents=True)
    library = libraries.paths_in(cache, libraries.key_of(tf.__version__))
    library.file.touch()
    assert libraries.find(tf.__version__) == of_package  # The other has no description yet.
    library.info_file.touch()
    assert libraries.find(tf.__version__) == library


def test_without_a_home_the_library_of_the_package_is_found(cache, monkeypatch):
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(libraries, "cache_folder", fail)
    assert libraries.find(tf.__version__) is not None


def test_command_builds_into_the_cache_only_if_it_has_to(monkeypatch, cache, sources, capsys):
    monkeypatch.setattr(build, "sources_folder", lambda: sources)
    assert build.main([]) == 0
    assert f"There is a library for TensorFlow {tf.__version__}: " in capsys.readouterr().out
    assert build.main(["--force"]) == 0
    built = libraries.paths_in(cache, libraries.key_of(tf.__version__))
    assert capsys.readouterr().out == f"Built {built.file}\n"
    assert libraries.find(tf.__version__) == built
