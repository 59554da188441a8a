"""Overview for operators: workspaces by status, leaders, archive size, orphans."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable
from uuid import UUID

import structlog

from codehub.archives.keys import parse_pack_key
from codehub.archives.store import ArchiveObject
from codehub.domain.errors import EffectError
from codehub.domain.states import ContainerState
from codehub.kit.cache import TtlCache
from codehub.kit.clock import monotonic
from codehub.runtimes.base import LeftVolume, Observation
from codehub.store.cluster import orphans
from codehub.store.cluster import terms as leadership
from codehub.store.cluster.terms import TermRow
from codehub.store.db.session import Sessions
from codehub.store.workspaces import queries

log = structlog.get_logger(__name__)

SIZES_CACHE_SECONDS = 300.0
SIZES_WAIT_SECONDS = 3.0
COUNTS_CACHE_SECONDS = 5.0


class ObservingRuntime(Protocol):
    async def observe(self, ids: Collection[UUID] | None = None) -> Observation: ...


@runtime_checkable
class KeepingRuntime(Protocol):
    """A runtime whose engine may keep volumes of homes that are gone."""

    async def left_volumes(self) -> Sequence[LeftVolume]: ...


class ArchiveListing(Protocol):
    def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]: ...


@dataclass(frozen=True)
class Overview:
    """Counts by status, terms of leadership, and the size of all archives."""

    counts: Mapping[str, int]
    terms: Sequence[TermRow]
    archive_bytes: int | None  # None: not known (yet)


class OrphanReason(StrEnum):
    """Why an orphan is listed, and what happens to it."""

    UNKNOWN_WORKSPACE = "unknown_workspace"  # kept; a container goes after a delay
    EXPIRING = "expiring"  # the GC will remove it
    ONLY_COPY = "only_copy"  # kept: the only copy of a live workspace's home
    RETAINED = "retained"  # its engine keeps the volume of a home that is gone: a person removes it


@dataclass(frozen=True)
class Orphan:
    """A container, volume or archive that belongs to no workspace."""

    kind: str
    name: str
    first_seen_at: datetime | None = None
    bytes: int | None = None
    why: OrphanReason = OrphanReason.UNKNOWN_WORKSPACE


class Overviews:
    """Reads overviews; counts are cached for 5 s, the archive size for 300 s."""

    def __init__(self, *, reading: Sessions, runtime: ObservingRuntime, archives: ArchiveListing) -> None:
        self._reading = reading
        self._keeping = runtime if isinstance(runtime, KeepingRuntime) else None
        self._runtime = runtime
        self._archives = archives
        # Not for speed: counting reads the whole table, and anybody who may read /metrics can ask for it.
        self._counts: TtlCache[str, Mapping[str, int]] = TtlCache(size=1, ttl=COUNTS_CACHE_SECONDS)
        self._bytes: int | None = None
        self._bytes_at = -SIZES_CACHE_SECONDS
        self._sizing: asyncio.Task[None] | None = None

    async def look(self) -> Overview:
        """Read the overview."""
        async with self._reading() as session:
            counts = await queries.count_by_status(session)
            terms = await leadership.read_terms(session)
        return Overview(
            counts, sorted(terms.values(), key=lambda t: t.lock_name), await self._archive_bytes()
        )

    async def counts(self) -> Mapping[str, int]:
        """Count workspaces by status, for metrics. Reuse a count up to 5 s old."""
        found = self._counts.get("counts")
        if found is None:
            async with self._reading() as session:
                found = await queries.count_by_status(session)
            self._counts.put("counts", found)
        return found

    async def orphans(self) -> list[Orphan]:
        """List containers and volumes without a workspace, volumes that outlived their homes, and archive orphans.

        Archives the GC will delete, and those it keeps for a person to decide. Raises ``EffectError``.
        """
        seen = (await self._runtime.observe()).sightings
        async with self._reading() as session:
            known = {record.view.id for record in await queries.find_many(session, list(seen))}
            archives = await orphans.list_all(session)
            terms = await leadership.read_terms(session)
        found: list[Orphan] = []
        for workspace_id in sorted(seen.keys() - known):
            if seen[workspace_id].container is not ContainerState.NONE:
                found.append(Orphan("container", f"ws-{workspace_id}"))
            if seen[workspace_id].volume:
                found.append(Orphan("volume", f"ws-{workspace_id}-home"))
        found += await self._left_volumes()
        found += [Orphan("archive", path, at, why=OrphanReason.EXPIRING) for path, at in archives]
        return found + list(_kept(terms.values()))

    async def _left_volumes(self) -> list[Orphan]:
        left = await self._keeping.left_volumes() if self._keeping is not None else ()
        return [
            Orphan("volume", each.name, each.since, each.bytes, why=OrphanReason.RETAINED) for each in left
        ]

    async def _archive_bytes(self) -> int | None:
        """Return the size of all archives; None if not known within 3 s.

        Listing a large store takes long: it continues in the background, and a later call returns the result.
        """
        if monotonic() - self._bytes_at > SIZES_CACHE_SECONDS and self._sizing is None:
            self._sizing = asyncio.create_task(self._sum_sizes(), name="archive-sizes")
        if self._sizing is not None and self._bytes is None:
            await asyncio.wait({self._sizing}, timeout=SIZES_WAIT_SECONDS)
        return self._bytes

    async def _sum_sizes(self) -> None:
        try:
            total = 0
            async for page in self._archives.list_paths():
                total += sum(
                    each.size for each in page if each.parsed is not None or parse_pack_key(each.key)
                )
            self._bytes, self._bytes_at = total, monotonic()
        except EffectError as error:
            log.warning("the archives could not be added up", error=error.message)
        finally:
            self._sizing = None


def _kept(terms: Iterable[TermRow]) -> Iterator[Orphan]:
    """Yield the archives the GC found in its last cycle and leaves to the operator."""
    for term in terms:
        for path in term.paths("only_copies"):
            yield Orphan("archive", path, why=OrphanReason.ONLY_COPY)
        for path in term.paths("unknown"):
            yield Orphan("archive", path)
