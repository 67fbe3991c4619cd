"""Logs what workers push and chiefs take, and checks that the weights are the sum of it."""

from __future__ import annotations

import collections
import itertools
import json
import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from tf_condacc import ApplyOutcome


class PushLog:
    """A log of events of workers, in a list or in a file that outlives the process."""

    def __init__(self, path: str | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._file = None if path is None else os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    def add(self, kind: str, **fields: Any) -> None:
        event = {"kind": kind, **fields}
        with self._lock:
            self.events.append(event)
        if self._file is not None:
            os.write(self._file, (json.dumps(event) + "\n").encode())


def read_log(path: str) -> list[dict[str, Any]]:
    """Reads a file of events; a process that was killed may have cut the last one."""
    with open(path) as file:
        lines = [line for line in file if line.endswith("\n")]
    return [json.loads(line) for line in lines]


def _gradients_of_rounds(
    events: Iterable[dict[str, Any]],
) -> tuple[dict[Any, dict[int, set[int]]], dict[Any, dict[int, set[int]]]]:
    """Returns the values that were added, and those that may have been, by slot of each round.

    A worker that was killed does not tell what became of its pushes.
    """
    added: dict[Any, dict[int, set[int]]] = collections.defaultdict(dict)
    known: set[tuple[str, int]] = set()
    claims = []
    for event in events:
        if event["kind"] == "push":
            known.add((event["var"], event["value"]))
            if event["outcome"] == ApplyOutcome.ADDED:
                slots = added[event["var"], event["round"]]
                slots.setdefault(event["slot"], set()).add(event["value"])
        elif event["kind"] == "claim":
            claims.append(event)
    maybe: dict[Any, dict[int, set[int]]] = collections.defaultdict(dict)
    for variable in {var for var, _ in added}:
        for claim in claims:
            if (variable, claim["value"]) not in known:
                slots = maybe[variable, claim["round"]]
                slots.setdefault(claim["slot"], set()).add(claim["value"])
    return added, maybe


def _is_sum_of_slots(
    total: int, replicas: int, added: dict[int, set[int]], maybe: dict[int, set[int]]
) -> bool:
    """Returns whether a total is the sum of one gradient of each slot, all added ones included."""
    if any(len(values) > 1 for values in added.values()):
        return False
    candidates = [added.get(slot) or maybe.get(slot, set()) for slot in range(replicas)]
    return any(sum(choice) == total for choice in itertools.product(*candidates))


def check_rounds(events: list[dict[str, Any]], replicas: int) -> dict[str, int]:
    """Checks each take against the pushes; returns the sum of all takes, by variable.

    Raises:
        AssertionError: A take is not the sum of one gradient from each slot of its round.
    """
    added, maybe = _gradients_of_rounds(events)
    totals: dict[str, int] = collections.defaultdict(int)
    taken = set()
    for event in events:
        if event["kind"] != "take":
            continue
        key = event["var"], event["round"]
        assert key not in taken, f"{key} was taken twice"
        taken.add(key)
        assert _is_sum_of_slots(event["total"], replicas, added[key], maybe[key]), (
            f"{key}: took {event['total']}, pushed {added[key]}, perhaps {maybe[key]}"
        )
        totals[event["var"]] += event["total"]
    return totals


def check_weights(
    events: list[dict[str, Any]],
    replicas: int,
    weights: Mapping[str, float],
    base: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """Checks that the weights are `base` and what the logs say, and returns the sums of takes."""
    totals = check_rounds(events, replicas)
    expected = {name: (base or {}).get(name, 0.0) + totals[name] / replicas for name in weights}
    assert dict(weights) == expected, f"{weights} instead of {expected}"
    return totals
