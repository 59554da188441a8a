"""Decide who of those that wait for a running place is next. Pure.

A workspace whose start found no place may wait in the start queue (``workspaces.queued_at``). The order is fair per
owner: everybody's first goes before anybody's second, the longest wait first among equals. Whoever waits is overtaken
only by those who waited longer, so nobody starves: the first of each owner moves up with every place given, and an
owner's second becomes their first.

Nobody blocks others by a limit of their own: workspaces beyond what their owner may run wait for a place of that owner,
and keep the time they came at.

Invariant: a place goes to a newcomer only if it is left after everybody who waits and could take one
(``exceeded_behind``). Callers read queue and places under the limits' lock (``store/workspaces/limits``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from codehub.domain.limits import LimitKind, RunningLimits, Usage, exceeded


@dataclass(frozen=True)
class Queued:
    """One workspace in the queue."""

    workspace_id: UUID
    owner_id: UUID
    since: datetime


@dataclass(frozen=True)
class StartQueue:
    """Who waits, how many places their owners hold, and how many are held in all. Read together."""

    queued: Sequence[Queued]
    held: Mapping[UUID, int]
    held_in_all: int

    def __bool__(self) -> bool:
        return bool(self.queued)


@dataclass(frozen=True)
class Standing:
    """Where a workspace stands: its place among those who wait for the same limit, 1 is next."""

    place: int
    limit: LimitKind
    since: datetime


@dataclass(frozen=True)
class RunningAges:
    """How many run, and for how long already, on average. None: nobody runs."""

    count: int
    mean: timedelta | None


def admissible(queue: StartQueue, limits: RunningLimits) -> list[Queued]:
    """List who gets a place now, in order."""
    able, _ = _by_limit(queue, limits)
    return able[: max(0, limits.in_all - queue.held_in_all)]


def standings(queue: StartQueue, limits: RunningLimits) -> dict[UUID, Standing]:
    """Tell everybody in the queue where they stand."""
    able, behind_own = _by_limit(queue, limits)
    found = {
        each.workspace_id: Standing(place, LimitKind.GLOBAL, each.since)
        for place, each in enumerate(able, start=1)
    }
    for mine in behind_own.values():
        for place, each in enumerate(mine, start=1):
            found[each.workspace_id] = Standing(place, LimitKind.USER, each.since)
    return found


def exceeded_behind(
    queue: StartQueue, owner_id: UUID, limits: RunningLimits, *, user: Usage, everyone: Usage
) -> LimitKind | None:
    """Which limit forbids a start of this owner once those who came before are served; None: neither.

    ``user``, ``everyone``: the places used now.
    """
    ahead = admissible(queue, limits)
    mine = sum(1 for each in ahead if each.owner_id == owner_id)
    return exceeded(
        user=replace(user, used=user.used + mine),
        everyone=replace(everyone, used=everyone.used + len(ahead)),
    )


def estimate(place: int, running: RunningAges) -> timedelta | None:
    """Estimate the wait for the ``place``-th place that gets free; None: nothing to go by.

    What has run for an hour on average runs for another hour on average (of any process in balance, the time since
    the beginning and the time to the end are alike). With n of them running, one ends every n-th part of that.
    """
    if running.mean is None or running.count == 0:
        return None
    return running.mean * place / running.count


def _by_limit(queue: StartQueue, limits: RunningLimits) -> tuple[list[Queued], dict[UUID, list[Queued]]]:
    """Those who wait for any place, in order; and by owner, those who wait for one of their owner's."""
    by_owner: dict[UUID, list[Queued]] = {}
    for each in sorted(queue.queued, key=_age):
        by_owner.setdefault(each.owner_id, []).append(each)
    turns: list[tuple[int, Queued]] = []
    behind_own: dict[UUID, list[Queued]] = {}
    for owner_id, mine in by_owner.items():
        free = max(0, limits.per_user - queue.held.get(owner_id, 0))
        turns += enumerate(mine[:free])
        if mine[free:]:
            behind_own[owner_id] = mine[free:]
    return [each for _, each in sorted(turns, key=lambda turn: (turn[0], *_age(turn[1])))], behind_own


def _age(queued: Queued) -> tuple[datetime, UUID]:
    return queued.since, queued.workspace_id
