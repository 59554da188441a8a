"""The Observer: writes down what really exists, in bulk, and only where it is news.

A full look lists everything the runtime owns; a hinted look asks for the named workspaces alone, which for
them is as good. The time stamped on what was seen is the database's, read *before* the look began: whatever
happened during the look may or may not be in it, so nothing later may be concluded from it.

A look that failed is not an observation. Nothing is written then, and nothing is ever inferred to be gone
from an error.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from prometheus_client import Gauge

from codehub.coordinators.leadership import Leadership
from codehub.coordinators.loop import TickReport
from codehub.coordinators.wake_signal import CoordinatorHints, WakeSignal
from codehub.domain.observation import Broken, Verdict, invariant_error, observe
from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation
from codehub.kit.clock import monotonic
from codehub.runtimes.base import Observation, Runtime, Sighting
from codehub.services import access
from codehub.signals.hints import Hint, HintTarget
from codehub.store.cluster import terms as terms
from codehub.store.db.row_locks import lock_in_order
from codehub.store.db.session import Session
from codehub.store.workspaces import observations
from codehub.store.workspaces.observations import Observable, Observed

log = structlog.get_logger(__name__)

COARSE_STAMP_EVERY = timedelta(minutes=5)
ORPHAN_DELAY = timedelta(minutes=10)

ORPHANS = Gauge("codehub_orphan_resources", "Resources of ours whose workspace is unknown", ["kind"])

_NOTHING = Sighting()


@dataclass(frozen=True)
class Timing:
    idle_seconds: float = 10.0
    active_seconds: float = 2.0
    batch_size: int = 1000


@dataclass
class News:
    """What a look changes."""

    observed: list[Observed] = field(default_factory=list)
    in_flight: list[UUID] = field(default_factory=list)
    broken: list[tuple[UUID, Operation, Broken]] = field(default_factory=list)
    left_running: list[UUID] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.observed or self.in_flight or self.broken)

    @property
    def is_one_statement(self) -> bool:
        """Several rows are locked in order first; what is broken, or was left, takes a write more."""
        return len(self.observed) + len(self.in_flight) == 1 and not (self.broken or self.left_running)


@dataclass
class FullLook:
    """One look at everything: what the runtime listed, and how far the database has been compared with it."""

    began_at: datetime
    seen: Observation
    compared: int = 0
    changed: int = 0
    busy: bool = False
    strange: set[UUID] = field(init=False)  # seen, and not found in the database so far

    def __post_init__(self) -> None:
        self.strange = set(self.seen.sightings) | self.seen.unreadable

    def note(self, rows: Sequence[Observable]) -> None:
        for row in rows:
            self.compared += len(row.ids)
            self.busy |= row.operation is not Operation.NONE
            self.strange.difference_update(row.ids)

    def orphans(self) -> dict[UUID, Sighting]:
        return {each: self.seen.sightings[each] for each in self.strange if each in self.seen.sightings}


class Observer:
    name = "observer"

    def __init__(
        self,
        *,
        leadership: Leadership,
        runtime: Runtime,
        coordinator_hints: CoordinatorHints,
        wake_signal: WakeSignal,
        timing: Timing,
    ) -> None:
        self.wake_signal = wake_signal
        self._lead = leadership
        self._runtime = runtime
        self._coordinator_hints = coordinator_hints
        self._timing = timing
        self._busy = False
        self._next_full = 0.0
        self._next_coarse = 0.0
        self._orphans: dict[UUID, datetime] = {}

    async def on_elected(self) -> None:
        self._next_full = 0.0  # what an earlier leader saw is in the rows; look at everything once
        self._orphans = {}

    async def on_lost(self) -> None:
        """Nothing runs beside the loop."""

    def next_wait_seconds(self) -> float:
        wait = self._timing.active_seconds if self._busy else self._timing.idle_seconds
        return max(0.0, min(wait, self._next_full - monotonic()))

    async def tick(self, hint: Hint | None) -> TickReport:
        # Hints must not starve the full look: it is what finds everything a hint was lost for.
        if hint is not None and not hint.everything and monotonic() < self._next_full:
            return await self._look_at(hint.ids)
        return await self._look_at_everything()

    async def _look_at(self, ids: Collection[UUID]) -> TickReport:
        async with self._lead.statement() as asking:
            rows = await observations.load_named(asking, ids)
        # Read before the look, as its time is: what has changed meanwhile the write finds out by itself.
        seen = await self._runtime.observe(ids)
        news = _compare(rows, seen)
        changed: list[UUID] = []
        if news:
            write = self._lead.statement if news.is_one_statement else self._lead.transaction
            async with write(actor="observer") as session:
                changed = await self._write(session, news, began_at=asking.now)
        await self._tell([*changed, *news.in_flight])
        return TickReport(seen=len(rows), changed=len(changed))

    async def _look_at_everything(self) -> TickReport:
        # Set before the look: an engine that is away is asked again after a pause, not in a tight circle.
        self._next_full = monotonic() + self._timing.active_seconds
        began_at = await self._lead.database_time()
        look = FullLook(began_at, await self._runtime.observe())
        async for rows in self._pages():
            await self._take_in(look, rows)
        for some in _batches(look.strange, self._timing.batch_size):
            # Seen, although at rest on record; one that left its rest meanwhile is found here, too.
            async with self._lead.statement() as session:
                named = await observations.load_named(session, some)
            await self._take_in(look, named)
        await self._stamp_coarsely(look)
        async with self._lead.statement() as session:
            await terms.record_tick(session, self._lead.name, detail={})
        self._busy = look.busy
        interval = self._timing.active_seconds if self._busy else self._timing.idle_seconds
        self._next_full = monotonic() + interval
        await self._sweep_orphans(look.orphans(), now=began_at)
        return TickReport(seen=look.compared, changed=look.changed)

    async def _pages(self) -> AsyncIterator[list[Observable]]:
        """What is watched, a batch at a time. Rows are judged one by one: no two need to be of one moment."""
        after, limit = observations.FIRST_PAGE, self._timing.batch_size
        while True:
            async with self._lead.statement() as session:
                rows = await observations.load_watched(session, after=after, limit=limit)
            yield rows
            ids = [each for row in rows for each in row.ids]
            if len(ids) < limit:
                return
            after = max(ids)

    async def _take_in(self, look: "FullLook", rows: Sequence[Observable]) -> None:
        """Compare one batch with what was seen, and write its news in one transaction."""
        look.note(rows)
        news = _compare(rows, look.seen)
        changed: list[UUID] = []
        if news:
            async with self._lead.transaction(actor="observer") as session:
                changed = await self._write(session, news, began_at=look.began_at)
        look.changed += len(changed)
        await self._tell([*changed, *news.in_flight])

    async def _write(self, session: Session, news: News, *, began_at: datetime) -> list[UUID]:
        if not news:
            return []
        if news.broken or (news.observed and news.in_flight):
            # Several statements to come, each with an order of its own: all rows before the first write.
            touched = {*(seen.id for seen in news.observed), *(each for each, _, _ in news.broken)}
            await lock_in_order(session, {*touched, *news.in_flight})
        changed = await observations.write_observations(session, news.observed, observed_at=began_at)
        if news.in_flight:
            await observations.stamp_in_flight(session, news.in_flight, observed_at=began_at)
        for each, operation, broken in news.broken:
            error = invariant_error(broken, operation=operation, error_count=0, now=began_at)
            await observations.set_invariant_error(session, each, error)
        await access.touch(session, *(each for each in news.left_running if each in changed))
        return changed

    async def _stamp_coarsely(self, look: "FullLook") -> None:
        """``observed_at`` of rows at rest moves every few minutes, in one statement, not every tick."""
        if look.seen.unreadable or monotonic() < self._next_coarse:
            return
        self._next_coarse = monotonic() + COARSE_STAMP_EVERY.total_seconds()
        async with self._lead.transaction(actor="observer") as session:
            await observations.stamp_coarse(
                session, observed_at=look.began_at, older_than=look.began_at - COARSE_STAMP_EVERY
            )

    async def _tell(self, looked_at: Sequence[UUID]) -> None:
        """Also of what did not change: a fresh stamp may be all that a completion waits for."""
        if looked_at:
            await self._coordinator_hints.send(HintTarget.RECONCILER, looked_at)

    async def _sweep_orphans(self, strange: Mapping[UUID, Sighting], *, now: datetime) -> None:
        """Ours, but of no workspace here: containers go after a delay, volumes are a person's call."""
        self._orphans = {each: self._orphans.get(each, now) for each in strange}
        with_container = [each for each in strange if strange[each].container is not ContainerState.NONE]
        ORPHANS.labels("container").set(len(with_container))
        ORPHANS.labels("volume").set(sum(1 for each in strange.values() if each.volume))
        for each in with_container:
            if now - self._orphans[each] > ORPHAN_DELAY:
                self._lead.assert_recent()
                log.warning("removing a container of no workspace", workspace_id=str(each))
                await self._runtime.remove_orphan_container(each)


