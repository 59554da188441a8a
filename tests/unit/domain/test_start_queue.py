"""Who is next in the start queue: fair per owner, nobody overtaken, nobody blocked by another's limit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import permutations, product
from uuid import UUID

import pytest

from codehub.domain.limits import LimitKind, RunningLimits, Usage
from codehub.domain.start_queue import (
    Queued,
    RunningAges,
    StartQueue,
    admissible,
    estimate,
    exceeded_behind,
    standings,
)

from .builders import NOW, minutes, seconds

OWNERS = {name: UUID(int=number, version=4) for number, name in enumerate("abc", start=1)}
LIMITS = RunningLimits(per_user=2, in_all=4)


def queued(name: str) -> Queued:
    """``a3``: of owner a, since second 3."""
    since = NOW + seconds(int(name[1:]))
    return Queued(UUID(int=hash_of(name), version=4), OWNERS[name[0]], since)


def hash_of(name: str) -> int:
    return int.from_bytes(name.encode(), "big") + 100


def queue(names: str, *, held: str = "", in_all: int | None = None) -> StartQueue:
    """``held``: one letter for each place its owner holds."""
    places = {owner: held.count(name) for name, owner in OWNERS.items() if name in held}
    return StartQueue(
        [queued(name) for name in names.split()], places, len(held) if in_all is None else in_all
    )


def names(found: Sequence[Queued]) -> str:
    known = {hash_of(f"{owner}{number}"): f"{owner}{number}" for owner in OWNERS for number in range(10)}
    by_id = {UUID(int=number, version=4): name for number, name in known.items()}
    return " ".join(by_id[each.workspace_id] for each in found)


@pytest.mark.parametrize(
    ("waiting", "held", "in_all", "next_"),
    [
        # given: who waits, who holds places, places in all; then: who gets one, in order
        pytest.param("a1", "", 4, "a1", id="a place is free"),
        pytest.param("a1", "bbcc", 4, "", id="none is free"),
        pytest.param("a1 b2", "bcc", 4, "a1", id="one is free: the longest wait"),
        pytest.param("b2 a1", "bcc", 4, "a1", id="whatever order they are read in"),
        pytest.param("a1 a2 b3", "cc", 4, "a1 b3", id="everybody's first before anybody's second"),
        pytest.param("a1 a2 b3 c4", "", 4, "a1 b3 c4 a2", id="then the seconds"),
        pytest.param("a1 b2", "aac", 4, "b2", id="a limit of one's own blocks nobody else"),
        pytest.param("a1 a2 b3", "acc", 4, "a1", id="one is left of a's own: their second stays behind"),
        pytest.param("a1 a2 b3", "a", 4, "a1 b3", id="and does not get the place that is left"),
        pytest.param("a1 b2", "aaccc", 4, "", id="more run than may: after the limit was lowered"),
        pytest.param("a1", "aaa", 9, "", id="more of one's own run than may"),
    ],
)
def test_who_is_admitted(waiting: str, held: str, in_all: int, next_: str) -> None:
    found = admissible(queue(waiting, held=held), replace(LIMITS, in_all=in_all))
    assert names(found) == next_


@pytest.mark.parametrize(
    ("waiting", "held", "owner", "refused"),
    [
        pytest.param("", "aabb", "c", LimitKind.GLOBAL, id="all places are held"),
        pytest.param("", "abb", "c", None, id="one is free and nobody waits"),
        pytest.param("a1", "abb", "c", LimitKind.GLOBAL, id="it is for the one who waits"),
        pytest.param("a1", "bb", "c", None, id="one is left after them"),
        pytest.param("a1", "aab", "c", None, id="who waits for a place of their own holds up nobody"),
        pytest.param("a1", "ab", "a", LimitKind.USER, id="my own that waits comes before my next"),
        pytest.param("a1", "b", "a", None, id="unless I may run both"),
    ],
)
def test_a_newcomer_comes_after_those_who_wait(
    waiting: str, held: str, owner: str, refused: LimitKind | None
) -> None:
    user, everyone = Usage(held.count(owner), LIMITS.per_user), Usage(len(held), LIMITS.in_all)
    found = exceeded_behind(queue(waiting, held=held), OWNERS[owner], LIMITS, user=user, everyone=everyone)
    assert found is refused


def test_everybody_is_told_where_they_stand() -> None:
    waiting = queue("a1 a2 b3 c4", held="aabc")
    found = standings(waiting, LIMITS)
    told = {
        names([each]): (found[each.workspace_id].place, found[each.workspace_id].limit)
        for each in waiting.queued
    }
    assert told == {
        "a1": (1, LimitKind.USER),
        "a2": (2, LimitKind.USER),
        "b3": (1, LimitKind.GLOBAL),
        "c4": (2, LimitKind.GLOBAL),
    }


def test_nobody_starves() -> None:
    """With one place that gets free again and again, and a newcomer each time, everybody who waited is served."""
    for order in permutations(["a1", "a2", "a3", "b4", "c5"]):
        _serve(order)


def _serve(order: Sequence[str]) -> None:
    limits = RunningLimits(per_user=1, in_all=1)
    waiting, served, number = [queued(name) for name in order], [], 6
    for _ in range(2 * len(order)):
        (first,) = admissible(StartQueue(waiting, {}, 0), limits)
        served.append(first.workspace_id)
        waiting = [each for each in waiting if each != first]
        waiting.append(queued(f"b{number}"))  # always the same person, who asks at once again
        number = min(number + 1, 9)
    assert {queued(name).workspace_id for name in order} <= set(served)


@pytest.mark.parametrize(("held_a", "held_b", "waiting_a", "waiting_b"), list(product(range(3), repeat=4)))
def test_limits_hold_and_no_place_stays_empty(
    held_a: int, held_b: int, waiting_a: int, waiting_b: int
) -> None:
    limits = RunningLimits(per_user=2, in_all=3)
    names_ = [f"a{number}" for number in range(waiting_a)] + [
        f"b{number}" for number in range(5, 5 + waiting_b)
    ]
    held = "a" * held_a + "b" * held_b
    found = admissible(queue(" ".join(names_), held=held), limits)
    mine = {
        name: held.count(name) + sum(each.owner_id == owner for each in found)
        for name, owner in OWNERS.items()
    }
    for name in "ab":
        assert mine[name] <= max(limits.per_user, held.count(name))
    total = len(held) + len(found)
    assert total <= max(limits.in_all, len(held))
    left = {"a": waiting_a, "b": waiting_b}
    could = sum(min(left[name], max(0, 2 - held.count(name))) for name in "ab")
    assert len(found) == min(could, max(0, limits.in_all - len(held)))


@pytest.mark.parametrize(
    ("place", "running", "wait"),
    [
        (1, RunningAges(2, minutes(60)), minutes(30)),
        (3, RunningAges(2, minutes(60)), minutes(90)),
        (1, RunningAges(0, None), None),
        (1, RunningAges(4, timedelta(0)), timedelta(0)),
    ],
)
def test_the_wait_is_estimated_by_what_runs(place: int, running: RunningAges, wait: timedelta | None) -> None:
    assert estimate(place, running) == wait
