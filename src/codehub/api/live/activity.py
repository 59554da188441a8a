"""Cache the activity of workspaces for 1 s, and read many in one Redis call.

While Redis is away the result is None, not an error: people see "unknown".
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from codehub.api.dependencies import ActivityReader
from codehub.domain.ttl import Activity
from codehub.kit.batching import Batched
from codehub.kit.cache import TtlCache
from codehub.kit.clock import monotonic
from codehub.signals.connection import RedisUnavailable

CACHE_SECONDS = 1.0
READ_TIMEOUT = 0.5
MAX_CACHED = 4096


class ActivityCache:
    """A batched read-through cache of ``ActivityReader``."""

    def __init__(self, reader: ActivityReader | None) -> None:
        self._reader = reader
        # Pays for: list of 50 by API, and one workspace by API.
        self._known: TtlCache[UUID, Activity] = TtlCache(size=MAX_CACHED, ttl=CACHE_SECONDS)
        self._reads: Batched[UUID, Activity] = Batched(self._load, max_batch=1000)

    async def read_many(self, ids: Collection[UUID]) -> Mapping[UUID, Activity] | None:
        """Read activities, up to 1 s old. None: Redis is away or slow."""
        if self._reader is None:
            return None
        now = monotonic()
        known: dict[UUID, Activity] = {}
        unknown: list[UUID] = []
        for each in ids:
            entry = self._known.peek(each, now)
            if entry is not None:
                known[each] = entry.value
            else:
                unknown.append(each)
        if unknown:
            try:
                async with asyncio.timeout(READ_TIMEOUT):
                    known |= await self._reads.get_many(unknown)
            except (RedisUnavailable, TimeoutError):
                return None
        return known

    async def read_now(self, ids: Collection[UUID]) -> Mapping[UUID, Activity] | None:
        """Read activities past the cache, for a caller notified of a change.

        None: Redis is away or slow.
        """
        if self._reader is None:
            return None
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                return await self._reads.get_many(ids)
        except (RedisUnavailable, TimeoutError):
            return None

    async def retime(self, workspace_id: UUID, ttl_seconds: float) -> bool:
        """Set the running idle timer to another length. False: Redis is away."""
        if self._reader is None:
            return False
        try:
            await self._reader.retime(workspace_id, ttl_seconds)
        except RedisUnavailable:
            return False
        self._known.forget(workspace_id)
        return True

    async def _load(self, ids: Sequence[UUID]) -> Mapping[UUID, Activity]:
        assert self._reader is not None
        found = await self._reader.read_many(ids)
        for workspace_id, activity in found.items():
            self._known.put(workspace_id, activity)
        return found
