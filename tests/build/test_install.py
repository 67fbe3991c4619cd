"""Tests of the source distribution, and of the wheel that pip makes from it.

The wheel is installed in a fresh environment and used outside of the source tree.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import tensorflow as tf

import condacc
from condacc import libraries

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from condacc_bench import installed  # noqa: E402

# Compiling the library takes a minute or more.
pytestmark = pytest.mark.timeout(1000)

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
        timeout=900,
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
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the wheel that pip makes in isolation, in which TensorFlow is not installed."""
    place = tmp_path_factory.mktemp("wheel")
    # Neither npm nor Bazel nor git is in this path.
    for name in ("g++", "as", "ld"):
        found = shutil.which(name)
        assert found is not None
        (place / name).symlink_to(found)
    pip_wheel = ["-m", "pip", "wheel", "-v", "--no-deps", "--wheel-dir", place]
    result = run(sys.executable, *pip_wheel, sdist, cwd=place, PATH=str(place))
    assert result.returncode == 0, result.stdout + result.stderr
    (built,) = place.glob("*.whl")
    return built


@pytest.mark.parametrize("hook", ["prepare_metadata_for_build_wheel", "build_wheel"])
def test_without_tensorflow_the_source_distribution_says_what_to_install(
    hook: str, sdist: Path, tmp_path: Path
):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    place = tmp_path / "tree"
    shutil.unpack_archive(sdist, place)
    (tree,) = place.iterdir()
    build = f"from setuptools import build_meta; build_meta.{hook}({str(tmp_path)!r})"
    result = run(sys.executable, "-c", build, cwd=tree, CONDACC_PYTHON=str(python))
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"tf_condacc: there is no TensorFlow in {python}: install it there")
    assert "pip install 'tensorflow==2." in last


def test_wheel_is_for_any_python_3_on_this_platform(wheel: Path):
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"tf_condacc-{condacc.__version__}-py3-none-{platform}.whl"


def test_wheel_holds_one_library_and_the_sources(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
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


def test_wheel_asks_for_the_tensorflow_it_was_built_for(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        requirements = [
            line.removeprefix("Requires-Dist: ")
            for line in archive.read(metadata).decode().splitlines()
            if line.startswith("Requires-Dist: ") and "extra ==" not in line
        ]
    assert requirements == [f"tensorflow=={libraries.key_of(tf.__version__)}.*", "numpy"]


@pytest.fixture(scope="module")
def packages(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the site-packages of an environment in which the wheel is installed."""
    return installed.make_environment(wheel, tmp_path_factory.mktemp("environment"))


def python_with(packages: Path) -> Path:
    return installed.python_of(packages.parents[2])


def test_installed_wheel_works_outside_the_source_tree(packages: Path, tmp_path: Path):
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
