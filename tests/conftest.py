"""Fixtures of the test suite: implementations, drivers, devices, seeds, timeouts."""

from __future__ import annotations

import functools
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before TensorFlow is imported: its C++ log would drown the report.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
# Nothing here uses Keras; looking for the old one instead, TensorFlow starts in half the time, and
# so do the many processes that the tests start.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
# Processes that the tests start need some of a GPU's memory too.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
sys.path[:0] = [str(Path(__file__).resolve().parent / name) for name in ("support", "trials")]
# A shell runs jobs in the background with Ctrl-C ignored, and their programs inherit that: those
# that the tests start and interrupt as well.
signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402

DEFAULT_TIMEOUT_SECS = 120
LONG_TIMEOUT_SECS = 1800
SEED_VARIABLE = "TF_CONDACC_TEST_SEED"
LIBRARIES = ("tensorflow", "tf_condacc")


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
    config.addinivalue_line(
        "markers", "kinds(*kinds): the kinds of accumulator, dense or sparse, that a test is run on"
    )
    config.addinivalue_line(
        "markers", "needs_resource: cannot be run on a handle that is a reference to a string"
    )
    config.addinivalue_line(
        "markers",
        "bad_row: expects an apply to refuse an index, which one on a GPU leaves to the take; "
        "inverted by --device gpu",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test on every kind of accumulator that it is marked with, else on the dense one."""
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


def _sees_gpu() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def _invert_bad_rows(items: list[pytest.Item]) -> None:
    """Expects tests of bad rows to fail on ours; TensorFlow's own accumulator has no GPU kernel."""
    inverted = pytest.mark.xfail(
        reason="indices on a GPU are not checked before they are merged",
        raises=(AssertionError, pytest.fail.Exception),
        strict=True,
    )
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        is_ours = not str(parameters.get("impl", "")).startswith("tensorflow")
        if is_ours and item.get_closest_marker("bad_row"):
            item.add_marker(inverted)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives every test a time limit; a take that hangs holds its thread in native code.

    TensorFlow's own sparse accumulator has a reference as its handle, and so exists in graphs and
    control flow of version 1 only: there are no such tests of other modes on it.
    """

    def can_be_run(item: pytest.Item) -> bool:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        has_reference = parameters.get("impl") == "tensorflow-sparse" or (
            parameters.get("original") == "sparse"
        )
        return not (has_reference and item.get_closest_marker("needs_resource"))

    items[:] = filter(can_be_run, items)
    if config.getoption("--device") == "gpu":
        _invert_bad_rows(items)
    # TensorFlow places ops on a GPU of its own accord wherever they have kernels for one.
    if config.getoption("--device") == "gpu" and not _sees_gpu():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="TensorFlow sees no GPU on this machine"))
    for item in items:
        if item.get_closest_marker("long"):
            limit = pytest.mark.timeout(LONG_TIMEOUT_SECS, method="thread")
            item.add_marker(limit, append=False)  # It takes precedence over limits of the short.
        elif item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(DEFAULT_TIMEOUT_SECS, method="thread"))


def _load(library: str, kind: str = "dense") -> Any:
    from implementations import load_implementation

    return load_implementation(library if kind == "dense" else f"{library}-{kind}")


@pytest.fixture(scope="session")
def impl(request: pytest.FixtureRequest) -> Any:
    """TensorFlow's own accumulator (the reference), then ours."""
    return _load(request.param)


@pytest.fixture(scope="session")
def original(request: pytest.FixtureRequest) -> Any:
    """TensorFlow's own accumulator, where only it behaves in some way."""
    return _load("tensorflow", getattr(request, "param", "dense"))


@pytest.fixture(scope="session")
def ours(request: pytest.FixtureRequest) -> Any:
    """Our accumulator, for what the original does not have or does not survive."""
    return _load("tf_condacc", getattr(request, "param", "dense"))


@pytest.fixture(scope="module")
def results(ours: Any) -> Any:
    """Outcomes of trials of ours, each in a process that may die of it."""
    from trial_runs import Results

    return Results(ours)


def _drivers(classes: dict[str, Any], mode: str) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(*args: Any, **kwargs: Any) -> Any:
        made.append(classes[mode](*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=["graph", pytest.param("eager", marks=pytest.mark.needs_resource)])
def mode(request: pytest.FixtureRequest) -> str:
    """Whether a test drives the accumulator through a v1 session or eagerly."""
    return request.param


@pytest.fixture
def driver(mode: str) -> Iterator[Callable[..., Any]]:
    """Makes drivers: `driver(impl, dtype, shape, **constructor_arguments)`."""
    from accumulator_support import DRIVERS

    yield from _drivers(DRIVERS, mode)


@pytest.fixture
def graph_driver() -> Iterator[Callable[..., Any]]:
    """Makes drivers of v1 sessions, for what only sessions have."""
    from accumulator_support import DRIVERS

    yield from _drivers(DRIVERS, "graph")


@pytest.fixture(params=["graph", "function", "eager"])
def contributions(ours: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes drivers of ours with contributors and rounds: `contributions(dtype, shape, ...)`."""
    from contribution_support import CONTRIBUTION_DRIVERS

    for make in _drivers(CONTRIBUTION_DRIVERS, request.param):
        yield functools.partial(make, ours)


@pytest.fixture
def rows_driver(mode: str) -> Iterator[Callable[..., Any]]:
    """Makes drivers whose gradients are `Rows` and whose takes return them."""
    from sparse_support import ROWS_DRIVERS

    yield from _drivers(ROWS_DRIVERS, mode)


@pytest.fixture
def rows_graph_driver() -> Iterator[Callable[..., Any]]:
    """The same, of v1 sessions only."""
    from sparse_support import ROWS_DRIVERS

    yield from _drivers(ROWS_DRIVERS, "graph")


@pytest.fixture
def graph() -> Iterator[Any]:
    """A graph in which a test builds."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["ref", "resource", "resource_v2"])
def world(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A graph with each kind of variables and control flow; the process is as before afterwards."""
    import tensorflow as tf
    from drop_stale_support import WORLDS, world_of

    with world_of(*WORLDS[request.param]) as world, tf.Graph().as_default():
        yield world


@pytest.fixture
def graph_of_v1() -> Iterator[Any]:
    """A graph as `world` makes it, where the kind of variables does not matter."""
    import tensorflow as tf
    from drop_stale_support import WORLDS, world_of

    with world_of(*WORLDS["resource"]), tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest) -> str:
    """A device on which our kernels can be run."""
    from tensorflow.python.framework import kernels

    wanted = request.config.getoption("--device") or request.param
    if wanted != request.param:
        pytest.skip(f"--device {wanted}")
    if request.param == "cpu":
        return "/CPU:0"
    if not _sees_gpu():
        pytest.skip("TensorFlow sees no GPU on this machine")
    request.getfixturevalue("ours")
    registered = kernels.get_registered_kernels_for_op("Condacc>DenseApply").kernel
    if not any(kernel.device_type == "GPU" for kernel in registered):
        pytest.skip("tf_condacc registers no GPU kernel for the dense accumulator")
    return "/GPU:0"


@pytest.fixture(params=[100, pytest.param(1000, marks=pytest.mark.long)])
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a test repeats what must hold every time."""
    return request.param


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A fresh seed for each test, or the one in TF_CONDACC_TEST_SEED; shown on failure."""
    value = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(2**31))
    print(f"{SEED_VARIABLE}={value}")
    request.node.user_properties.append(("seed", value))
    return value
