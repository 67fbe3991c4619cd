"""Tests of the build: the includes of each folder, the exported symbols, and the version check."""

import functools
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import tensorflow as tf

import tf_condacc
from condacc import build, libraries
from tests.support.waiting import run_program

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tf_condacc"
LIBRARY, INFO = libraries.paths_in(PACKAGE, libraries.key_of(tf.__version__))
TENSORFLOW_INCLUDE = re.compile(r"^(tensorflow|xla|tsl|absl|unsupported|Eigen|google)/|Eigen")


def includes_of(*patterns: str) -> dict[str, list[tuple[str, str]]]:
    """Returns, for each source file, its includes as (delimiter, path)."""
    files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    assert files, f"no file matches {patterns}"
    include = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
    return {str(file.relative_to(ROOT)): include.findall(file.read_text()) for file in files}


def dynamic_symbols(option: str) -> list[str]:
    command = ["nm", "-D", option, str(LIBRARY)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.split()[-1] for line in listing.splitlines()]


def import_in_subprocess(package: Path) -> subprocess.CompletedProcess[str]:
    """Imports the package at `package` in a fresh Python that sees no other copy of it."""
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r}); import tf_condacc"
    command = [sys.executable, "-I", "-c", code]
    return run_program(command)


@pytest.fixture
def copied_package(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "condacc", tmp_path / "condacc")
    return Path(shutil.copytree(PACKAGE, tmp_path / "tf_condacc"))


def test_core_includes_the_standard_library_and_itself_only():
    for file, includes in includes_of("cc/core/**/*.h", "cc/core/**/*.cc").items():
        for delimiter, path in includes:
            own = delimiter == '"' and path.startswith("cc/core/")
            # Headers of the C++ standard library have no extension and no directory.
            standard = delimiter == "<" and re.fullmatch(r"[a-z_]+", path) is not None
            of_compiler = delimiter == "<" and path in ("immintrin.h", "arm_neon.h")
            # The standard library's timed waits jump with the system's clock before glibc 2.30.
            steady_waits = (file, path) == ("cc/core/base/mutex.h", "pthread.h")
            forks = (file, path) == ("cc/core/base/timer_queue.cc", "pthread.h")
            allowed = own or standard or of_compiler or steady_waits or forks
            assert allowed, f"{file} includes {path}"


# Each room of cc, and what it may include besides itself, the standard library and CUDA.
ROOMS = {
    "core/base": set(),
    "core/math": {"core/base"},
    "core/accumulator": {"core/base", "core/math"},
    "core/dense": {"core/base", "core/math", "core/accumulator"},
    "core/sparse": {"core/base", "core/math", "core/accumulator"},
    "core/staleness": {"core/base"},
    "core/sync": {"core/base"},
    "memory": {"core/base"},
    "gpu": {"core/base", "core/math", "core/sparse"},
    "kernels/base": {"core", "memory", "gpu"},
    "kernels/accumulator": {"core", "memory", "gpu", "kernels/base"},
    "kernels/tower": {"core", "gpu", "kernels/base", "kernels/accumulator"},
    "kernels/staleness": {"core", "gpu", "kernels/base"},
    "kernels/sync": {"core", "kernels/base"},
    "kernels/bundles": {"kernels/base"},
    "ops/base": set(),
    "ops/accumulator": {"ops/base"},
    "ops/tower": {"ops/base"},
    "ops/staleness": {"ops/base"},
    "ops/sync": {"ops/base"},
    "ops/bundles": {"ops/base"},
}


def test_rooms_depend_on_each_other_one_way_only():
    seen = set()
    for file, includes in includes_of("cc/*/**/*.h", "cc/*/**/*.cc").items():
        room = Path(file).parent.relative_to("cc").as_posix()
        seen.add(room)
        allowed = ROOMS[room] | {room}
        for _, path in includes:
            if not path.startswith("cc/"):
                continue
            included = Path(path).parent.relative_to("cc").as_posix()
            assert allowed & {included, included.split("/")[0]}, f"{file} includes {path}"
    assert seen == ROOMS.keys()


def test_gpu_launchers_include_no_tensorflow_and_no_eigen():
    for file, includes in includes_of("cc/gpu/*.h", "cc/gpu/*.cu.cc").items():
        for _, path in includes:
            assert not TENSORFLOW_INCLUDE.search(path), f"{file} includes {path}"


def test_tensorflow_is_included_in_kernels_and_ops_only():
    including = {
        Path(file).parent.parent.as_posix()
        for file, includes in includes_of("cc/**/*.h", "cc/**/*.cc", "tests/cc/**/*.cc").items()
        if any(TENSORFLOW_INCLUDE.search(path) for _, path in includes)
    }
    assert including == {"cc/kernels", "cc/ops"}


