"""Fixtures of the tests of accumulators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.accumulators.support.contribution_drivers import CONTRIBUTION_DRIVERS
from tests.accumulators.support.rows import ROWS_DRIVERS
from tests.processes.clusters import LocalCluster
from tests.support.accumulator_support import DRIVERS
from tests.support.waiting import PATIENCE_SECS
from tf_condacc._accumulators import eager


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "narrow(to): tells for which of its parameters `make test` runs a test"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests as `wide` that `make test` leaves out, because others prove most of the same."""
    for item in items:
        if Path(__file__).parent in item.path.parents and _is_wide(item):
            item.add_marker(pytest.mark.wide)


def _is_wide(item: pytest.Item) -> bool:
    """Returns whether `make test` leaves a test out.

    A test with the marker `narrow` has a function that says for which of its parameters it is run.
    Of the others, `make test` runs those on our dense accumulator eagerly and those on all other
    accumulators in graphs. Random programs run in all modes.
    """
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if narrow := item.get_closest_marker("narrow"):
        names = inspect.signature(narrow.kwargs["to"]).parameters
        return not narrow.kwargs["to"](*(parameters.get(name) for name in names))
    mode = parameters.get("mode") or parameters.get("contributions")
    if mode is None or not {"impl", "ours", "original"} & set(item.fixturenames):
        return False
    one = parameters.get("impl") or parameters.get("ours", "dense")
    is_ours = "original" not in item.fixturenames and one in ("tf_condacc", "dense")
    return mode != ("eager" if is_ours else "graph")


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
    """Returns how a test drives the accumulator: "graph" (a v1 session) or "eager"."""
    return request.param


@pytest.fixture
def driver(mode: str) -> Iterator[Callable[..., Any]]:
    """Yields a function that makes drivers: `driver(impl, dtype, shape, **arguments)`."""
    yield from _drivers(DRIVERS, mode)


@pytest.fixture
def graph_driver() -> Iterator[Callable[..., Any]]:
    """Yields a function that makes drivers with v1 sessions, for tests of sessions only."""
    yield from _drivers(DRIVERS, "graph")


@pytest.fixture(params=["graph", "function", "eager"])
def contributions(ours: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Yields a function that makes drivers of contributions: `contributions(dtype, shape, ...)`."""
    for make in _drivers(CONTRIBUTION_DRIVERS, request.param):
        yield functools.partial(make, ours)


@pytest.fixture
def rows_driver(mode: str) -> Iterator[Callable[..., Any]]:
    """Yields a function that makes drivers whose gradients and taken values are `Rows`."""
    yield from _drivers(ROWS_DRIVERS, mode)


@pytest.fixture
def rows_graph_driver() -> Iterator[Callable[..., Any]]:
    """Yields a function like `rows_driver`, with v1 sessions only."""
    yield from _drivers(ROWS_DRIVERS, "graph")
