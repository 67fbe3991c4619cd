"""Which modules belong to the program, and get TensorFlow 1."""

from __future__ import annotations

import os
import sys
import types
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from condacc.run import parse
from tests.compat.processes import run
from tests.processes.forked_python import forked_python

LEGACY = "import tensorflow as tf\nx = tf.placeholder\n"


@pytest.fixture
def is_found(tmp_path):
    """Whether the module at a path below a folder belongs to the program in the folder bin."""
    from tf_condacc.compat._runner.extent import Extent
    from tf_condacc.compat._runner.sources import ProgramFinder

    def is_found(path, source=LEGACY, *, folder="bin", name=None, **options):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        options = {key: tuple(values) for key, values in options.items()}
        finder = ProgramFinder(Extent(str(tmp_path / folder), **options))
        return finder.find_spec(name or file.stem, [str(file.parent)]) is not None

    return is_found


def test_modules_below_the_folder_of_the_program_belong_to_it(is_found):
    assert is_found("bin/model.py")
    assert is_found("bin/nets/deep/model.py")
    assert not is_found("bin/numbers_only.py", "import numpy\n")


def test_modules_elsewhere_belong_to_the_program_if_they_are_not_installed(is_found):
    assert is_found("lib/model.py")
    assert not is_found("lib/python3/site-packages/model.py")
    assert not is_found("lib/python3/dist-packages/model.py")


def test_installed_packages_do_not_belong_to_the_program(is_found, monkeypatch, tmp_path):
    assert not is_found("bin/.venv/lib/python3/site-packages/slim/nets.py")
    python = {name: str(tmp_path / "bin/python") for name in ("stdlib", "platstdlib")}
    packages = {name: str(tmp_path / "packages") for name in ("purelib", "platlib")}
    monkeypatch.setattr("sysconfig.get_paths", lambda: python | packages)
    assert not is_found("bin/python/module.py")
    assert not is_found("packages/module.py")
    assert not is_found("packages/module.py", folder=".")
    assert is_found("bin/other/module.py")


@pytest.mark.parametrize(
    "statement",
    [
        "import tensorflow.compat.v1 as tf",
        "from tensorflow.compat import v1 as tf",
        "def f():\n    from tensorflow.compat.v1 import flags",
    ],
)
def test_modules_for_version_2_keep_it_outside_of_the_folders_of_the_program(is_found, statement):
    source = f"{LEGACY}{statement}\n"
    assert not is_found("lib/model.py", source)
    assert is_found("bin/model.py", source)


@pytest.mark.parametrize("source", ["from tensorflow.keras import layers", "import keras.layers"])
def test_a_module_that_imports_keras_is_of_the_program(is_found, source):
    assert is_found("lib/model.py", source)


def test_editable_installations_count_as_installed(is_found, monkeypatch, tmp_path):
    packages = tmp_path / "site"
    packages.mkdir()
    (packages / "own.pth").write_text(f"# a path\nimport os\n\n{tmp_path / 'project'}\n../other\n")
    monkeypatch.setattr("site.getsitepackages", lambda: [str(packages)])
    assert not is_found("project/model.py")
    assert not is_found("other/model.py")
    assert is_found("project/model.py", folder="project")
    assert is_found("third/model.py")


@pytest.fixture
def editable(monkeypatch, tmp_path):
    """A finder like that of an editable installation of the package ``own_package``."""

    def find_spec(name, path=None, target=None):
        found = PathFinder.find_spec(name, [str(tmp_path / "project")])
        return found if name == "own_package" else None

    finder = types.SimpleNamespace(find_spec=find_spec, __module__="__editable___own_1_0_finder")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "own_package.py").write_text(LEGACY)


@pytest.mark.usefixtures("editable")
def test_editable_installations_with_a_finder_count_as_installed(is_found, tmp_path):
    assert not is_found("bin/unused.py", name="own_package")
    assert is_found("bin/unused.py", name="own_package", also=["own_package"])
    assert is_found("bin/unused.py", name="own_package", roots=[str(tmp_path / "project")])


