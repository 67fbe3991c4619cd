"""Tests of an installation that follows README.md, in a clone and in a new environment.

An unpacked source distribution stands for the clone: it contains what building takes.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from condacc import libraries

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from condacc_bench import installed  # noqa: E402

pytestmark = pytest.mark.install

# Prints where the package came from, then uses it in each of TensorFlow's modes.
SMOKE = """
import tensorflow as tf
import tf_condacc
from tensorflow.compat import v1

print(tf_condacc.__file__)

def mean_of_two(accumulator):
    accumulator.apply_grad(tf.constant([1.0, 2.0]))
    accumulator.apply_grad(tf.constant([3.0, 6.0]))
    return accumulator.take_grad(2)

def new_accumulator(name):
    return tf_condacc.ConditionalAccumulator(tf.float32, shape=[2], shared_name=name)

assert mean_of_two(new_accumulator("eager")).numpy().tolist() == [2.0, 4.0]

in_function = new_accumulator("function")
assert tf.function(lambda: mean_of_two(in_function))().numpy().tolist() == [2.0, 4.0]

with tf.Graph().as_default(), v1.Session() as session:
    accumulator = new_accumulator("graph")
    gradient = v1.placeholder(tf.float32, [2])
    apply = accumulator.apply_grad(gradient)
    take = accumulator.take_grad(2)
    session.run(apply, {gradient: [1.0, 2.0]})
    session.run(apply, {gradient: [3.0, 6.0]})
    assert session.run(take).tolist() == [2.0, 4.0]
