"""Archive GC: delete orphaned archives after a delay.

Nothing else deletes an archive, and on any doubt the cycle is skipped. A cycle lists the store, loads the
owning workspaces and sorts by ``domain/retention``. An orphan is deleted only when an earlier cycle saw it
orphaned too, more than the delay ago by the database's clock. If the listing or the database fails, the cycle
is skipped: a partial view must never look like absence. Packs of format 2 that no manifest names are orphans too
(``pack_sweep``), with the same two cycles.

A crash anywhere in a cycle loses no data: a deletion removes the meta first, and the next cycle finds the rest.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

import structlog
from prometheus_client import Counter, Gauge

from codehub.archives.keys import ArchivePath, PackPath, parse_archive_key, parse_pack_key
from codehub.archives.store import ArchiveObject
from codehub.coordinators.control_store import GcStore
from codehub.coordinators.leadership import Leadership
from codehub.coordinators.loop import TickReport
from codehub.coordinators.pack_sweep import PackMarks
from codehub.coordinators.wake_signal import WakeSignal
from codehub.domain.retention import (
    Owner,
    Protection,
    Sorted,
    StoredAttempt,
    Thinning,
    may_delete,
    sort_archives,
)
from codehub.domain.snapshots import keys_of
from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.signals.hints import Hint
from codehub.store.db.session import Session

log = structlog.get_logger(__name__)

OWNERS_AT_ONCE = 1000
DELETE_AT_ONCE = 500
SHOWN = 200

DELETED = Counter("codehub_gc_archives_deleted_total", "Archive attempts removed")
PACKS_DELETED = Counter("codehub_gc_packs_deleted_total", "Packs removed")
STORED_PACKS = Gauge("codehub_archive_packs", "Packs seen in the last cycle")
STORED = Gauge("codehub_archive_attempts", "Archive attempts seen in the last cycle", ["kind"])


class ArchiveObjects(Protocol):
    """The archive store, as the GC uses it."""

    def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]: ...

    async def delete(self, paths: Sequence[ArchivePath]) -> None: ...

    async def pack_names(self, path: ArchivePath, size: int) -> frozenset[str] | None: ...

    async def delete_packs(self, packs: Sequence[PackPath]) -> None: ...


@dataclass(frozen=True)
class Timing:
    interval_seconds: float = 3600.0
    delay: timedelta = timedelta(hours=2)
    keep_generations: int = 3
    thinning: Thinning = field(default_factory=Thinning)


@dataclass(frozen=True)
class _Listed:
    """The store as listed: attempts, the sizes of manifests, and packs."""

    attempts: list[StoredAttempt]
    manifests: dict[ArchivePath, int]
    packs: list[PackPath]


class ArchiveGc:
    """Coordinator that deletes orphaned archives."""

    name = "gc"

    def __init__(
        self,
        *,
        store: GcStore,
        leadership: Leadership,
        archives: ArchiveObjects,
        wake_signal: WakeSignal,
        timing: Timing,
    ) -> None:
        self.wake_signal = wake_signal
        self._store = store
        self._lead = leadership
        self._archives = archives
        self._timing = timing
        self._marks = PackMarks(archives)

    async def on_elected(self) -> None:
        """Do nothing: first-seen times are in the database, so a new leader continues."""

    async def on_lost(self) -> None:
        """Nothing runs beside the loop."""

    def next_wait_seconds(self) -> float:
        return self._timing.interval_seconds

    async def tick(self, hint: Hint | None) -> TickReport:
        del hint
        listed = await self._list()
        packs = await self._find_orphaned_packs(listed)
        attempts = listed.attempts
        async with self._lead.transaction() as session:
            now = self._lead.now
            found = await self._sort(session, attempts)
            candidates = found.orphans
            seen = [each.key for each in candidates] + [each.key for each in packs]
            first_seen = await self._store.replace_seen(session, seen)
            await self._store.record_tick(session, self._lead.name, detail=_operator_detail(found))
        known_before = [each for each in candidates if self._is_due(first_seen.get(each.key), now=now)]
        deleted = await self._delete(known_before)
        await self._sweep([each for each in packs if self._is_due(first_seen.get(each.key), now=now)])
        return TickReport(seen=len(attempts), changed=deleted)

    def _is_due(self, first_seen_at: datetime | None, *, now: datetime) -> bool:
        return may_delete(first_seen_at=first_seen_at, now=now, delay=self._timing.delay)

    async def _find_orphaned_packs(self, listed: "_Listed") -> list[PackPath]:
        """Look for packs that nobody names. The operations are read before the manifests (``pack_sweep``)."""
        unnamed = await self._marks.unnamed(listed.packs, listed.manifests)
        if not unnamed:
            return []
        async with self._lead.transaction() as session:
            owners = await self._load_owners(session, unnamed)
        return await self._marks.orphans(unnamed, owners)

    async def _sweep(self, due: Sequence[PackPath]) -> None:
        """Delete packs that were unnamed in this cycle and in one before.

        A crash in between leaves some of them, which the next cycle finds.
        """
        for start in range(0, len(due), DELETE_AT_ONCE):
            batch = due[start : start + DELETE_AT_ONCE]
            self._lead.assert_recent()
            await self._archives.delete_packs(batch)
            async with self._lead.transaction() as session:
                await self._store.forget(session, [each.key for each in batch])
            PACKS_DELETED.inc(len(batch))
            log.info("packs removed", count=len(batch))

    async def _list(self) -> "_Listed":
        """Every attempt and pack in the store whose name is ours; raises if any page could not be read."""
        objects: dict[ArchivePath, dict[bool, datetime]] = defaultdict(dict)
        manifests: dict[ArchivePath, int] = {}
        packs: list[PackPath] = []
        async for page in self._archives.list_paths():
            for entry in page:
                if entry.parsed is not None:
                    objects[entry.parsed.path][entry.parsed.is_meta] = entry.last_modified
                    if entry.parsed.path.format_version == 2 and not entry.parsed.is_meta:
                        manifests[entry.parsed.path] = entry.size
                elif (pack := parse_pack_key(entry.key)) is not None:
                    packs.append(pack)
        STORED_PACKS.set(len(packs))
        attempts = [
            StoredAttempt(
                key=path.key,
                workspace_id=path.workspace_id,
                op_id=path.op_id,
                committed=len(parts) == 2,
                stored_at=max(parts.values()),
            )
            for path, parts in objects.items()
        ]
        return _Listed(attempts, manifests, packs)

    async def _sort(self, session: Session, attempts: Collection[StoredAttempt]) -> Sorted:
        owners = await self._load_owners(session, {each.workspace_id for each in attempts})
        found = sort_archives(
            attempts,
            owners,
            keep_generations=self._timing.keep_generations,
            thinning=self._timing.thinning,
            copied=await self._store.copied_among(session, [each.key for each in attempts]),
        )
        STORED.labels("protected").set(len(found.protected))
        STORED.labels("orphan").set(len(found.orphans))
        STORED.labels("unknown").set(len(found.unknown))
        return found

    async def _load_owners(self, session: Session, ids: Collection[UUID]) -> dict[UUID, Owner]:
        wanted = sorted(ids)
        owners: dict[UUID, Owner] = {}
        for start in range(0, len(wanted), OWNERS_AT_ONCE):
            rows = await self._store.load_owners(session, wanted[start : start + OWNERS_AT_ONCE])
            for row in rows.values():
                owners[row.id] = Owner(
                    id=row.id,
                    deleted=row.deleted_at is not None,
                    in_error=row.health_status is HealthStatus.ERROR or row.is_terminal,
                    archive_key=row.archive_key,
                    op_id=row.op_id,
                    has_volume=row.observed_status in (ObservedStatus.STANDBY, ObservedStatus.RUNNING),
                    chosen=row.restore_from.archive_key if row.restore_from else None,
                    generations=row.home.generations,
                    snapshots=keys_of(row.snapshots),
                    in_operation=row.operation is not Operation.NONE,
                )
        return owners

    async def _delete(self, due: Sequence[StoredAttempt]) -> int:
        """Delete in batches, each checked again first: minutes may have passed since the listing.

        A crash between the deletion and ``forget`` leaves first-seen times of objects that are gone;
        the next cycle removes them.
        """
        deleted = 0
        for start in range(0, len(due), DELETE_AT_ONCE):
            batch = due[start : start + DELETE_AT_ONCE]
            async with self._lead.transaction() as session:
                owners = await self._load_owners(session, {each.workspace_id for each in batch})
                copied = await self._store.copied_among(session, [each.key for each in batch])
            keep = self._timing.keep_generations
            still = [
                each
                for each in batch
                if each.key not in copied
                and _is_still_orphaned(each, owners.get(each.workspace_id), keep_generations=keep)
            ]
            self._lead.assert_recent()
            await self._archives.delete(list(_paths(still)))
            async with self._lead.transaction() as session:
                await self._store.forget(session, [each.key for each in still])
            DELETED.inc(len(still))
            deleted += len(still)
            log.info("archives removed", count=len(still))
        return deleted


def _operator_detail(found: Sorted) -> dict[str, list[str]]:
    """Archives kept although no row names them: shown to the operator, never deleted by the GC."""
    only = [key for key, why in found.protected.items() if why is Protection.ONLY_COPY]
    return {
        "only_copies": sorted(only)[:SHOWN],
        "unknown": sorted(each.key for each in found.unknown)[:SHOWN],
    }


def _is_still_orphaned(attempt: StoredAttempt, owner: Owner | None, *, keep_generations: int) -> bool:
    """Whether no new archive_key, operation, error or choice protects it since the listing."""
    if owner is None:
        return False
    if owner.deleted:
        return True
    if attempt.key == owner.archive_key or attempt.op_id == owner.op_id or owner.in_error:
        return False
    return owner.keeps_by_choice(attempt.key, keep_generations=keep_generations) is None


def _paths(attempts: Iterable[StoredAttempt]) -> Iterable[ArchivePath]:
    for attempt in attempts:
        path = parse_archive_key(attempt.key)
        assert path is not None, "listed by its name"
        yield path
