"""The parts of one API process, made from its dependencies and shared by all routes."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request, Response

from codehub.api.dependencies import ApiDependencies
from codehub.api.live.activity import ActivityBoard
from codehub.api.live.people import PeopleWatch
from codehub.api.live.progress import ProgressBoard
from codehub.api.live.renderer import Frames
from codehub.api.live.revocation import StreamGuard
from codehub.api.pages import Pages
from codehub.api.rendering import WorkspaceRenderer
from codehub.domain.workspace import WorkspaceView
from codehub.kit.batching import Batched
from codehub.services.identity import Identities
from codehub.services.intent_batcher import Wishes
from codehub.services.overview import Overviews
from codehub.services.sign_in import SignIn
from codehub.store.workspaces import queries
from codehub.store.workspaces.records import WorkspaceRecord

JSON = "application/json"
TELLINGS_AT_ONCE = 6
"""Lists that are read for event streams at a time: fewer than the pool has connections."""


class Parts:
    def __init__(self, given: ApiDependencies) -> None:
        self.given = given
        self.settings = given.settings
        self.sessions = given.sessions
        self.reading = given.read_sessions
        self.identities = Identities(
            given.sessions,
            reading=given.read_sessions,
            announce=given.publisher.publish_person if given.publisher is not None else None,
        )
        self.sign_in = SignIn(
            given.sessions,
            passwords=given.passwords,
            rate_limit=given.rate_limit,
            identities=self.identities,
        )
        self.progress = ProgressBoard(given.live)
        self.activity = ActivityBoard(given.activity)
        self.renderer = WorkspaceRenderer(
            base_url=given.settings.base_url,
            base_domain=given.settings.base_domain,
            progress=self.progress,
        )
        self.workspaces: Batched[UUID, WorkspaceRecord] = Batched(self._load_workspaces)
        self.pages = Pages(given.read_sessions, activity=self.activity, renderer=self.renderer)
        self.frames = Frames(self.workspaces, activity=self.activity, renderer=self.renderer)
        self.guard = StreamGuard(self.identities)
        self.people = PeopleWatch(given.live, identities=self.identities, guard=self.guard)
        self.wishes = Wishes(given.sessions)
        self.tellings = asyncio.Semaphore(TELLINGS_AT_ONCE)
        self.overviews = Overviews(
            reading=given.read_sessions, runtime=given.runtime, archives=given.archives
        )

    def start(self) -> None:
        self.progress.start()
        self.people.start()

    async def close(self) -> None:
        self.guard.end_all()
        await self.guard.close()
        await self.people.close()
        await self.progress.close()

    async def retime(self, view: WorkspaceView) -> None:
        """The idle period was changed and committed: the timer that runs now follows, and people are told.

        While Redis is away it stays as it was. Then a shorter period counts from the next use on; a longer
        one counts all the same, because the TTL manager looks at the last use too.
        """
        if await self.activity.retime(view.id, view.standby_ttl_seconds) and self.given.publisher is not None:
            await self.given.publisher.publish_activity(view.id, view.owner_id)

    async def answer(self, record: WorkspaceRecord, *, status: int = 200) -> Response:
        activities = await self.activity.read_many((record.view.id,))
        return Response(self.renderer.one(record, activities), status_code=status, media_type=JSON)

    async def _load_workspaces(self, ids: Sequence[UUID]) -> Mapping[UUID, WorkspaceRecord]:
        async with self.reading() as session:
            return {record.view.id: record for record in await queries.find_many(session, ids)}


async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


TheParts = Annotated[Parts, Depends(_parts)]