def test_all_kernels_turn_refused_memory_into_an_error():
    """Only their two base classes, which catch the exception, implement what TensorFlow calls."""
    entry = re.compile(r"\bvoid Compute(Async)?\(")
    files = {str(file.relative_to(ROOT)) for file in ROOT.glob("cc/kernels/**/*.*")}
    with_entry = {file for file in files if entry.search((ROOT / file).read_text())}
    assert with_entry == {"cc/kernels/base/kernel.h", "cc/kernels/base/async_kernel.h"}


def test_no_cuda_symbol_is_left_for_tensorflow_to_resolve():
    # TensorFlow's library exports stubs under the names of the CUDA runtime.
    undefined = dynamic_symbols("--undefined-only")
    assert any("tensorflow" in symbol for symbol in undefined)
    assert [symbol for symbol in undefined if "cuda" in symbol.lower()] == []


def test_cuda_runtime_inside_the_library_is_not_exported():
    defined = dynamic_symbols("--defined-only")
    assert [symbol for symbol in defined if symbol.startswith(("cuda", "__cuda"))] == []


def test_gpu_kernels_are_in_the_library_exactly_when_built_with_cuda():
    sections = subprocess.run(
        ["readelf", "-SW", str(LIBRARY)], check=True, capture_output=True, text=True
    ).stdout
    assert (".nv_fatbin" in sections) == (tf_condacc.build_info()["cuda"] is not None)


def test_build_flags_are_those_of_a_portable_binary():
    files = [ROOT / "BUILD", ROOT / ".bazelrc", ROOT / "configure.sh", ROOT / "Makefile"]
    files += [*ROOT.glob("cc/**/BUILD"), *ROOT.glob("cc/**/*.bzl")]
    files += [*ROOT.glob("tests/cc/*.bzl"), *ROOT.glob("third_party/**/*.bzl")]
    files += [ROOT / "condacc" / "build.py"]
    assert len(files) > 8
    for file in files:
        flags = re.findall(r"-m(?:arch|tune|cpu)=\S*|-ffast-math|--use_fast_math", file.read_text())
        assert flags == [], f"{file} has {flags}"


@functools.cache
def bazel_commands() -> tuple[list[str], ...]:
    """Returns the commands with which Bazel compiles and links the library, as words."""
    query = ["aquery", 'mnemonic("CppCompile|CppLink", deps(//:_condacc_ops.so))']
    listed = subprocess.run([ROOT / ".tools" / "bazelisk", *query], cwd=ROOT, capture_output=True)
    assert listed.returncode == 0, listed.stderr.decode()
    commands = re.findall(r"Command Line: \(exec (.*?)\)\n\n", listed.stdout.decode(), re.DOTALL)
    return tuple(shlex.split(command.replace("\\\n", " ")) for command in commands)


def compilations() -> dict[str, list[str]]:
    """Returns Bazel's commands that compile, by the name of the object."""
    return {Path(words[-1]).name: words for words in bazel_commands() if "-c" in words}


def options_for_code(words: Iterable[str]) -> set[str]:
    """Returns the options of a compiler that decide what code it makes."""
    words = [word.replace("--std", "-std") for word in words]
    last = {prefix: [w for w in words if w.startswith(prefix)][-1:] for prefix in ("-O", "-std=")}
    others = {word for word in words if re.match(r"-[fmDU]", word)}
    # Bazel adds these, so that the same sources give the same bytes. The sources do not use them.
    same_bytes = r"-frandom-seed=.*|-fno-canonical-system-headers|-D__(DATE|TIME|TIMESTAMP)__=.*"
    return {word for word in others if not re.fullmatch(same_bytes, word)}.union(*last.values())


class RecordingCompiler:
    """Stands for the compiler of `condacc build`, and keeps its arguments."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def run(self, arguments: list[str], *rest: str) -> str:
        self.calls.append(arguments)
        return ""

    def run_all(self, arguments: dict[str, list[str]], *rest: object) -> None:
        self.calls += arguments.values()


@pytest.fixture(scope="module")
def pip_commands(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Returns the arguments with which pip's build compiles and, at last, links the library."""
    flags = (tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags())
    compiler = RecordingCompiler()
    recipe = build.Build(compiler, build.TensorFlow(tf.__version__, *flags), ROOT, print)
    recipe.make_library(tmp_path_factory.mktemp("scratch"))
    return compiler.calls


@pytest.mark.parametrize("folder", ["core", "kernels", "memory", "ops"])
def test_bazel_and_pip_compile_a_folder_as_one_source_with_the_same_options(
    folder: str, pip_commands: list[list[str]]
):
    ours = compilations()[f"{folder}_group.pic.o"]
    assert any(word.endswith(f"/cc/{folder}/{folder}_group.cc") for word in ours)
    # The ops have no loop over numbers. Not every compiler vectorizes loops without this option.
    assert ("-O3" in options_for_code(ours)) == (folder != "ops")
    (pip,) = (words for words in pip_commands if words[-1].endswith(f"/{folder}.o"))
    differences = options_for_code(ours) ^ options_for_code(pip)
    differences -= {"-DCONDACC_CUDA=1"}  # The only choice that pip does not offer.
    if folder in ("core", "memory"):  # Pip passes them to all sources. These do not use them.
        differences -= set(tf.sysconfig.get_compile_flags())
    assert differences == set()