def _batches(ids: Collection[UUID], size: int) -> list[list[UUID]]:
    ordered = sorted(ids)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _compare(rows: Sequence[Observable], seen: Observation) -> News:
    news = News()
    for row in rows:
        # Homes asleep say the same and share one sighting: what was no news of one is none of the next.
        no_news: Sighting | None = None
        for each in row.ids:
            sighting = seen.sightings.get(each, _NOTHING)
            if sighting is no_news:
                continue
            if each in seen.unreadable:  # something is there and cannot be read: nothing follows
                continue
            if not _tell_news(news, each, row, sighting):
                no_news = sighting
    return news


def _tell_news(news: News, workspace_id: UUID, row: Observable, sighting: Sighting) -> bool:
    """Add what follows from this sighting. False: nothing does, for none that say the same."""
    verdict = observe(
        container=sighting.container,
        volume=sighting.volume,
        deleted=row.deleted_at is not None,
        terminal_error=row.is_terminal,
        paused=sighting.paused and _is_wanted_running(row),
    )
    broken = verdict.broken is not None and not row.has_error
    if verdict.broken is not None and broken:
        news.broken.append((workspace_id, row.operation, verdict.broken))
    if (verdict.observed_status, verdict.health_status) != (row.observed_status, row.health_status):
        news.observed.append(Observed(workspace_id, verdict.observed_status, verdict.health_status))
        if _left_running_unasked(row, verdict):
            news.left_running.append(workspace_id)
    elif row.operation is not Operation.NONE:
        news.in_flight.append(workspace_id)
    else:
        return broken
    return True


def _is_wanted_running(row: Observable) -> bool:
    """At rest and wanted. One that is to be stopped or deleted is ended all the same, paused or not."""
    after = row.operation is Operation.NONE and row.deleted_at is None
    return after and row.desired_state is DesiredState.RUNNING


def _left_running_unasked(row: Observable, verdict: Verdict) -> bool:
    return (
        row.observed_status is ObservedStatus.RUNNING
        and verdict.observed_status is not ObservedStatus.RUNNING
        and row.desired_state == DesiredState.RUNNING
        and row.operation is Operation.NONE
    )
