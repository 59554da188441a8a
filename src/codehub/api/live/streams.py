"""Event streams of workspaces: each subscriber converges to the database, whatever is lost on the way.

The order that makes it so: **subscribe, then tell the current state, then only newer versions.** A change
that happens between subscribing and telling waits in the subscription's queue, and is dropped there if the
telling already contained it. A ``Resync`` (Redis was away, the event listener changed hands) starts the
telling over. While the database is away the stream stays open and tries again.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

import structlog

from codehub.api.live.renderer import EventRenderer, RenderedWorkspace
from codehub.domain.status import Status
from codehub.kit.batching import Batched
from codehub.kit.clock import monotonic
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
from codehub.store.db.session import Sessions
from codehub.store.db.statements import Page
from codehub.store.errors import DATABASE_FAILED
from codehub.store.workspaces import queries
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

Write = Callable[[bytes], Awaitable[None]]

FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 0.05
PAGE_SIZE = 200


class Topic(Protocol):
    """What a stream is about."""

    @property
    def is_list(self) -> bool: ...

    def includes(self, workspace_id: UUID) -> bool:
        """Whether what was heard of this one belongs here: a subscription may bring more."""

    async def ids(self) -> Sequence[UUID]:
        """All there are, for the first message of a list."""

    def frames(self) -> AsyncIterator[Sequence[RenderedWorkspace]]:
        """The current state of each, in portions."""


class OneWorkspace:
    """Whoever opened the stream was found to be allowed to."""

    is_list = False

    def __init__(self, workspace_id: UUID, frames: EventRenderer) -> None:
        self._id = workspace_id
        self._frames = frames

    def includes(self, workspace_id: UUID) -> bool:
        return workspace_id == self._id

    async def ids(self) -> Sequence[UUID]:
        return [self._id]

    async def frames(self) -> AsyncIterator[Sequence[RenderedWorkspace]]:
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
        frames: EventRenderer,
        *,
        reading: Sessions,
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
            return await queries.list_ids(session, owner_id=self._owner_id)

    async def frames(self) -> AsyncIterator[Sequence[RenderedWorkspace]]:
        page, self._first = self._first, None
        while page is not None:
            yield await self._frames.render(page.items)
            page = await self._page(UUID(page.next_cursor)) if page.next_cursor else None

    async def _page(self, cursor: UUID | None) -> Page[WorkspaceRecord]:
        async with self._gate, self._reading() as session:
            return await queries.list_page(session, owner_id=self._owner_id, cursor=cursor, limit=PAGE_SIZE)


class ChosenWorkspaces:
    """The few of a long list that somebody has on screen; ``owner_id`` None: whosever they are."""

    is_list = True

    def __init__(
        self,
        chosen: Sequence[UUID],
        owner_id: UUID | None,
        frames: EventRenderer,
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

    async def frames(self) -> AsyncIterator[Sequence[RenderedWorkspace]]:
        yield await self._frames.render(self._found)


class WorkspaceStream:
    """One subscriber. ``run`` ends when it was too slow, the feed closed, or nothing more can come."""

    def __init__(
        self,
        topic: Topic,
        subscription: LiveSubscription,
        *,
        frames: EventRenderer,
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
                notices = await self._subscription.take(max(0.0, self._beat_at - monotonic()))
            except (FellBehind, FeedClosed):
                return
            if not notices:
                await self._beat()
                continue
            began = monotonic()
            await self._pass_on(notices)
            # While much happens, fewer and larger portions: half of the time is for others.
            await asyncio.sleep(min(monotonic() - began, LONGEST_PAUSE_SECONDS))

    async def _pass_on(self, notices: Sequence[Notice]) -> None:
        """Each workspace once, however often it was heard of: it is read after all of these were said."""
        if isinstance(notices[0], Resync):
            await self._write(b"event: resync\ndata: {}\n\n")
            await self._tell()
        changes: dict[UUID, int] = {}
        progress: dict[UUID, Progress] = {}
        activity: set[UUID] = set()
        for notice in notices:
            if isinstance(notice, Resync | PersonChanged) or not self._topic.includes(notice.id):
                continue  # done; the guard's business; not on this stream
            match notice:
                case Change():
                    changes[notice.id] = notice.version
                    progress.pop(notice.id, None)  # of what is over, or the state says it too
                case Progress():
                    progress[notice.id] = notice
                case ActivityChanged():
                    activity.add(notice.id)
        await self._changes(changes)
        if progress:
            await self._write(b"".join(_progress(each) for each in progress.values()))
        await self._activity(activity)

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
            except DATABASE_FAILED as error:
                await self._wait_for_database(error)
            else:
                self._retry_seconds = FIRST_RETRY_SECONDS
                return

    async def _changes(self, heard: Mapping[UUID, int]) -> None:
        newer = {each: version for each, version in heard.items() if self._version_sent(each) < version}
        if not newer:
            return
        frames: Mapping[UUID, RenderedWorkspace] | None = None
        while frames is None:
            try:
                frames = await self._frames.at_least(newer)
            except DATABASE_FAILED as error:
                await self._wait_for_database(error)
        self._retry_seconds = FIRST_RETRY_SECONDS
        # An older one than was heard of: a notice from another life of this database.
        events = b"".join(
            self._event(frame) for each, frame in frames.items() if frame.version >= newer[each]
        )
        if events:
            await self._write(events)

    def _version_sent(self, workspace_id: UUID) -> int:
        sent = self._sent.get(workspace_id)
        return 0 if sent is None else sent[0]

    def _event(self, frame: RenderedWorkspace) -> bytes:
        _, told_error = self._sent.get(frame.workspace_id, (0, None))
        self._sent[frame.workspace_id] = (frame.version, frame.error_at)
        if frame.is_deleted:
            self._over = not self._topic.is_list
            return frame.event("deleted")
        events = frame.event("state_changed")
        if frame.error_at is not None and frame.error_at != told_error:
            events += frame.event("error")
        return events

    async def _activity(self, heard: Iterable[UUID]) -> None:
        """A hint like any other: what cannot be read now is told with the next state."""
        told = [each for each in heard if each in self._sent]  # the others are not told yet, or gone
        if not told:
            return
        with suppress(*DATABASE_FAILED):
            found = await self._frames.activities(told)
            await self._write(
                b"".join(f"event: activity\ndata: {each}\n\n".encode() for each in found.values())
            )

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