def test_bazel_compiles_the_folders_that_pip_compiles(pip_commands: list[list[str]]):
    *compiled, _ = pip_commands
    folders = {Path(words[-1]).stem for words in compiled}
    assert compilations().keys() == {f"{folder}_group.pic.o" for folder in folders}


def test_bazel_and_pip_link_with_the_same_options(pip_commands: list[list[str]]):
    target = "bazel-out/k8-opt/bin/_condacc_ops.so"
    (ours,) = (words for words in bazel_commands() if target in words)
    # These do not change the code: the linker, its place, and libraries that g++ adds by itself.
    of_bazel = {"-fuse-ld=gold", "-Wl,-no-as-needed", "-B/usr/bin", "-pass-exit-codes"}
    of_bazel |= {"-lstdc++", "-lm"}
    # The inputs and the output, TensorFlow's folder, and the symbols that pip strips.
    others = r"-Wl,(-(no-)?whole-archive|--(start|end)-lib)|@.*|-[LoSs].*|[^-].*"
    options, pip = (
        {word for word in words if not re.fullmatch(others, word)}
        for words in (ours, pip_commands[-1])
    )
    assert options - of_bazel == pip


def test_build_info_names_this_tensorflow_and_this_version():
    info = tf_condacc.build_info()
    assert info["tensorflow"] == tf.__version__
    assert info["version"] == tf_condacc.__version__
    assert re.fullmatch(r"\S+ \d+(\.\d+)*", info["compiler"])
    assert (info["cuda"] is None) == (info["cuda_archs"] == [])


def test_a_library_has_no_path_to_look_for_others_in():
    dynamic = subprocess.run(["readelf", "-dW", str(LIBRARY)], capture_output=True, text=True)
    assert "libtensorflow_framework.so.2" in dynamic.stdout
    assert "RPATH" not in dynamic.stdout and "RUNPATH" not in dynamic.stdout


@pytest.mark.parametrize("version", ["2.21.0", "2.21.7", "2.21.0.post1", "2.21.0+nv26.1"])
def test_patches_of_a_release_share_a_library(version: str):
    assert libraries.key_of(version) == "2.21"


@pytest.mark.parametrize("version", ["2.22.0-rc1", "2.22.0-dev20270101", "2.22.0rc1"])
def test_a_pre_release_has_a_library_of_its_own(version: str):
    key = libraries.key_of(version)
    assert key == version.replace("-rc", "rc").replace("-dev", ".dev")
    assert libraries.requirement_of("tensorflow", key) == f"tensorflow=={key}"


def test_libraries_are_listed_from_the_oldest(tmp_path: Path):
    for key in ("2.21", "2.9", "2.15"):
        libraries.paths_in(tmp_path, key).file.touch()
    assert libraries.keys_in(tmp_path) == ["2.9", "2.15", "2.21"]


def test_library_for_another_tensorflow_is_not_loaded(copied_package: Path):
    built = libraries.paths_in(copied_package, libraries.key_of(tf.__version__))
    others = [*copied_package.glob("*.so"), *copied_package.glob("_build_info-*.json")]
    for file in others:
        file.unlink() if file not in built else file.rename(
            file.with_name(file.name.replace(libraries.key_of(tf.__version__), "2.18"))
        )
    result = import_in_subprocess(copied_package)
    assert result.returncode == 1
    message = result.stderr.strip().splitlines()[-1]
    assert message.startswith("ImportError: ")
    assert f"no native library for TensorFlow {tf.__version__}" in message
    assert "it has those for TensorFlow 2.18" in message
    assert "`condacc build`" in message and "tensorflow==2.18.*" in message


@pytest.mark.parametrize("missing", [LIBRARY.name, INFO.name])
def test_missing_build_product_says_how_to_build(copied_package: Path, missing: str):
    (copied_package / missing).unlink()
    (copied_package.parent / "setup.py").touch()
    result = import_in_subprocess(copied_package)
    assert result.returncode == 1
    message = result.stderr.strip().splitlines()[-1]
    assert message.startswith("ImportError: ")
    assert f"the source tree {copied_package.parent} has no native library" in message
    assert "`python -m condacc build`" in message


def test_second_configuration_does_nothing():
    generated = ROOT / ".condacc.bazelrc"
    before = generated.stat().st_mtime_ns
    result = subprocess.run(["./configure.sh"], cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert generated.stat().st_mtime_ns == before
