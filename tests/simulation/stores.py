"""The archive store, hints, live events and activity of the simulated environment, with their faults."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.archives.keys import ArchivePath, PackPath, parse_key
from codehub.archives.store import ArchiveObject
from codehub.domain.busy import BusySign, BusyWith
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.domain.ttl import Activity
from codehub.domain.workspace import WorkspaceView
from codehub.signals.activity import ActivityReading, RedisIdentity
from codehub.signals.connection import RedisUnavailable
from codehub.signals.hints import Hint, HintSource, HintTarget, LocalHints
from codehub.signals.notices import Change
from tests.simulation.database import Database

if TYPE_CHECKING:
    from tests.simulation.environment import SimulatedEnvironment


@dataclass
class StoredObject:
    files: dict[str, bytes]
    stored_at: datetime
    committed_at: datetime | None = None


class Archives:
    """Objects and metas. One for all replicas; ``away`` is the store as a whole."""

    def __init__(self, environment: "SimulatedEnvironment", database: Database) -> None:
        self._environment = environment
        self._database = database
        self.objects: dict[str, StoredObject] = {}
        self.away = False

    def put(self, key: str, files: dict[str, bytes]) -> None:
        assert key not in self.objects, "attempts have names of their own"
        self.objects[key] = StoredObject(files, self._database.now())
        self._environment.guard.archives_changed(parse_workspace(key))

    def put_meta(self, key: str) -> None:
        self.objects[key].committed_at = self._database.now()
        self._environment.guard.archives_changed(parse_workspace(key))

    def committed(self, workspace_id: UUID) -> dict[str, StoredObject]:
        prefix = f"{workspace_id}/"
        return {
            key: stored
            for key, stored in self.objects.items()
            if key.startswith(prefix) and stored.committed_at is not None
        }

    def of(self, workspace_id: UUID) -> list[str]:
        return [key for key in self.objects if key.startswith(f"{workspace_id}/")]

    # What the product calls

    async def probe(self) -> None:
        await self._pass("archives.probe")

    async def has_committed(self, workspace_id: UUID) -> bool:
        await self._pass("archives.has_committed")
        return bool(self.committed(workspace_id))

    async def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]:
        assert prefix is None
        for key, stored in list(self.objects.items()):
            await self._pass("archives.list_paths")
            page = [ArchiveObject(key, 1, stored.stored_at, parse_key(key))]
            if stored.committed_at is not None:
                page.append(ArchiveObject(f"{key}.meta", 1, stored.committed_at, parse_key(f"{key}.meta")))
            yield page

    async def delete(self, paths: Sequence[ArchivePath]) -> None:
        for path in paths:
            await self._pass("archives.delete meta")
            if path.key in self.objects:
                self._environment.guard.archive_deleted(path)
                self.objects[path.key].committed_at = None
        for path in paths:
            await self._pass("archives.delete")
            self.objects.pop(path.key, None)
            self._environment.guard.archives_changed(path.workspace_id)

    async def pack_names(self, path: ArchivePath, size: int) -> frozenset[str] | None:
        raise AssertionError("nothing here is of format 2")

    async def delete_packs(self, packs: Sequence[PackPath]) -> None:
        raise AssertionError("there are no packs here")

    async def _pass(self, what: str) -> None:
        await self._environment.chaos.gate(what)
        if self.away or self._environment.chaos.strikes("store"):
            raise EffectError(FailureCode.S3_ACCESS_ERROR, "the store does not answer")


def parse_workspace(key: str) -> UUID:
    parsed = parse_key(key)
    assert parsed is not None
    return parsed.path.workspace_id


class _InOrder(dict[object, None]):
    """A set that is walked in the order of insertion: a run must not depend on addresses in memory."""

    def add(self, item: object) -> None:
        self[item] = None

    def discard(self, item: object) -> None:
        self.pop(item, None)

    def __iter__(self) -> Iterator[object]:
        return iter(list(super().__iter__()))


class Hints(LocalHints):
    """Hints that arrive a little later, sometimes twice, sometimes never."""

    def __init__(self, environment: "SimulatedEnvironment") -> None:
        super().__init__()
        self._environment = environment
        self._sources = {target: _InOrder() for target in HintTarget}  # type: ignore[misc]

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        chaos = self._environment.chaos
        times = 1
        if chaos.has("hints"):
            times = chaos.random.choice((0, 0, 1, 2))
        hint = Hint(frozenset(ids))
        for source in self._sources[target]:
            for _ in range(times):
                self._environment.later(chaos.random.uniform(0.001, 0.01), source.add, hint)
        return True

    def subscribe(self, target: HintTarget) -> HintSource:
        return super().subscribe(target)


class Live:
    """A browser that knows a version of each workspace: what it was told, or all of them after a resync."""

    def __init__(self, environment: "SimulatedEnvironment") -> None:
        self._environment = environment
        self.known: dict[UUID, int] = {}

    async def publish_changes(self, changes: Sequence[Change], *, each: Sequence[Change] = ()) -> bool:
        del each
        if self._environment.chaos.strikes("redis"):
            return False
        for change in changes:
            self.known[change.id] = max(change.version, self.known.get(change.id, 0))
        return True

    async def publish_resync(self) -> bool:
        if self._environment.chaos.strikes("redis"):
            return False
        for row in self._environment.rows():
            self.known[row.view.id] = max(row.view.version, self.known.get(row.view.id, 0))
        return True

    async def publish_progress(self, *_: object) -> bool:
        return True

    async def publish_activity(self, *_: object) -> bool:
        return True

    async def publish_wait(self, *_: object, **__: object) -> bool:
        return True


class Presence:
    """Who is using what. Somebody who is connected is never put to sleep."""

    def __init__(self, environment: "SimulatedEnvironment") -> None:
        self._environment = environment
        self.connected: dict[UUID, float] = {}  # since when

    async def read(self, workspace_ids: Sequence[UUID]) -> ActivityReading:
        if self._environment.chaos.strikes("redis"):
            raise RedisUnavailable("no answer")
        await asyncio.sleep(0.001)
        identity = RedisIdentity("run", "epoch", age_seconds=1e6)
        return ActivityReading(identity, {each: self._of(each) for each in workspace_ids})

    def _of(self, workspace_id: UUID) -> Activity:
        place = self._environment.engine.places.get(workspace_id)
        running = place is not None and place.container is ContainerState.RUNNING
        return Activity(connections=int(running and workspace_id in self.connected))


class Workload:
    """What workspaces do by themselves: every other stretch of time, each in turn. Work is never put to sleep."""

    STRETCH_SECONDS = 60.0

    def __init__(self, environment: "SimulatedEnvironment") -> None:
        self._environment = environment

    def works_for(self, workspace_id: UUID) -> float:
        """Seconds since it began to work; zero: it does not."""
        stretch, since = divmod(self._environment.loop.time(), self.STRETCH_SECONDS)
        return since if (int(stretch) + workspace_id.int) % 3 == 0 else 0.0

    async def sample(self, workspaces: Sequence[WorkspaceView]) -> dict[UUID, BusySign | None]:
        await asyncio.sleep(0.01)
        return {
            ws.id: self._sign(ws.id) for ws in workspaces if not self._environment.chaos.strikes("effect")
        }

    def _sign(self, workspace_id: UUID) -> BusySign | None:
        return BusySign(BusyWith.CPU) if self.works_for(workspace_id) else None


def fresh_context() -> Context:
    """For what belongs to the environment and not to the process that happened to cause it."""
    return Context()
