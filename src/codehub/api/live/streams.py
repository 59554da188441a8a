"""Stream changes of workspaces: each subscriber converges to the database's state.

Invariant, whatever messages are lost: **subscribe, then send a snapshot, then only newer versions.** A change
between subscribing and the snapshot waits in the subscription's queue, and is dropped there if the snapshot
contained it. A ``Resync`` (Redis was away, the event listener has a new leader) sends a new snapshot. While the
database is away the stream stays open and retries.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

import structlog

from codehub.api.live.renderer import EventRenderer, RenderedWorkspace
from codehub.api.live.sse import Write
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


FIRST_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 1.0
MAX_PAUSE_SECONDS = 0.05
PAGE_SIZE = 200


class Topic(Protocol):
    """The set of workspaces that a stream covers."""

    @property
    def is_list(self) -> bool: ...

    def includes(self, workspace_id: UUID) -> bool:
        """Whether notices of this workspace belong here: a subscription may deliver more."""

    async def ids(self) -> Sequence[UUID]:
        """Read the ids of all, for the ``snapshot`` event of a list."""

    def frames(self) -> AsyncIterator[Sequence[RenderedWorkspace]]:
        """Yield the current state of each, in pages."""


class OneWorkspace:
    """One workspace. The caller has checked that the person may see it."""

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
    """One person's workspaces, or all (``owner_id`` None).

    ``slots`` is shared by all lists of the process: after an outage all streams read at once, and would take
    every connection from requests.
    """

    is_list = True

    def __init__(
        self,
        owner_id: UUID | None,
        frames: EventRenderer,
        *,
        reading: Sessions,
        slots: asyncio.Semaphore,
    ) -> None:
        self._owner_id = owner_id
        self._frames = frames
        self._reading = reading
        self._slots = slots
        self._first: Page[WorkspaceRecord] | None = None

    def includes(self, workspace_id: UUID) -> bool:
        del workspace_id
        return True  # the subscription delivers exactly this person's, or all

    async def ids(self) -> Sequence[UUID]:
        """Read the ids. Most lists fit one page: then one query reads ids and workspaces."""
        self._first = await self._page(None)
        if self._first.next_cursor is None:
            return [record.view.id for record in self._first.items]
        async with self._slots, self._reading() as session:
            return await queries.list_ids(session, owner_id=self._owner_id)

    async def frames(self) -> AsyncIterator[Sequence[RenderedWorkspace]]:
        page, self._first = self._first, None
        while page is not None:
            yield await self._frames.render(page.items)
            page = await self._page(UUID(page.next_cursor)) if page.next_cursor else None

    async def _page(self, cursor: UUID | None) -> Page[WorkspaceRecord]:
        async with self._slots, self._reading() as session:
            return await queries.list_page(session, owner_id=self._owner_id, cursor=cursor, limit=PAGE_SIZE)


class ChosenWorkspaces:
    """Some workspaces of a long list, by id: those on screen.

    ``owner_id`` None: of any owner.
    """

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
    """One subscriber's stream.

    ``run`` ends when the subscriber falls behind, the feed closes, or its only workspace was deleted.
    """

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
        self._sent: dict[UUID, tuple[int, datetime | None]] = {}  # last sent: version, time of the error
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._ended = False

    async def run(self) -> None:
        """Send a snapshot, then changes and heartbeats."""
        await self._send_snapshot()
        while not self._ended:
            try:
                notices = await self._subscription.take(max(0.0, self._beat_at - monotonic()))
            except (FellBehind, FeedClosed):
                return
            if not notices:
                await self._beat()
                continue
            began = monotonic()
            await self._handle(notices)
            # Under load, sleep as long as the work took: batches grow, and half of the time is left to others.
            await asyncio.sleep(min(monotonic() - began, MAX_PAUSE_SECONDS))

    async def _handle(self, notices: Sequence[Notice]) -> None:
        """Send each workspace once per batch: it is read after all of these notices were published."""
        if isinstance(notices[0], Resync):
            await self._write(b"event: resync\ndata: {}\n\n")
            await self._send_snapshot()
        changes: dict[UUID, int] = {}
        progress: dict[UUID, Progress] = {}
        activity: set[UUID] = set()
        for notice in notices:
            if isinstance(notice, Resync | PersonChanged) or not self._topic.includes(notice.id):
                continue  # handled above; handled by PeopleRevocation; not in this topic
            match notice:
                case Change():
                    changes[notice.id] = notice.version
                    progress.pop(notice.id, None)  # outdated by the change, or part of the new state
                case Progress():
                    progress[notice.id] = notice
                case ActivityChanged():
                    activity.add(notice.id)
        await self._changes(changes)
        if progress:
            await self._write(b"".join(_progress(each) for each in progress.values()))
        await self._activity(activity)

    async def _send_snapshot(self) -> None:
        """Send the whole current state. Starts over if the database fails in between."""
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

    async def _changes(self, notified: Mapping[UUID, int]) -> None:
        newer = {each: version for each, version in notified.items() if self._version_sent(each) < version}
        if not newer:
            return
        frames: Mapping[UUID, RenderedWorkspace] | None = None
        while frames is None:
            try:
                frames = await self._frames.at_least(newer)
            except DATABASE_FAILED as error:
                await self._wait_for_database(error)
        self._retry_seconds = FIRST_RETRY_SECONDS
        # An older version than the notice's: the notice is from before a restore of the database.
        events = b"".join(
            self._event(frame) for each, frame in frames.items() if frame.version >= newer[each]
        )
        if events:
            await self._write(events)

    def _version_sent(self, workspace_id: UUID) -> int:
        sent = self._sent.get(workspace_id)
        return 0 if sent is None else sent[0]

    def _event(self, frame: RenderedWorkspace) -> bytes:
        _, sent_error = self._sent.get(frame.workspace_id, (0, None))
        self._sent[frame.workspace_id] = (frame.version, frame.error_at)
        if frame.is_deleted:
            self._ended = not self._topic.is_list
            return frame.event("deleted")
        events = frame.event("state_changed")
        if frame.error_at is not None and frame.error_at != sent_error:
            events += frame.event("error")
        return events

    async def _activity(self, notified: Iterable[UUID]) -> None:
        """Send activities. Best effort: what cannot be read now is part of the next state."""
        sent = [each for each in notified if each in self._sent]  # the others are not sent yet, or deleted
        if not sent:
            return
        with suppress(*DATABASE_FAILED):
            found = await self._frames.activities(sent)
            await self._write(b"".join(b"event: activity\ndata: %b\n\n" % each for each in found.values()))

    async def _wait_for_database(self, error: BaseException) -> None:
        """Sleep with exponential backoff, and send heartbeats meanwhile."""
        log.debug("event stream waits for the database", error=type(error).__name__)
        await asyncio.sleep(self._retry_seconds)
        self._retry_seconds = min(self._retry_seconds * 2, MAX_RETRY_SECONDS)
        if monotonic() >= self._beat_at:
            await self._beat()

    async def _beat(self) -> None:
        self._beat_at = monotonic() + self._heartbeat_seconds
        await self._write(heartbeat())


def heartbeat() -> bytes:
    """Format a ``heartbeat`` event."""
    return b'event: heartbeat\ndata: {"at":"%s"}\n\n' % datetime.now(UTC).isoformat().encode()


def _snapshot(ids: Sequence[UUID]) -> bytes:
    return b"event: snapshot\ndata: %s\n\n" % json.dumps({"ids": [str(each) for each in ids]}).encode()


def _progress(notice: Progress) -> bytes:
    fields = dict(notice.progress)
    content = {"id": str(notice.id), "progress": fields.pop("percent", None), **fields}
    return b"event: progress\ndata: %s\n\n" % json.dumps(content).encode()
