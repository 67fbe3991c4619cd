"""Fixtures of the test suite: implementations, drivers, devices, seeds, timeouts."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before TensorFlow is imported: its C++ log would drown the report.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import pytest  # noqa: E402

DEFAULT_TIMEOUT_SECS = 120
SEED_VARIABLE = "TF_CONDACC_TEST_SEED"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives every test a time limit; a take that hangs holds its thread in native code."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(DEFAULT_TIMEOUT_SECS, method="thread"))


@pytest.fixture(scope="session", params=["tensorflow", "tf_condacc"])
def impl(request: pytest.FixtureRequest) -> Any:
    """TensorFlow's own accumulator (the reference), then ours."""
    from dense_implementations import load_implementation

    return load_implementation(request.param)


@pytest.fixture(scope="session")
def original() -> Any:
    """TensorFlow's own accumulator, where only it behaves in some way."""
    from dense_implementations import load_implementation

    return load_implementation("tensorflow")


@pytest.fixture(scope="session")
def ours() -> Any:
    """Our accumulator, for what the original does not have or does not survive."""
    from dense_implementations import load_implementation

    return load_implementation("tf_condacc")


@pytest.fixture(params=["graph", "eager"])
def mode(request: pytest.FixtureRequest) -> str:
    """Whether a test drives the accumulator through a v1 session or eagerly."""
    return request.param


@pytest.fixture
def driver(mode: str) -> Iterator[Callable[..., Any]]:
    """Makes drivers: `driver(impl, dtype, shape, **constructor_arguments)`."""
    from dense_support import DRIVERS

    made: list[Any] = []

    def make(*args: Any, **kwargs: Any) -> Any:
        made.append(DRIVERS[mode](*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def graph_driver() -> Iterator[Callable[..., Any]]:
    """Makes drivers of v1 sessions, for what only sessions have."""
    from dense_support import GraphDriver

    made: list[Any] = []

    def make(*args: Any, **kwargs: Any) -> Any:
        made.append(GraphDriver(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest) -> str:
    """A device on which our kernels can be run."""
    import tensorflow as tf
    from tensorflow.python.framework import kernels

    if request.param == "cpu":
        return "/CPU:0"
    if not tf.config.list_physical_devices("GPU"):
        pytest.skip("TensorFlow sees no GPU on this machine")
    request.getfixturevalue("ours")
    registered = kernels.get_registered_kernels_for_op("Condacc>DenseApply").kernel
    if not any(kernel.device_type == "GPU" for kernel in registered):
        pytest.skip("tf_condacc registers no GPU kernel for the dense accumulator")
    return "/GPU:0"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A fresh seed for each test, or the one in TF_CONDACC_TEST_SEED; shown on failure."""
    value = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(2**31))
    print(f"{SEED_VARIABLE}={value}")
    request.node.user_properties.append(("seed", value))
    return value