"""


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sdist")
    # In a copy, because setuptools leaves a folder of metadata beside its sources.
    tree, products = place / "tree", shutil.ignore_patterns("*.so", "_build_info-*.json")
    for name in ("cc", "condacc", "tests", "tf_condacc"):
        shutil.copytree(ROOT / name, tree / name, ignore=products)
    for file in filter(Path.is_file, ROOT.iterdir()):
        shutil.copyfile(file, tree / file.name)
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(place)!r})"
    result = run(sys.executable, "-c", build, cwd=tree)
    assert result.returncode == 0, result.stdout + result.stderr
    (built,) = place.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def clone(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("clone")
    shutil.unpack_archive(sdist, place)
    (tree,) = place.iterdir()
    return tree


@pytest.fixture(scope="module")
def packages(
    clone: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """Yields the site-packages of an environment in which the commands of README.md were run.

    TensorFlow and what it requires are installed already, in the Python that runs the tests, unless
    CONDACC_TEST_NEW_ENVIRONMENT is set.
    """
    is_new = bool(os.environ.get("CONDACC_TEST_NEW_ENVIRONMENT"))
    path = tmp_path_factory.mktemp("path")
    # Neither npm nor Bazel nor git is in this path.
    for name in ("g++", "as", "ld"):
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    is_long = any(item.get_closest_marker("long") for item in request.session.items)
    if not is_new and not is_long:
        # Optimizing takes a third of the compiler's time, so it is left to `make test-long` and to
        # new environments. The library that all other tests use is optimized, and
        # tests/build/test_build.py compares its options with those of pip.
        (path / "g++").unlink()
        (path / "g++").write_text(f'#!/bin/sh\nexec {shutil.which("g++")} "$@" -O0\n')
        (path / "g++").chmod(0o755)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=is_new)
        python = installed.python_of(Path(folder))
        place = f"lib/python{sysconfig.get_python_version()}/site-packages"
        if not is_new:
            (Path(folder) / place / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
            pip = python.with_name("pip")
            pip.write_text(f'#!/bin/sh\nexec {python} -m pip "$@"\n')
            pip.chmod(0o755)
        for command in readme_commands():
            result = run("/bin/bash", "-c", command, cwd=clone, PATH=f"{python.parent}:{path}")
            assert result.returncode == 0, result.stdout + result.stderr
        yield Path(folder) / place


def readme_commands() -> list[str]:
    """Returns the commands that install the package, for the TensorFlow of this Python."""
    commands = re.findall(r"^pip install .*$", readme(), re.MULTILINE)
    assert [command.split("#")[0].strip() for command in commands] == [
        'pip install "tensorflow==2.21.*"',
        'pip install ".[legacy]"',
    ]
    return [command.replace("2.21", libraries.key_of(tf.__version__)) for command in commands]


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def metadata(packages: Path, name: str) -> list[str]:
    """Returns the lines of a file of the metadata of the installed package."""
    (folder,) = packages.glob("tf_condacc-*.dist-info")
    return (folder / name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("hook", ["prepare_metadata_for_build_wheel", "build_wheel"])
def test_without_tensorflow_the_source_distribution_says_what_to_install(
    hook: str, clone: Path, tmp_path: Path
):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    build = f"from setuptools import build_meta; build_meta.{hook}({str(tmp_path)!r})"
    result = run(sys.executable, "-c", build, cwd=clone, CONDACC_PYTHON=str(python))
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"tf_condacc: there is no TensorFlow in {python}: install it there")
    assert "pip install 'tensorflow==2." in last


# The shell's `exit` keeps it from replacing itself by Python: it stands for uv, the parent process.
UV = "VIRTUAL_ENV={} sh -c 'VIRTUAL_ENV=. $0 \"$@\"; exit'"


@pytest.mark.parametrize(
    ("environment", "modules", "error"),
    [
        ("VIRTUAL_ENV={}", "modules", ""),
        ("CONDA_PREFIX={}", "modules", ""),
        (UV, "modules", ""),
        ("", "modules", "activate the environment that has it"),
        ("VIRTUAL_ENV={}", "pip-build-env-x", "install it there first, with `pip install"),
    ],
    ids=["virtual environment", "conda", "uv", "none", "pip"],
)
def test_a_tool_that_isolates_the_build_builds_for_the_activated_environment(
    environment: str, modules: str, error: str, clone: Path, packages: Path, tmp_path: Path
):
    venv.create(tmp_path / "venv", with_pip=False)  # The environment of the build.
    folder = tmp_path / modules
    folder.mkdir()
    for pattern in ("setuptools*", "_distutils_hack"):
        for found in Path(sysconfig.get_path("purelib")).glob(pattern):
            (folder / found.name).symlink_to(found)
    hook = (
        f"from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel('{tmp_path}')"
    )
    unset = "env -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDACC_PYTHON"
    python = installed.python_of(tmp_path / "venv")
    command = f"{unset} {environment.format(packages.parents[2])} {python} -c {shlex.quote(hook)}"
    result = run("/bin/sh", "-c", command, cwd=clone, PYTHONPATH=str(folder))
    if error:
        last = result.stderr.strip().splitlines()[-1]
        assert last.startswith(f"tf_condacc: there is no TensorFlow in {python}: {error}")
        return
    (described,) = tmp_path.glob("*.dist-info/METADATA")
    requirement = f"Requires-Dist: tensorflow=={libraries.key_of(tf.__version__)}.*\n"
    assert requirement in described.read_text(encoding="utf-8"), result.stderr


def test_wheel_is_for_any_python_3_on_this_platform(packages: Path):
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert f"Tag: py3-none-{platform}" in metadata(packages, "WHEEL")


def test_wheel_holds_one_library_and_the_sources(packages: Path):
    names = [line.split(",")[0] for line in metadata(packages, "RECORD")]
    key = libraries.key_of(tf.__version__)
    package = Path("tf_condacc")
    products = {str(file) for file in libraries.paths_in(package, key)}
    assert {name for name in names if name.endswith(".so")} <= products
    assert products | {"condacc/py.typed", "tf_condacc/py.typed"} <= set(names)
    sources = {name for name in names if name.startswith("tf_condacc/_sources/")}
    assert {Path(name).suffix for name in sources} == {".bzl", ".cc", ".h"}
    assert not [
        name for name in names if name.startswith(("tests/", "cc/", "benchmarks/", "examples/"))
    ]


def test_wheel_asks_for_the_tensorflow_it_was_built_for(packages: Path):
    requirements = [
        line.removeprefix("Requires-Dist: ")
        for line in metadata(packages, "METADATA")
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert requirements == [f"tensorflow=={libraries.key_of(tf.__version__)}.*", "numpy"]


def test_the_long_description_has_no_link_into_the_source_tree(packages: Path):
    text = "\n".join(metadata(packages, "METADATA"))
    description = text[text.index("# tf_condacc") :]
    links = re.findall(r"\]\(([^)]*)\)", description)
    assert [link for link in links if not link.startswith("https:")] == []
    assert "Getting started" in description and "![" not in description


def python_with(packages: Path) -> Path:
    return installed.python_of(packages.parents[2])


@pytest.mark.parametrize("place", ["clone", "elsewhere"])
def test_the_program_of_the_readme_prints_what_it_says(
    place: str, packages: Path, clone: Path, tmp_path: Path
):
    folder = clone if place == "clone" else tmp_path
    (program,) = re.findall(r"```python\n(.*?)```", readme(), re.DOTALL)
    (folder / "program.py").write_text(f"{program}\nprint(tf_condacc.__file__)")
    result = run(python_with(packages), "program.py", cwd=folder)
    assert result.returncode == 0, result.stderr
    printed, imported = result.stdout.splitlines()
    assert f"# {printed}\n" in program
    assert Path(imported).is_relative_to(clone if place == "clone" else packages)


def test_an_edited_clone_says_that_its_library_is_missing(packages: Path, clone: Path):
    source = clone / "cc" / "core" / "edited.h"
    source.touch()
    try:
        result = run(python_with(packages), "-c", "import tf_condacc", cwd=clone)
    finally:
        source.unlink()
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(
        f"ImportError: tf_condacc: the source tree {clone} has no native library"
    )
    assert f"({packages})" in last and "`python -m condacc build`" in last


def test_installed_package_works_in_each_mode_of_tensorflow(packages: Path, tmp_path: Path):
    result = run(python_with(packages), "-I", "-c", SMOKE, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.split()[0]).is_relative_to(packages)

    result = run(python_with(packages).with_name("condacc"), "info", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"in {packages / 'tf_condacc'}" in result.stdout


def test_the_benchmark_measures_the_installed_library(packages: Path, tmp_path: Path):
    benchmark = [ROOT / "benchmarks" / "run.py", "--smoke", "--scenario", "D1"]
    options = ["--installed", "--output", tmp_path]
    result = run(
        python_with(packages), *benchmark, *options, cwd=ROOT, XDG_CACHE_HOME=str(tmp_path)
    )
    assert result.returncode == 0, result.stderr
    assert f", {packages / 'tf_condacc'}/" in result.stdout.splitlines()[0]


@pytest.mark.long
def test_an_installed_library_is_compared_with_that_of_the_tree(packages: Path):
    options = ["--after", packages, "--seconds", "0", "--processes", "1", "--case", "D1 64K N=8"]
    compare = [ROOT / "benchmarks" / "compare_builds.py", ROOT, *options]
    result = run(sys.executable, *compare, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].startswith("D1   64K N=8")


def test_set_up_for_a_python_without_tensorflow_says_so_and_changes_nothing(tmp_path: Path):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    generated = ROOT / ".condacc.bazelrc"
    before = generated.read_bytes()
    result = run("./configure.sh", cwd=ROOT, CONDACC_PYTHON=str(python))
    assert result.returncode == 1
    assert f"no TensorFlow in {python}" in result.stderr
    assert "pip install tensorflow==2.21" in result.stderr
    assert generated.read_bytes() == before


@pytest.mark.parametrize(
    ("processor", "place"),
    [
        ("x86_64", "targets/x86_64-linux/lib"),
        ("aarch64", "targets/sbsa-linux/lib"),
        ("aarch64", "targets/aarch64-linux/lib"),
        ("aarch64", "lib/aarch64-linux-gnu"),
    ],
)
def test_set_up_takes_the_cuda_runtime_of_its_processor(tmp_path: Path, processor: str, place: str):
    clone, programs, cuda = (tmp_path / name for name in ("clone", "programs", "cuda"))
    for name in ("configure.sh", ".bazelversion", "requirements.txt", "requirements-dev.txt"):
        clone.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, clone)
    for name in ("condacc", "cc"):
        (clone / name).symlink_to(ROOT / name)
    # A toolkit with a compiler for other processors has their libraries as well.
    for other in ("targets/riscv-linux/lib", place):
        (cuda / other).mkdir(parents=True)
        (cuda / other / "libcudart_static.a").touch()
    (cuda / "include").mkdir()
    (cuda / "include" / "cuda_runtime.h").touch()
    outputs = {
        programs / "uname": processor,
        programs / "bazelisk": "",
        programs / "apt-get": "",
        cuda / "bin" / "nvcc": "Cuda compilation tools, release 13.0, V13.0.88",
    }
    for program, output in outputs.items():
        program.parent.mkdir(exist_ok=True)
        status = 1 if program.name == "apt-get" else 0  # There is no GoogleTest to download.
        program.write_text(f"#!/bin/sh\necho '{output}'\nexit {status}\n")
        program.chmod(0o755)
    run(
        *("bash", "configure.sh"),
        cwd=clone,
        CONDACC_PYTHON=sys.executable,
        CUDA_HOME=str(cuda),
        USE_BAZEL_VERSION="none",
        PATH=f"{programs}:{os.environ['PATH']}",
    )
    assert (
        f"CONDACC_CUDART={cuda / place}/libcudart_static.a"
        in (clone / ".condacc.bazelrc").read_text()
    )
