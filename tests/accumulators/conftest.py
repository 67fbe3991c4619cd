"""Fixtures of the tests of accumulators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.accumulators.support.calls import Calls, SessionCalls
from tests.processes.clusters import LocalCluster
from tests.support.waiting import PATIENCE_SECS
from tf_condacc._accumulators import eager


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "narrow(to): tells for which of its parameters `make test` runs a test"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests as `wide` for whose parameters the function of their mark `narrow` is false."""
    for item in items:
        narrow = item.get_closest_marker("narrow")
        if narrow and Path(__file__).parent in item.path.parents:
            names = inspect.signature(narrow.kwargs["to"]).parameters
            if not narrow.kwargs["to"](*(item.callspec.params.get(name) for name in names)):
                item.add_marker(pytest.mark.wide)


@pytest.fixture(scope="package", autouse=True)
def poll_secs() -> Iterator[float]:
    """Lets eager takes sleep while they wait. Yields how often they would look for Ctrl-C.

    `Background.wait_until_blocked` waits until all threads sleep at the same time.
    """
    before, eager._POLL_SECONDS = eager._POLL_SECONDS, PATIENCE_SECS
    yield before
    eager._POLL_SECONDS = before


@pytest.fixture(scope="session")
def cluster() -> LocalCluster:
    """Returns a parameter server and a worker. Servers cannot stop, so tests share them."""
    return LocalCluster(num_ps=1, num_workers=1)


def _closing(choose: Callable[[Any], type[Calls]]) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(impl: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(choose(impl)(impl, *args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def driver() -> Iterator[Callable[..., Any]]:
    """Yields a function that makes an accumulator: `driver(impl, dtype, shape, **arguments)`.

    Its calls are eager for our dense accumulator, and in a session for all others. The programs of
    test_programs.py make them in every mode.
    """
    yield from _closing(lambda impl: Calls if impl.name == "tf_condacc" else SessionCalls)


@pytest.fixture
def graph_driver() -> Iterator[Callable[..., Any]]:
    """Yields a function like `driver`, for tests of sessions."""
    yield from _closing(lambda impl: SessionCalls)


@pytest.fixture
def rows_driver(driver: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function like `driver`, whose gradients and taken values are `Rows`."""
    return functools.partial(driver, rows=True)
