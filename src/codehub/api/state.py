"""Build and hold the objects that all routes of one API process share."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request, Response

from codehub.api.dependencies import ApiDependencies
from codehub.api.ended_clients import EndedClients
from codehub.api.live.activity import ActivityCache
from codehub.api.live.downloads import Downloads
from codehub.api.live.renderer import EventRenderer
from codehub.api.live.revocation import PeopleRevocation, StreamRevoker
from codehub.api.pages import WorkspacePages
from codehub.api.progress_cache import ProgressCache
from codehub.api.queue_places import QueuePlaces
from codehub.api.rendering import WorkspaceRenderer
from codehub.domain.workspace import WorkspaceView
from codehub.kit.batching import Batched
from codehub.services.identity import Identities
from codehub.services.intent_batcher import IntentBatcher
from codehub.services.overview import Overviews
from codehub.services.repairs import Repairs
from codehub.services.savings import SavingsReader
from codehub.services.sign_in import SignIn
from codehub.store.workspaces import queries
from codehub.store.workspaces.records import WorkspaceRecord

JSON = "application/json"
MAX_SNAPSHOTS = 6
"""Snapshots of lists that event streams read at once: fewer than the pool has connections."""


class AppState:
    """Caches, batchers and services of one API process."""

    def __init__(self, deps: ApiDependencies) -> None:
        self.deps = deps
        self.settings = deps.settings
        self.sessions = deps.sessions
        self.reading = deps.read_sessions
        self.identities = Identities(
            deps.sessions,
            reading=deps.read_sessions,
            announce=deps.publisher.publish_person if deps.publisher is not None else None,
        )
        self.sign_in = SignIn(
            deps.sessions,
            passwords=deps.passwords,
            rate_limit=deps.rate_limit,
            identities=self.identities,
        )
        self.progress = ProgressCache(deps.live)
        self.activity = ActivityCache(deps.activity)
        self.queue_places = QueuePlaces(deps.read_sessions, limits=deps.settings.limits)
        self.renderer = WorkspaceRenderer(
            base_url=deps.settings.base_url,
            base_domain=deps.settings.base_domain,
            progress=self.progress,
            use_policy=deps.settings.use_policy,
            ties_home_to_node=deps.settings.ties_home_to_node,
        )
        # Pays for: one workspace by API; POST → ready, 50 at once.
        self.workspaces: Batched[UUID, WorkspaceRecord] = Batched(self._load_workspaces)
        self.pages = WorkspacePages(
            deps.read_sessions, activity=self.activity, queue=self.queue_places, renderer=self.renderer
        )
        self.frames = EventRenderer(
            self.workspaces, activity=self.activity, queue=self.queue_places, renderer=self.renderer
        )
        self.revoker = StreamRevoker(self.identities)
        self.downloads = Downloads(self.revoker)
        self.people = PeopleRevocation(deps.live, identities=self.identities, revoker=self.revoker)
        self.intent_batcher = IntentBatcher(deps.sessions)
        self.ended_clients = EndedClients(deps.rate_limit)
        self.snapshot_slots = asyncio.Semaphore(MAX_SNAPSHOTS)
        self.savings = SavingsReader(deps.read_sessions, price=deps.settings.price)
        self.overviews = Overviews(reading=deps.read_sessions, runtime=deps.runtime, archives=deps.archives)
        self.repairs = Repairs(
            deps.sessions, runtime=deps.runtime, archives=deps.archives, limits=deps.settings.limits
        )

    def start(self) -> None:
        """Start the background tasks. Needs a running event loop."""
        self.progress.start()
        self.people.start()

    async def close(self) -> None:
        """End all streams and background tasks."""
        self.revoker.end_all()
        await self.revoker.close()
        await self.people.close()
        await self.progress.close()
        await self.deps.contents.close()

    async def retime(self, view: WorkspaceView) -> None:
        """Adjust the running idle timer after a committed change of the TTL.

        Publishes the change. While Redis is away the timer stays as it was. Then a shorter TTL applies from the
        next use on; a longer one applies at once, because the TTL manager reads the last use too. The same holds
        after a crash between the commit and this call.
        """
        if await self.activity.retime(view.id, view.standby_ttl_seconds) and self.deps.publisher is not None:
            await self.deps.publisher.publish_activity(view.id, view.owner_id)

    async def answer(self, record: WorkspaceRecord, *, status: int = 200) -> Response:
        """Render a workspace as the response."""
        activities = await self.activity.read_many((record.view.id,))
        places = await self.queue_places.of((record,))
        return Response(self.renderer.one(record, activities, places), status_code=status, media_type=JSON)

    async def _load_workspaces(self, ids: Sequence[UUID]) -> Mapping[UUID, WorkspaceRecord]:
        async with self.reading() as session:
            return {record.view.id: record for record in await queries.find_many(session, ids)}


def state_of(request: Request) -> AppState:
    """The state of the application that handles this request."""
    state: AppState = request.app.state.codehub
    return state


async def _depend_on_state(request: Request) -> AppState:  # async: others run in a thread
    return state_of(request)


State = Annotated[AppState, Depends(_depend_on_state)]
