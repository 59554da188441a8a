"""Event streams of workspaces: each subscriber converges to the database, whatever is lost on the way.

The order that makes it so: **subscribe, then tell the current state, then only newer versions.** A change
that happens between subscribing and telling waits in the subscription's queue, and is dropped there if the
telling already contained it. A ``Resync`` (Redis was away, the event listener changed hands) starts the
telling over. While the database is away the stream stays open and tries again.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from codehub.api.frames import Frame, Frames
from codehub.api.problems import DATABASE_AWAY
from codehub.domain.status import Status
from codehub.kit.clock import monotonic
from codehub.services.batching import Batched
from codehub.signals.live import (
    ActivityChanged,
    Change,
    FeedClosed,
    FellBehind,
    LiveSubscription,
    Notice,
    PersonChanged,
    Progress,
    Resync,
)
from codehub.store import workspaces
from codehub.store.records import WorkspaceRecord
from codehub.store.statements import Page

log = structlog.get_logger(__name__)

Write = Callable[[bytes], Awaitable[None]]

FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 1.0
PAGE_SIZE = 200


class Topic(Protocol):
    """What a stream is about."""

    @property
    def is_list(self) -> bool: ...

    def includes(self, workspace_id: UUID) -> bool:
        """Whether what was heard of this one belongs here: a subscription may bring more."""

    async def ids(self) -> Sequence[UUID]:
        """All there are, for the first message of a list."""

    def frames(self) -> AsyncIterator[Sequence[Frame]]:
        """The current state of each, in portions."""


class OneWorkspace:
    """Whoever opened the stream was found to be allowed to."""

    is_list = False

    def __init__(self, workspace_id: UUID, frames: Frames) -> None:
        self._id = workspace_id
        self._frames = frames

    def includes(self, workspace_id: UUID) -> bool:
        return workspace_id == self._id

    async def ids(self) -> Sequence[UUID]:
        return [self._id]

    async def frames(self) -> AsyncIterator[Sequence[Frame]]:
        frame = await self._frames.load(self._id)
        yield [frame] if frame is not None else []


class WorkspaceList:
    """One person's workspaces, or everybody's (``owner_id`` None).

    ``gate`` is shared by all lists of the process: after an outage everybody asks at once, and requests
    would find no connection free.
    """

    is_list = True

    def __init__(
        self,
        owner_id: UUID | None,
        frames: Frames,
        *,
        reading: async_sessionmaker[AsyncSession],
        gate: asyncio.Semaphore,
    ) -> None:
        self._owner_id = owner_id
        self._frames = frames
        self._reading = reading
        self._gate = gate
        self._first: Page[WorkspaceRecord] | None = None

    def includes(self, workspace_id: UUID) -> bool:
        del workspace_id
        return True  # the subscription brings this person's alone, or everybody's

    async def ids(self) -> Sequence[UUID]:
        """Most lists fit one page: then one query tells the ids and the workspaces."""
        self._first = await self._page(None)
        if self._first.next_cursor is None:
            return [record.view.id for record in self._first.items]
        async with self._gate, self._reading() as session:
            return await workspaces.list_ids(session, owner_id=self._owner_id)

    async def frames(self) -> AsyncIterator[Sequence[Frame]]:
        page, self._first = self._first, None
        while page is not None:
            yield await self._frames.render(page.items)
            page = await self._page(UUID(page.next_cursor)) if page.next_cursor else None

    async def _page(self, cursor: UUID | None) -> Page[WorkspaceRecord]:
        async with self._gate, self._reading() as session:
            return await workspaces.list_page(
                session, owner_id=self._owner_id, cursor=cursor, limit=PAGE_SIZE
            )


class ChosenWorkspaces:
    """The few of a long list that somebody has on screen; ``owner_id`` None: whosever they are."""

    is_list = True

    def __init__(
        self,
        chosen: Sequence[UUID],
        owner_id: UUID | None,
        frames: Frames,
        *,
        records: Batched[UUID, WorkspaceRecord],
    ) -> None:
        self._chosen = frozenset(chosen)
        self._owner_id = owner_id
        self._frames = frames
        self._records = records
        self._found: list[WorkspaceRecord] = []

    def includes(self, workspace_id: UUID) -> bool:
        return workspace_id in self._chosen

    async def ids(self) -> Sequence[UUID]:
        found = await self._records.get_many(self._chosen)
        self._found = [
            record
            for record in found.values()
            if self._owner_id in (None, record.view.owner_id) and record.status != Status.DELETED
        ]
        return [record.view.id for record in self._found]

    async def frames(self) -> AsyncIterator[Sequence[Frame]]:
        yield await self._frames.render(self._found)


class WorkspaceStream:
    """One subscriber. ``run`` ends when it was too slow, the feed closed, or nothing more can come."""

    def __init__(
        self,
        topic: Topic,
        subscription: LiveSubscription,
        *,
        frames: Frames,
        write: Write,
        heartbeat_seconds: float,
    ) -> None:
        self._topic = topic
        self._subscription = subscription
        self._frames = frames
        self._write = write
        self._heartbeat_seconds = heartbeat_seconds
        self._beat_at = monotonic() + heartbeat_seconds
        self._sent: dict[UUID, tuple[int, datetime | None]] = {}  # version, and which error was told
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._over = False

    async def run(self) -> None:
        await self._tell()
        while not self._over:
            try:
                notice = await self._subscription.next(max(0.0, self._beat_at - monotonic()))
            except (FellBehind, FeedClosed):
                return
            if notice is None:
                await self._beat()
            else:
                await self._pass_on(notice)

    async def _pass_on(self, notice: Notice) -> None:
        if isinstance(notice, Change | Progress | ActivityChanged) and not self._topic.includes(notice.id):
            return
        match notice:
            case Resync():
                await self._write(b"event: resync\ndata: {}\n\n")
                await self._tell()
            case Progress():
                await self._write(_progress(notice))
            case Change():
                await self._change(notice)
            case ActivityChanged():
                await self._activity(notice.id)
            case PersonChanged():
                pass  # the guard's business

    async def _tell(self) -> None:
        """The whole current state, begun again until it was told completely."""
        while True:
            self._sent.clear()
            try:
                ids = await self._topic.ids()
                if self._topic.is_list:
                    await self._write(_snapshot(ids))
                async for frames in self._topic.frames():
                    for frame in frames:
                        self._sent[frame.workspace_id] = (frame.version, frame.error_at)
                    await self._write(b"".join(frame.event("state_changed") for frame in frames))
            except DATABASE_AWAY as error:
                await self._wait_for_database(error)
            else:
                self._retry_seconds = FIRST_RETRY_SECONDS
                return

    async def _change(self, change: Change) -> None:
        frame: Frame | None = None
        while frame is None:
            if self._sent.get(change.id, (0, None))[0] >= change.version:
                return
            try:
                frame = await self._frames.at_least(change.id, change.version)
            except DATABASE_AWAY as error:
                await self._wait_for_database(error)
                continue
            if frame is None or frame.version < change.version:
                return  # a notice from another life of this database
        self._retry_seconds = FIRST_RETRY_SECONDS
        _, told_error = self._sent.get(change.id, (0, None))
        self._sent[change.id] = (frame.version, frame.error_at)
        if frame.is_deleted:
            self._over = not self._topic.is_list
            await self._write(frame.event("deleted"))
            return
        events = frame.event("state_changed")
        if frame.error_at is not None and frame.error_at != told_error:
            events += frame.event("error")
        await self._write(events)

    async def _activity(self, workspace_id: UUID) -> None:
        """A hint like any other: what cannot be read now is told with the next state."""
        if workspace_id not in self._sent:
            return  # not told yet, or gone
        with suppress(*DATABASE_AWAY):
            told = await self._frames.activity(workspace_id)
            if told is not None:
                await self._write(f"event: activity\ndata: {told}\n\n".encode())

    async def _wait_for_database(self, error: BaseException) -> None:
        """It is away: keep the stream, try again soon, let the heart beat meanwhile."""
        log.debug("event stream waits for the database", error=type(error).__name__)
        await asyncio.sleep(self._retry_seconds)
        self._retry_seconds = min(self._retry_seconds * 2, LONGEST_RETRY_SECONDS)
        if monotonic() >= self._beat_at:
            await self._beat()

    async def _beat(self) -> None:
        self._beat_at = monotonic() + self._heartbeat_seconds
        await self._write(heartbeat())


def heartbeat() -> bytes:
    return b'event: heartbeat\ndata: {"at":"%s"}\n\n' % datetime.now(UTC).isoformat().encode()


def _snapshot(ids: Sequence[UUID]) -> bytes:
    return b"event: snapshot\ndata: %s\n\n" % json.dumps({"ids": [str(each) for each in ids]}).encode()


def _progress(notice: Progress) -> bytes:
    said = dict(notice.progress)
    content = {"id": str(notice.id), "progress": said.pop("percent", None), **said}
    return b"event: progress\ndata: %s\n\n" % json.dumps(content).encode()
