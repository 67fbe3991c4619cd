"""The command ``condacc`` where neither TensorFlow nor tf_condacc can be imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import condacc
from condacc import info, libraries, versions
from condacc.__main__ import main
from tests.command.processes import ROOT, Run, runner
from tests.support.waiting import run_program

# Imports all modules of the package, and refuses all others.
_IMPORT_ALL = """
import importlib, pkgutil, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "tf_condacc"):
            raise SystemExit(f"{name} is imported")

sys.meta_path.insert(0, Refused())
import condacc
for module in pkgutil.walk_packages(condacc.__path__, "condacc."):
    importlib.import_module(module.name)
    print(module.name)
"""
# Prints at the end the modules that were imported.
_PRINT_IMPORTS = """
import atexit
before = set(sys.modules)
atexit.register(lambda: print(*(set(sys.modules) - before), file=sys.stderr))
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Returns a function that runs the command where importing TensorFlow ends the process."""
    packages = "('tensorflow', 'tf_condacc')"
    return runner(tmp_path, f"name.partition('.')[0] in {packages}", "raise SystemExit(name)")


def test_no_module_imports_tensorflow_or_the_package_of_ops():
    ended = run_program([sys.executable, "-c", _IMPORT_ALL], cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    assert {"condacc.__main__", "condacc.liveness", "condacc.run"} < set(ended.stdout.split())


@pytest.mark.parametrize("command", ["", "run", "launch", "migrate", "info"])
def test_help_imports_little_besides_this_package(tmp_path: Path, command: str):
    ended = runner(tmp_path, "False", "pass", _PRINT_IMPORTS)(*command.split(), "--help")
    assert ended.returncode == 0
    assert ended.stdout.startswith(f"usage: condacc {command or 'COMMAND'}")
    imported = ended.stderr.split()
    others = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert others <= {"condacc", "__mp_main__"}  # The second is an alias of multiprocessing.
    assert len(imported) < 200  # TensorFlow has thousands.


def test_without_a_command_it_lists_them_with_a_line_each(run: Run):
    ended = run()
    assert (ended.returncode, ended.stderr) == (2, "")
    lines = [line.split() for line in ended.stdout.splitlines() if line.startswith("  ")]
    assert {"run", "launch", "migrate", "build", "info"} <= {line[0] for line in lines}


@pytest.mark.parametrize("command", ["", "--help", "run --help", "launch --help", "info"])
def test_a_command_ends_silently_if_nobody_reads_its_output(tmp_path: Path, command: str):
    reader, writer = os.pipe()
    os.close(reader)
    ended = runner(tmp_path, "False", "pass")(*command.split(), stdout=writer)
    os.close(writer)
    assert ended.stderr == ""  # argparse ignores errors when it prints the help.
    assert ended.returncode == 141 or command != "info"


def test_the_version_is_that_of_the_package(run: Run):
    assert run("--version").stdout == f"tf_condacc {condacc.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-command"], "invalid choice: 'no-command' (choose from"),
        (["--no-option"], "unrecognized arguments: --no-option"),
        (["info", "x"], "condacc info: error: unrecognized arguments: x"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["condacc", *arguments])
    monkeypatch.setattr("condacc.__main__.exit_on_interrupt", lambda: None)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert message in capsys.readouterr().err


def test_the_console_script_is_this_command():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '\n[project.scripts]\ncondacc = "condacc.__main__:main"\n' in project


def test_info_names_all_versions_without_importing_tensorflow(tmp_path: Path):
    check = "'tensorflow' in sys.modules and print('imported', file=sys.stderr)"
    at_end = f"import atexit; atexit.register(lambda: {check})"
    ended = runner(tmp_path, "False", "pass", at_end)("info")
    assert (ended.returncode, ended.stderr) == (0, "")
    found = dict(line.split(": ", 1) for line in ended.stdout.splitlines())
    assert found["tf_condacc"].strip() == condacc.__version__
    assert libraries.key_of(found["tensorflow"].strip()) == versions.release()
    names = {"library", "compiler", "CUDA", "Python", "keras", "numpy", "platform"}
    assert names < set(found)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of an empty package tf_condacc, which takes the place of the real one."""
    folder = tmp_path / "tf_condacc"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "tf_condacc", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_info_says_that_the_library_is_not_built(package: Path):
    assert info.report()["library"] == f"not built, in {package}"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.20.0", "built for TensorFlow 2.20.1, in {}"),
        ("2.21.0", "for TensorFlow 2.20, in {}; none for TensorFlow 2.21.0"),
    ],
)
def test_info_says_for_which_tensorflow_the_library_is_built(
    package, version, expected, monkeypatch
):
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    library = libraries.paths_in(package, "2.20")
    library.file.touch()
    build = {"tensorflow": "2.20.1", "compiler": "g++ 1", "cuda": None, "cuda_archs": []}
    library.info_file.write_text(json.dumps(build))
    report = info.report()
    assert report["library"] == expected.format(package)
    assert report.get("compiler", "g++ 1") == "g++ 1"


@pytest.fixture
def packages(monkeypatch) -> dict[str, str]:
    """Returns the installed packages and their versions, of which there are none yet."""
    installed: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr(info, "installed_tensorflow", lambda: None)
    return installed


def test_keras_may_be_installed_as_its_nightly_package(packages):
    assert info.report()["keras"] == "not installed"
    assert not versions.brings_keras2()
    packages["keras-nightly"] = "3.16.0.dev2026102704"
    assert info.report()["keras"] == "3.16.0.dev2026102704 (keras-nightly)"
    assert not versions.brings_keras2() and not versions.sums_activity_losses()
    packages["keras-nightly"] = "3.13.0.dev2026010203"
    assert versions.sums_activity_losses()
    packages["keras"] = "2.15.0"
    assert info.report()["keras"] == "2.15.0"
    assert versions.brings_keras2()


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("2.16", "pip install 'tf-keras==2.16.*'"),
        ("2.99.0rc0", f"pip install --no-deps 'tf-keras=={libraries.SUPPORTED[-1]}.*'"),
    ],
)
def test_tf_keras_does_not_replace_a_tensorflow_without_one(release, command, monkeypatch):
    monkeypatch.setattr(versions, "release", lambda: release)
    assert versions.install_tf_keras() == command


def test_info_says_that_tensorflow_is_absent(tmp_path):
    # Python without the installed packages, but with a copy of this one.
    shutil.copytree(Path(condacc.__file__).parent, tmp_path / "condacc")
    code = "import sys; sys.path.append(sys.argv.pop(1)); from condacc.info import main; main([])"
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "tensorflow:           not installed\n" in ended.stdout
