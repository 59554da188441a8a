"""Observer: record which containers and volumes exist, where that changed.

A full observation lists everything the runtime owns; a hinted one asks for the named workspaces alone, and is
as good for them. ``observed_at`` is the database's time, read *before* the observation began: what happened
during the observation may or may not be in it, so it proves nothing about any later time.

An observation that failed writes nothing, and nothing is ever inferred to be gone from an error.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from prometheus_client import Gauge

from codehub.coordinators.control_store import ObserverStore
from codehub.coordinators.leadership import Leadership
from codehub.coordinators.loop import TickReport
from codehub.coordinators.wake_signal import CoordinatorHints, WakeSignal
from codehub.domain.observation import Broken, ObservedState, invariant_error, observe
from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation
from codehub.kit.clock import monotonic
from codehub.runtimes.base import Observation, Runtime, Sighting
from codehub.services import access
from codehub.signals.hints import Hint, HintTarget
from codehub.store.db.session import Session
from codehub.store.workspaces.observations import FIRST_PAGE, Observable, Observed

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
class Changes:
    """What an observation changes in the database."""

    observed: list[Observed] = field(default_factory=list)
    in_flight: list[UUID] = field(default_factory=list)
    broken: list[tuple[UUID, Operation, Broken]] = field(default_factory=list)
    left_running: list[UUID] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.observed or self.in_flight or self.broken)

    @property
    def is_one_statement(self) -> bool:
        """Whether one statement writes it all.

        Several rows are locked in order first; a broken one, or one that left RUNNING, takes a further write.
        """
        return len(self.observed) + len(self.in_flight) == 1 and not (self.broken or self.left_running)


@dataclass
class FullObservation:
    """A full observation, and how far the database has been compared with it."""

    began_at: datetime
    seen: Observation
    compared: int = 0
    changed: int = 0
    busy: bool = False
    unmatched: set[UUID] = field(init=False)  # observed, and not found in the database so far

    def __post_init__(self) -> None:
        self.unmatched = set(self.seen.sightings) | self.seen.unreadable

    def note(self, rows: Sequence[Observable]) -> None:
        for row in rows:
            self.compared += len(row.ids)
            self.busy |= row.operation is not Operation.NONE
            self.unmatched.difference_update(row.ids)

    def orphans(self) -> dict[UUID, Sighting]:
        return {each: self.seen.sightings[each] for each in self.unmatched if each in self.seen.sightings}


class Observer:
    """Coordinator that writes ``observed_status`` and ``health_status``."""

    name = "observer"

    def __init__(
        self,
        *,
        store: ObserverStore,
        leadership: Leadership,
        runtime: Runtime,
        coordinator_hints: CoordinatorHints,
        wake_signal: WakeSignal,
        timing: Timing,
    ) -> None:
        self.wake_signal = wake_signal
        self._store = store
        self._lead = leadership
        self._runtime = runtime
        self._coordinator_hints = coordinator_hints
        self._timing = timing
        self._busy = False
        self._next_full = 0.0
        self._next_coarse = 0.0
        self._orphans: dict[UUID, datetime] = {}

    async def on_elected(self) -> None:
        self._next_full = 0.0  # begin with a full observation
        self._orphans = {}

    async def on_lost(self) -> None:
        """Nothing runs beside the loop."""

    def next_wait_seconds(self) -> float:
        wait = self._timing.active_seconds if self._busy else self._timing.idle_seconds
        return max(0.0, min(wait, self._next_full - monotonic()))

    async def tick(self, hint: Hint | None) -> TickReport:
        # Hints must not starve the full observation, which finds every change whose hint was lost.
        if hint is not None and not hint.everything and monotonic() < self._next_full:
            return await self._observe_named(hint.ids)
        return await self._observe_all()

    async def _observe_named(self, ids: Collection[UUID]) -> TickReport:
        async with self._lead.statement() as asking:
            rows = await self._store.load_named(asking, ids)
        # Rows and time are read before the observation; the write compares, so it skips rows changed meanwhile.
        seen = await self._runtime.observe(ids)
        changes = _compare(rows, seen)
        changed: list[UUID] = []
        if changes:
            write = self._lead.statement if changes.is_one_statement else self._lead.transaction
            async with write(actor="observer") as session:
                changed = await self._write(session, changes, began_at=asking.now)
        await self._hint_reconciler([*changed, *changes.in_flight])
        return TickReport(seen=len(rows), changed=len(changed))

    async def _observe_all(self) -> TickReport:
        # Set before the observation: an engine that is away is asked again after a pause, not in a busy loop.
        self._next_full = monotonic() + self._timing.active_seconds
        began_at = await self._lead.database_time()
        full = FullObservation(began_at, await self._runtime.observe())
        async for rows in self._pages():
            await self._compare_batch(full, rows)
        for some in _batches(full.unmatched, self._timing.batch_size):
            # Observed, although not among the watched rows: at rest, or changed since its page was read.
            async with self._lead.statement() as session:
                named = await self._store.load_named(session, some)
            await self._compare_batch(full, named)
        await self._stamp_coarsely(full)
        async with self._lead.statement() as session:
            await self._store.record_tick(session, self._lead.name, detail={})
        self._busy = full.busy
        interval = self._timing.active_seconds if self._busy else self._timing.idle_seconds
        self._next_full = monotonic() + interval
        await self._sweep_orphans(full.orphans(), now=began_at)
        return TickReport(seen=full.compared, changed=full.changed)

    async def _pages(self) -> AsyncIterator[list[Observable]]:
        """Watched rows in batches. Each row is compared alone, so batches need not share a snapshot."""
        after, limit = FIRST_PAGE, self._timing.batch_size
        while True:
            async with self._lead.statement() as session:
                rows = await self._store.load_watched(session, after=after, limit=limit)
            yield rows
            ids = [each for row in rows for each in row.ids]
            if len(ids) < limit:
                return
            after = max(ids)

    async def _compare_batch(self, full: "FullObservation", rows: Sequence[Observable]) -> None:
        """Compare one batch of rows with the observation; write its changes in one transaction."""
        full.note(rows)
        changes = _compare(rows, full.seen)
        changed: list[UUID] = []
        if changes:
            async with self._lead.transaction(actor="observer") as session:
                changed = await self._write(session, changes, began_at=full.began_at)
        full.changed += len(changed)
        await self._hint_reconciler([*changed, *changes.in_flight])

    async def _write(self, session: Session, changes: Changes, *, began_at: datetime) -> list[UUID]:
        if not changes:
            return []
        if changes.broken or (changes.observed and changes.in_flight):
            # Several statements follow, each locking in an order of its own: lock all rows before the first write.
            touched = {*(seen.id for seen in changes.observed), *(each for each, _, _ in changes.broken)}
            await self._store.lock_in_order(session, {*touched, *changes.in_flight})
        changed = await self._store.write_observations(session, changes.observed, observed_at=began_at)
        if changes.in_flight:
            await self._store.stamp_in_flight(session, changes.in_flight, observed_at=began_at)
        for each, operation, broken in changes.broken:
            error = invariant_error(broken, operation=operation, error_count=0, now=began_at)
            await self._store.set_invariant_error(session, each, error)
        left = [each for each in changes.left_running if each in changed]
        await access.touch(session, *left, store=self._store)
        return changed

    async def _stamp_coarsely(self, full: "FullObservation") -> None:
        """Update ``observed_at`` of rows at rest: every 5 min in one statement, not every tick."""
        if full.seen.unreadable or monotonic() < self._next_coarse:
            return
        self._next_coarse = monotonic() + COARSE_STAMP_EVERY.total_seconds()
        async with self._lead.transaction(actor="observer") as session:
            await self._store.stamp_coarse(
                session, observed_at=full.began_at, older_than=full.began_at - COARSE_STAMP_EVERY
            )

    async def _hint_reconciler(self, observed: Sequence[UUID]) -> None:
        """Unchanged rows are hinted too: a completion may wait for a newer ``observed_at`` only."""
        if observed:
            await self._coordinator_hints.send(HintTarget.RECONCILER, observed)

    async def _sweep_orphans(self, orphans: Mapping[UUID, Sighting], *, now: datetime) -> None:
        """Remove orphaned containers after ``ORPHAN_DELAY``. Orphaned volumes are only counted: a person decides."""
        self._orphans = {each: self._orphans.get(each, now) for each in orphans}
        with_container = [each for each in orphans if orphans[each].container is not ContainerState.NONE]
        ORPHANS.labels("container").set(len(with_container))
        ORPHANS.labels("volume").set(sum(1 for each in orphans.values() if each.volume))
        for each in with_container:
            if now - self._orphans[each] > ORPHAN_DELAY:
                self._lead.assert_recent()
                log.warning("removing a container of no workspace", workspace_id=str(each))
                await self._runtime.remove_orphan_container(each)


def _batches(ids: Collection[UUID], size: int) -> list[list[UUID]]:
    ordered = sorted(ids)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _compare(rows: Sequence[Observable], seen: Observation) -> Changes:
    changes = Changes()
    for row in rows:
        # Workspaces in STANDBY share one row and one sighting: if it changes nothing for one, skip the others.
        unchanged: Sighting | None = None
        for each in row.ids:
            sighting = seen.sightings.get(each, _NOTHING)
            if sighting is unchanged:
                continue
            if each in seen.unreadable:  # something exists and cannot be read: nothing follows
                continue
            if not _compare_one(changes, each, row, sighting):
                unchanged = sighting
    return changes


def _compare_one(changes: Changes, workspace_id: UUID, row: Observable, sighting: Sighting) -> bool:
    """Add what this sighting changes. False: nothing, for every id of this row with the same sighting."""
    state = observe(
        container=sighting.container,
        volume=sighting.volume,
        deleted=row.deleted_at is not None,
        terminal_error=row.is_terminal,
        paused=sighting.paused and _is_wanted_running(row),
    )
    broken = state.broken is not None and not row.has_error
    if state.broken is not None and broken:
        changes.broken.append((workspace_id, row.operation, state.broken))
    if (state.observed_status, state.health_status) != (row.observed_status, row.health_status):
        changes.observed.append(Observed(workspace_id, state.observed_status, state.health_status))
        if _left_running_unasked(row, state):
            changes.left_running.append(workspace_id)
    elif row.operation is not Operation.NONE:
        changes.in_flight.append(workspace_id)
    else:
        return broken
    return True


def _is_wanted_running(row: Observable) -> bool:
    """At rest and wanted running. One that is to be stopped or deleted is ended, paused or not."""
    at_rest = row.operation is Operation.NONE and row.deleted_at is None
    return at_rest and row.desired_state is DesiredState.RUNNING


def _left_running_unasked(row: Observable, state: ObservedState) -> bool:
    return (
        row.observed_status is ObservedStatus.RUNNING
        and state.observed_status is not ObservedStatus.RUNNING
        and row.desired_state == DesiredState.RUNNING
        and row.operation is Operation.NONE
    )
