"""Cache the last progress of each workspace's operation.

Progress is not stored in the database, only published over Redis. One subscriber per process receives all of it
and keeps the last value per workspace. After a restart or a Redis outage progress is unknown until the next
message: half a second later, and three seconds where an operation waits for something.
"""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from codehub.domain.states import Operation
from codehub.kit.cache import TtlCache
from codehub.kit.tasks import cancel_and_wait
from codehub.signals.live import Change, LiveFeed, Notice, Progress, follow

MAX_CACHED = 4096


@dataclass(frozen=True)
class KnownProgress:
    """What is known of an operation in flight. ``waiting_for``: why it does not go on, in the engine's words."""

    percent: int | None = None
    waiting_for: str | None = None


NOTHING_KNOWN = KnownProgress()


class ProgressCache:
    """Follows the live feed and keeps the last progress per workspace."""

    def __init__(self, feed: LiveFeed) -> None:
        self._feed = feed
        self._last: TtlCache[UUID, tuple[str, KnownProgress]] = TtlCache(size=MAX_CACHED)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(
                follow(self._feed.subscribe_all, self._receive), name="progress-cache"
            )

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])
            self._task = None

    def known(self, workspace_id: UUID, operation: Operation) -> KnownProgress:
        """Return the last progress of this operation."""
        last = self._last.get(workspace_id)
        return last[1] if last is not None and last[0] == operation.value else NOTHING_KNOWN

    def _receive(self, notice: Notice) -> None:
        if isinstance(notice, Progress):
            self._store(notice)
        elif isinstance(notice, Change) and "operation" in notice.changed:
            self._last.forget(notice.id)

    def _store(self, notice: Progress) -> None:
        operation, percent = notice.progress.get("operation"), notice.progress.get("percent")
        reason = notice.progress.get("waiting_for")
        known = KnownProgress(
            percent=min(100, max(0, percent)) if type(percent) is int else None,
            waiting_for=reason if isinstance(reason, str) else None,
        )
        if not isinstance(operation, str) or known == NOTHING_KNOWN:
            self._last.forget(notice.id)
            return
        self._last.put(notice.id, (operation, known))
