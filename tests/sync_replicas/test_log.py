"""Tests of the check that compares takes with the logs of pushes."""

from __future__ import annotations

import pytest

from tests.support.sync_replicas_log import check_rounds, check_weights
from tf_condacc import ApplyOutcome


def value(number: int) -> dict:
    return {"kind": "value", "task": 0, "value": number}


def claim(number: int, round_: int, slot: int) -> dict:
    return {"kind": "claim", "task": 0, "round": round_, "slot": slot, "value": number}


def push(number: int, round_: int, slot: int, outcome: int = ApplyOutcome.ADDED) -> dict:
    return {**claim(number, round_, slot), "kind": "push", "var": "w", "outcome": outcome}


def take(total: int, round_: int) -> dict:
    return {"kind": "take", "var": "w", "round": round_, "total": total}


VALUES = [value(number) for number in (1, 20, 300, 4000)]
FIRST = push(1, round_=5, slot=0)


@pytest.mark.parametrize(
    "events",
    [
        [FIRST, push(20, 5, 1)],
        [FIRST, push(300, 5, 1, ApplyOutcome.DUPLICATE), push(20, 5, 1)],
        [FIRST, claim(20, 5, 1)],
        [FIRST],  # The worker of 20 was killed before it could log its claim.
    ],
    ids=["pushed", "duplicate", "claimed", "unknown"],
)
def test_the_sum_of_one_gradient_of_each_slot_is_accepted(events):
    assert check_rounds([*VALUES, *events, take(21, 5)], 2) == {"w": 21}


@pytest.mark.parametrize(
    "events",
    [
        [FIRST, push(300, 5, 1), take(21, 5)],
        [FIRST, push(20, 5, 1), push(300, 5, 1), take(321, 5)],
        [FIRST, push(20, 5, 0), take(21, 5)],
        [FIRST, push(20, 5, 1, ApplyOutcome.STALE), take(21, 5)],
        [FIRST, claim(20, 6, 1), take(21, 5)],
        [FIRST, take(2, 5)],
        [FIRST, push(20, 5, 1), take(21, 5), take(21, 5)],
        [FIRST, take(21, 5), push(300, 6, 0), take(320, 6)],
    ],
    ids=[
        "another gradient",
        "two of a slot",
        "the same slot",
        "a stale one",
        "claimed in another round",
        "one twice",
        "a round twice",
        "one in two rounds",
    ],
)
def test_anything_else_is_refused(events):
    with pytest.raises(AssertionError):
        check_rounds([*VALUES, *events], 2)


TWO_ROUNDS = [*VALUES, FIRST, push(20, 5, 1), take(21, 5), push(300, 6, 0), push(4000, 6, 1)]


@pytest.mark.parametrize("weight", [21 / 2, 4321 / 2], ids=["not made", "made"])
def test_a_chief_that_was_killed_may_not_have_made_its_last_update(weight):
    check_weights([*TWO_ROUNDS, take(4300, 6)], 2, {"w": weight}, chief_was_killed=True)


@pytest.mark.parametrize(("weight", "was_killed"), [(0, True), (2150, True), (21 / 2, False)])
def test_weights_that_lack_another_update_are_refused(weight, was_killed):
    with pytest.raises(AssertionError, match="instead of"):
        check_weights([*TWO_ROUNDS, take(4300, 6)], 2, {"w": weight}, chief_was_killed=was_killed)
