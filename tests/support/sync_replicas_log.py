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


class LogReader:
    """Reads a file of events that grows. Each event is read once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._num_read_bytes = 0
        self._events: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """Returns all events so far, without a last line that is not whole (yet)."""
        with open(self._path, "rb") as file:
            file.seek(self._num_read_bytes)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._events += map(json.loads, whole.splitlines())
        self._num_read_bytes += len(whole)
        return self._events


def read_log(path: str) -> list[dict[str, Any]]:
    """Returns the events of a file."""
    return LogReader(path).read()


Slots = dict[int, set[int]]


class _Gradients:
    """The gradients of all rounds, by variable and round, then slot.

    A worker that was killed, or whose step failed, does not log the outcomes of its pushes, and
    perhaps not even its claim. Its gradient may have been added nevertheless.

    Attributes:
        added: Values that were added.
        claimed: Values with a known claim and unknown outcomes.
        unclaimed: Values without a known claim or outcome, by variable.
    """

    def __init__(self, events: Iterable[dict[str, Any]]) -> None:
        self.added: dict[Any, Slots] = collections.defaultdict(dict)
        self.claimed: dict[Any, Slots] = collections.defaultdict(dict)
        self.unclaimed: dict[str, set[int]] = {}
        by_kind = collections.defaultdict(list)
        for event in events:
            by_kind[event["kind"]].append(event)
        pushes, claims = by_kind["push"], by_kind["claim"]
        for push in pushes:
            if push["outcome"] == ApplyOutcome.ADDED:
                slots = self.added[push["var"], push["round"]]
                slots.setdefault(push["slot"], set()).add(push["value"])
        values = {event["value"] for event in by_kind["value"]}
        values_with_claim = {claim["value"] for claim in claims}
        for variable in {push["var"] for push in pushes}:
            known = {push["value"] for push in pushes if push["var"] == variable}
            for claim in claims:
                if claim["value"] not in known:
                    slots = self.claimed[variable, claim["round"]]
                    slots.setdefault(claim["slot"], set()).add(claim["value"])
            self.unclaimed[variable] = values - values_with_claim - known

    def check(self, variable: str, round_: int, total: int, replicas: int) -> None:
        """Checks that a take is the sum of one gradient of each slot, all added ones included.

        Raises:
            AssertionError: It is not.
        """
        added = self.added[variable, round_]
        claimed, unclaimed = self.claimed[variable, round_], self.unclaimed.get(variable, set())
        candidates = [
            added.get(slot) or claimed.get(slot, set()) | unclaimed for slot in range(replicas)
        ]
        choices = [
            choice
            for choice in itertools.product(*candidates)
            if sum(choice) == total and len(set(choice)) == replicas
        ]
        assert choices and all(len(values) == 1 for values in added.values()), (
            f"{variable} at round {round_}: took {total}, pushed {added}, "
            f"perhaps {claimed} or one of {unclaimed}"
        )
        unclaimed -= set(choices[0])  # No gradient counts twice.


def check_rounds(events: list[dict[str, Any]], replicas: int) -> dict[str, int]:
    """Checks each take against the pushes; returns the sum of all takes, by variable.

    Raises:
        AssertionError: A take is not the sum of one gradient from each slot of its round.
    """
    gradients = _Gradients(events)
    totals: dict[str, int] = collections.defaultdict(int)
    taken = set()
    for event in events:
        if event["kind"] != "take":
            continue
        key = event["var"], event["round"]
        assert key not in taken, f"{key} was taken twice"
        taken.add(key)
        gradients.check(*key, event["total"], replicas)
        totals[event["var"]] += event["total"]
    return totals


def check_weights(
    events: list[dict[str, Any]],
    replicas: int,
    weights: Mapping[str, float],
    base: Mapping[str, float] | None = None,
    *,
    chief_was_killed: bool = False,
    late: Iterable[dict[str, Any]] = (),
) -> dict[str, int]:
    """Checks that the weights are `base` and what the logs say, and returns the sums of takes.

    A chief that was killed may have logged takes of its last round whose updates it did not make,
    of each variable by itself. The same holds for `late` takes, of an earlier session of a chief:
    what was left of its last update may go on after the weights were restored. Here that may be
    long afterwards, because gradients pass through the chief's process to be logged.

    Raises:
        AssertionError: They are not, or a take is not what the logs say.
    """
    totals = check_rounds(events, replicas)
    takes = [event for event in events if event["kind"] == "take"]
    last_round = max((take["round"] for take in takes), default=0)
    last = {take["var"]: take["total"] for take in takes if take["round"] == last_round}
    for name, weight in weights.items():
        expected = (base or {}).get(name, 0.0) + totals[name] / replicas
        possible = {expected}
        if chief_was_killed:
            possible.add(expected - last.get(name, 0) / replicas)
        for take in late:
            if take["var"] == name:
                possible |= {value + take["total"] / replicas for value in possible}
        assert weight in possible, f"{name} is {weight} instead of {possible}, {dict(weights)}"
    return totals