def test_folders_and_packages_are_named_by_options(is_found, tmp_path):
    for path, name in (("lib/model.py", "model"), ("site-packages/nets/deep.py", "nets.deep")):
        package = name.partition(".")[0]
        assert is_found(path, name=name, also=[package])
        assert not is_found(path, name=name, also=["mod", "net"], excluded=[package])
        assert not is_found(path, name=name, also=[package], excluded=[package])
    assert not is_found("bin/model.py", excluded=["model"])
    source = f"{LEGACY}import tensorflow.compat.v1"
    assert is_found("lib/model.py", source, roots=["/nowhere", str(tmp_path / "lib")])
    assert not is_found("lib/site-packages/model.py", roots=[str(tmp_path / "lib")])
    assert is_found("site-packages/mine/model.py", roots=[str(tmp_path / "site-packages/mine")])


def test_options_may_be_repeated(tmp_path, capsys):
    (tmp_path / "other").mkdir()
    options = ["--root", str(tmp_path), f"--root={tmp_path / 'other'}", "--also", "a", "--also=b"]
    parsed = parse([*options, "--not", "c", "--quiet", __file__, "--root", "nowhere"])
    assert parsed.roots == [os.path.realpath(tmp_path), os.path.realpath(tmp_path / "other")]
    assert (parsed.also, parsed.excluded, parsed.quiet) == (["a", "b"], ["c"], True)
    assert parsed.arguments == ["--root", "nowhere"]
    for wrong, message in (
        (["--also"], "expected one argument"),
        (["--root", "x"], "no such folder: x"),
    ):
        with pytest.raises(SystemExit, match="2"):
            parse(wrong)
        assert message in capsys.readouterr().err


def _project(folder: Path) -> Path:
    """Makes a project whose script in bin imports a package beside bin, also in a new process."""
    files = {
        "bin/train.py": "import os, sys\n"
        "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))\n"
        "import multiprocessing\n"
        "from lib import model\n"
        "if __name__ == '__main__':\n"
        "    print(model.make().shape)\n"
        "if __name__ == '__main__' and sys.argv[1:] == ['spawn']:\n"
        "    process = multiprocessing.get_context('spawn').Process(target=model.show)\n"
        "    process.start(), process.join()\n"
        "if __name__ == '__main__':\n"
        "    import installed.nets.deep\n",
        "lib/__init__.py": "",
        "lib/model.py": "import tensorflow as tf\n\n"
        "def make():\n    return tf.placeholder(tf.float32, [1], name='x')\n\n"
        "def show():\n    print('spawned', make().name, flush=True)\n",
        "site-packages/installed/__init__.py": "",
        "site-packages/installed/nets/__init__.py": "",
        "site-packages/installed/nets/deep.py": "import tensorflow as tf\ntf.train.Saver\n"
        "print('deep')\n",
    }
    for path, source in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(source)
    return folder / "bin" / "train.py"


@pytest.mark.programs
def test_a_script_in_bin_runs_with_its_package_and_a_library_needs_also(tmp_path, monkeypatch):
    script = _project(tmp_path)
    code = "import sys; sys.path.append(sys.argv.pop(1)); from condacc.__main__ import main; main()"
    command = (*forked_python(), "-c", code, tmp_path / "site-packages", "run", "--quiet")
    without = run(*command, script, "spawn")
    assert without.stdout.splitlines() == ["(1,)", "spawned x:0"], without.stderr[-2000:]
    assert without.stderr.splitlines()[-1] == (
        "condacc run: the module installed.nets.deep is given TensorFlow 2, which has no "
        "tf.train.Saver, because it does not belong to the program. If it is for TensorFlow 1, "
        "run it with --also installed"
    )
    assert run(*command, "--also", "installed", script).stdout.splitlines()[-1] == "deep"
    excluded = run(*command, "--not", "lib", script)
    assert excluded.stderr.splitlines()[-1].endswith("run it without --not lib")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("lib.nets.deep", "lib/nets/deep.py"),
        ("lib.nets", "lib/nets/__init__.py"),
        ("one", "one.py"),
    ],
)
def test_what_to_do_about_a_module_that_is_not_of_the_program_names_its_folder(
    name, file, tmp_path
):
    from tf_condacc.compat._runner.extent import Extent

    text = Extent("/nowhere").how_to_add(name, str(tmp_path / file))
    assert text == f"run it with --root {os.path.realpath(tmp_path)}, or with -m in that folder"
