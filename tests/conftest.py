"""Fixtures of the test suite: implementations, drivers, devices, seeds, the limit of a test."""

from __future__ import annotations

import collections
import contextlib
import gc
import os
import random
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# This is set before TensorFlow is imported, because its C++ log would hide the report.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
# Some tests run a session inside of an operation of another one. TensorFlow has one thread for the
# operations of both on a single core.
if len(os.sched_getaffinity(0)) == 1:
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")
# Processes that the tests start need some of a GPU's memory too.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # Also for the processes that tests start.
# A shell's background jobs ignore Ctrl-C, and the programs that the tests start and interrupt would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402

from condacc import versions  # noqa: E402

# The tests themselves do not use Keras. With this variable TensorFlow does not import Keras 3, and
# starts in half the time. The processes that the tests start inherit it.
if not versions.brings_keras2():
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

from tests.processes import isolated  # noqa: E402
from tests.processes.forked_python import fork_server  # noqa: E402
from tests.support.ports import free_ports  # noqa: E402
from tests.support.scheduling import Completeness  # noqa: E402
from tests.support.waiting import LIMIT_SECS, SEED_VARIABLE, explained  # noqa: E402

NUM_SLOWEST = 10
LONG_LIMIT_SECS = 3600
_LIMITS_VARIABLE = "TF_CONDACC_TEST_LIMITS"  # The file that tells of tests at their limit.
LIBRARIES = ("tensorflow", "tf_condacc")
_LIMITS = pytest.StashKey[Any]()
_STDERR = pytest.StashKey[int]()  # That of pytest itself, if it runs tests in its own process.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=["cpu", "gpu"],
        help="run all tests on this kind of device; without it, where TensorFlow places the ops, "
        "and those with the fixture `device` on both",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        free_ports(1)
    except OSError as error:
        raise pytest.UsageError(f"Many tests start servers, but {error}.") from None
    config.pluginmanager.register(isolated.plugin(config))
    if _LIMITS_VARIABLE not in os.environ:
        file = tempfile.NamedTemporaryFile(mode="w+", prefix="limits")
        config.add_cleanup(file.close)
        config.stash[_LIMITS] = file
        os.environ[_LIMITS_VARIABLE] = file.name
        config.pluginmanager.register(Completeness(config))
        config.stash[_STDERR] = os.dup(2)
    server = contextlib.ExitStack()
    server.enter_context(fork_server())
    config.add_cleanup(server.close)
    config.addinivalue_line(
        "markers", "kinds(*kinds): the kinds of accumulator, dense or sparse, that a test is run on"
    )
    config.addinivalue_line(
        "markers",
        "isolated(variables, alone, status): see `isolated` in tests/processes/isolated.py",
    )
    config.addinivalue_line(
        "markers", "weighted_means(part): not on a GPU if the test has this part in its name"
    )
    config.addinivalue_line(
        "markers", "needs_resource: cannot be run on a handle that is a reference to a string"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Ends the process of a test at its limit, after noting its name and what explains it.

    A take that hangs holds its thread in native code, so the process is all that can be ended.
    """

    def end() -> None:
        about = f"{item.nodeid} was ended after {settings.timeout:.0f} s\n{explained()}"
        with open(os.environ[_LIMITS_VARIABLE], "a") as file:
            file.write(about)
        if (own_stderr := item.config.stash.get(_STDERR, None)) is not None:
            os.write(own_stderr, about.encode())  # Nobody else will print it.
        os._exit(1)

    timer = threading.Timer(settings.timeout, end)
    timer.name = f"limit of {item.nodeid}"
    timer.daemon = True
    timer.start()

    def cancel() -> None:
        timer.cancel()
        timer.join()

    item.cancel_timeout = cancel  # type: ignore[attr-defined]
    return True


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Prints what tests at their limit waited for, and the files that took most of the time."""
    if _LIMITS in config.stash and (limits := Path(config.stash[_LIMITS].name).read_text()):
        terminalreporter.section("tests that reached their limit")
        terminalreporter.write(limits)
    seconds: collections.Counter[str] = collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > NUM_SLOWEST:
        terminalreporter.section(f"slowest {NUM_SLOWEST} of {len(seconds)} files")
        for file, duration in seconds.most_common(NUM_SLOWEST):
            terminalreporter.write_line(f"{duration:7.1f} s  {file}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keeps the garbage collector away from the modules and tests, which live until the end.

    Otherwise it walks them during the collection and again whenever a test calls it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test on every kind of accumulator that it is marked with, or on the dense kind."""
    marker = metafunc.definition.get_closest_marker("kinds")
    kinds = marker.args if marker else ("dense",)
    if "impl" in metafunc.fixturenames:
        pairs = [(kind, library) for kind in kinds for library in LIBRARIES]
        names = [library if kind == "dense" else f"{library}-{kind}" for kind, library in pairs]
        metafunc.parametrize("impl", names, indirect=True, scope="session")
    single = [name for name in ("ours", "original") if name in metafunc.fixturenames]
    if single and kinds != ("dense",):
        values = [[kind] * len(single) for kind in kinds]
        metafunc.parametrize(single, values, ids=kinds, indirect=True, scope="session")


def pytest_make_parametrize_id(val: Any) -> str | None:
    """Names data types in the ids of tests."""
    return val.name if type(val).__name__ == "DType" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests that cannot be run, and gives every other one a limit.

    The handle of TensorFlow's own sparse accumulator is a reference, which works only in graphs and
    in control flow of version 1. Tests in other modes are not run on it. Tests for a GPU are
    skipped where there is none, and means of sparse gradients with weights where there is one.
    """

    def can_be_run(item: pytest.Item) -> bool:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        has_reference = parameters.get("impl") == "tensorflow-sparse" or (
            parameters.get("original") == "sparse"
        )
        return not (has_reference and item.get_closest_marker("needs_resource"))

    items[:] = filter(can_be_run, items)
    _check_parts(items)
    for item in items:
        marker = item.get_closest_marker("weighted_means")
        if marker and marker.args[0] in item.name:
            from tests.support.gpus import NO_WEIGHTED_MEANS, has_gpu

            item.add_marker(pytest.mark.skipif(has_gpu(), reason=NO_WEIGHTED_MEANS))
    # TensorFlow places operations on a GPU by itself if they have kernels for one.
    if config.getoption("--device") == "gpu":
        import tensorflow as tf

        from tests.support.gpus import has_gpu

        # Or matrices of float32 would be multiplied with fewer digits than tests expect.
        tf.config.experimental.enable_tensor_float_32_execution(False)
        for item in [] if has_gpu() else items:
            item.add_marker(pytest.mark.skip(reason="TensorFlow sees no GPU on this machine"))
    for item in items:
        if item.get_closest_marker("timeout") is None:
            # Those that compile the library may take long on a slow machine.
            is_long = item.get_closest_marker("long") or item.get_closest_marker("install")
            item.add_marker(pytest.mark.timeout(LONG_LIMIT_SECS if is_long else LIMIT_SECS))


def _check_parts(items: list[pytest.Item]) -> None:
    """Refuses a test with the marker of a part that does not look for it, so that nobody runs it.

    Raises:
        pytest.UsageError: There is such a test.
    """
    root = Path(__file__).resolve().parents[1]
    if not (root / "Makefile").exists():
        return  # The package is tested outside of its source tree.
    lines = (root / "Makefile").read_text("utf-8").replace("\\\n", " ")
    found = re.findall(r"^PLACE_OF_(\S+) := (.*)", lines, re.MULTILINE)
    places = {part.replace("-", "_"): {root / each for each in all.split()} for part, all in found}
    for item in items:
        parts = [places[each.name] for each in item.iter_markers() if each.name in places]
        is_found = any(part & {item.path, *item.path.parents} for part in parts)
        if parts and not is_found and not item.get_closest_marker("long"):
            raise pytest.UsageError(f"{item.nodeid} is in no PLACE_OF_... of the Makefile")


def _load(library: str, kind: str = "dense") -> Any:
    from tests.support.implementations import load_implementation

    return load_implementation(library if kind == "dense" else f"{library}-{kind}")


@pytest.fixture(scope="session")
def impl(request: pytest.FixtureRequest) -> Any:
    """Returns TensorFlow's own accumulator (the reference), then ours."""
    return _load(request.param)


@pytest.fixture(scope="session")
def original(request: pytest.FixtureRequest) -> Any:
    """Returns TensorFlow's own accumulator, for behaviour that ours does not share."""
    return _load("tensorflow", getattr(request, "param", "dense"))


@pytest.fixture(scope="session")
def ours(request: pytest.FixtureRequest) -> Any:
    """Returns our accumulator, for tests that the original does not support or survive."""
    return _load("tf_condacc", getattr(request, "param", "dense"))


@pytest.fixture
def graph() -> Iterator[Any]:
    """Yields a graph that is the default graph during the test."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(
    params=[
        "resource",
        *(pytest.param(other, marks=pytest.mark.wide) for other in ("ref", "resource_v2")),
    ]
)
def switches(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yields a setting of variables and control flow, in a graph; restores it afterwards.

    Tests of what depends on the setting have the mark `every_switches`. The other tests are run
    with each setting too, but not in every run.
    """
    import tensorflow as tf

    from tests.support.drop_stale_support import SWITCHES, switched

    with switched(*SWITCHES[request.param]) as switches, tf.Graph().as_default():
        yield switches


@pytest.fixture
def v1_graph() -> Iterator[Any]:
    """Yields a graph like that of `switches`, for tests of any kind of variables."""
    import tensorflow as tf

    from tests.support.drop_stale_support import SWITCHES, switched

    with switched(*SWITCHES["resource"]), tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Returns a device on which our kernels can run."""
    from tensorflow.python.framework import kernels

    from tests.support.gpus import has_gpu

    wanted = request.config.getoption("--device") or request.param
    if wanted != request.param:
        pytest.skip(f"--device {wanted}")
    if request.param == "cpu":
        return "/CPU:0"
    if not has_gpu():
        pytest.skip("TensorFlow sees no GPU on this machine")
    request.getfixturevalue("ours")
    registered = kernels.get_registered_kernels_for_op("Condacc>DenseApply").kernel
    if not any(kernel.device_type == "GPU" for kernel in registered):
        pytest.skip("tf_condacc registers no GPU kernel for the dense accumulator")
    return "/GPU:0"


@pytest.fixture
def on_cpu() -> Iterator[None]:
    """Puts eager operations on the CPU, as TensorFlow does with handles of its own queues."""
    import tensorflow as tf

    with tf.device("/CPU:0"):
        yield


@pytest.fixture(params=[20, pytest.param(1000, marks=pytest.mark.long)])
def rounds(request: pytest.FixtureRequest) -> int:
    """Returns how many times a test repeats a check that must pass every time."""
    return request.param


@pytest.fixture(
    params=[
        10,
        pytest.param(20, marks=pytest.mark.wide),
        pytest.param(500, marks=pytest.mark.long),
    ]
)
def programs(request: pytest.FixtureRequest) -> Any:
    """Returns settings of Hypothesis: a few programs that are always the same, or many others."""
    from tests.support.programs import programs_settings

    return programs_settings(request.param, is_long=request.param > 100)


@pytest.fixture
def seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns the seed of TF_CONDACC_TEST_SEED: a number, "new", or by default 1 ("new" if long).

    Failures show it.
    """
    usual = "new" if request.node.get_closest_marker("long") else "1"
    text = os.environ.get(SEED_VARIABLE) or usual
    value = random.SystemRandom().randrange(2**31) if text == "new" else int(text)
    print(f"{SEED_VARIABLE}={value}")
    monkeypatch.setenv(SEED_VARIABLE, str(value))  # Errors of waits show it.
    return value
