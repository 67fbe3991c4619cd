"""Tests of files: which are found, how they are read and written, and which are skipped."""

from __future__ import annotations

import codecs
import os
import stat
import sys
from pathlib import Path

import pytest

from condacc.migrate import _command as command

TEXT = "import tensorflow as tf\n# Ü\nprint(tf.ConditionalAccumulator, tf)\n"
EXPECTED = TEXT.replace("as tf\n", "as tf\nimport tf_condacc\n").replace("tf.C", "tf_condacc.C")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, text=TEXT):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "encode",
    [
        str.encode,
        lambda text: codecs.BOM_UTF8 + text.encode(),
        lambda text: f"# -*- coding: latin-1 -*-\n{text}".encode("latin-1"),
        lambda text: text.replace("\n", "\r\n").encode(),
    ],
    ids=["UTF-8", "byte order mark", "Latin-1", "CRLF"],
)
def test_the_encoding_of_a_file_is_kept(encode):
    path = write("a.py", encode(TEXT))
    assert command.main(["--write", "a.py"]) == 0
    assert path.read_bytes() == encode(EXPECTED)


def test_a_file_is_replaced_with_its_mode_through_a_link():
    path = write("real/a.py")
    path.chmod(0o751)
    before = path.stat().st_ino
    Path("link.py").symlink_to(path)
    assert command.main(["--write", "link.py", "real"]) == 0
    assert Path("link.py").is_symlink()
    assert path.read_text() == EXPECTED
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert path.stat().st_ino != before
    assert os.listdir("real") == ["a.py"]


def test_a_file_without_changes_is_not_touched():
    path = write("a.py", EXPECTED)
    os.utime(path, ns=(1, 1))
    assert command.main(["--write", "a.py"]) == 0
    assert path.stat().st_mtime_ns == 1


def test_a_write_that_fails_leaves_the_file_as_it_was(monkeypatch, capsys):
    path = write("real/a.py")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert command.main(["--write", "real"]) == 123
    assert "real/a.py: skipped: it could not be written: No space" in capsys.readouterr().out
    assert path.read_text() == TEXT
    assert os.listdir("real") == ["a.py"]


def test_folders_are_searched_except_for_hidden_ones_environments_and_links():
    kept = [write("a.py"), write("sub/b.py"), write("sub/deep/c.py")]
    left_out = [
        write(".hidden/a.py"),
        write("node_modules/a.py"),
        write("env/lib/a.py"),
        write("lib/site-packages/a.py"),
        write("sub/notes.txt"),
    ]
    write("env/pyvenv.cfg", "")
    Path("sub/loop").symlink_to(Path("sub").resolve())
    Path("sub/link.py").symlink_to(Path(".hidden/a.py").resolve())
    assert command.main(["--write", ".", "sub", "a.py"]) == 0
    assert {path.read_text() for path in kept} == {EXPECTED}
    assert {path.read_text() for path in left_out} == {TEXT}
    assert command.main(["--write", ".hidden", "sub/notes.txt"]) == 0
    assert Path(".hidden/a.py").read_text() == Path("sub/notes.txt").read_text() == EXPECTED


# Python reports a source in UTF-16 with one of these messages.
NO_UTF_16 = (
    "invalid or missing encoding"
    if sys.version_info < (3, 14)
    else "source code cannot contain null bytes"
)
SKIPPED = {
    "Python 2": (TEXT + "print 'x'\n", "it is not valid Python: Missing parentheses"),
    "Python 2, with advice": (TEXT + "print 'x'\n", "; programs must be Python 3: convert it, for"),
    "mixed tabs": (
        TEXT + "if 1:\n        x = 1\n\ty = 2\n",
        "of `expand -t 8 ./bad.py`",
    ),
    "no UTF-8": (TEXT.encode("latin-1"), "it is not utf-8"),
    "no UTF-8 at once": (b"# \xff\n" + TEXT.encode(), "invalid or missing encoding"),
    "an unknown encoding": ("# coding: klingon\n" + TEXT, "unknown encoding: klingon"),
    "a null byte": (TEXT + "\0", "null bytes"),
    "UTF-16": (TEXT.encode("utf-16"), f"it is not valid Python: {NO_UTF_16}"),
}


@pytest.mark.parametrize("kind", SKIPPED)
def test_a_file_that_cannot_be_parsed_is_skipped_and_the_others_are_written(kind, capsys):
    text, message = SKIPPED[kind]
    bad, good = write("bad.py", text), write("good.py")
    before = bad.read_bytes()
    assert command.main(["--write", "."]) == 123
    assert bad.read_bytes() == before
    assert good.read_text() == EXPECTED
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "skipped" in line]
    assert line.startswith("./bad.py: skipped: ")
    assert message in line


def test_a_file_whose_name_is_no_text_is_reported(capsys):
    Path(os.fsdecode(b"\xff.py")).write_text(TEXT)
    assert command.main(["--diff", "."]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("--- ./\\udcff.py\n")
    assert "./\\udcff.py:3:7: tf.ConditionalAccumulator -> " in output.err


def test_a_broken_link_and_a_pipe_are_skipped(capsys):
    Path("link.py").symlink_to("nowhere.py")
    os.mkfifo("pipe.py")
    assert command.main(["--write", "link.py", "pipe.py"]) == 123
    assert capsys.readouterr().out.count("it is not a regular file") == 2
    assert command.main(["--write", "."]) == 0


def test_what_cannot_be_read_is_skipped(monkeypatch, capsys):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    def scan(path, scan=os.scandir):
        return refuse(path) if path == "./folder" else scan(path)

    write("a.py")
    write("folder/b.py")
    # Permissions are not enough, because root can read everything.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(os, "scandir", scan)
    assert command.main(["--write", "."]) == 123
    lines = [f"./{name}: skipped: Permission denied" for name in ("folder", "a.py")]
    assert capsys.readouterr().out.splitlines() == lines
