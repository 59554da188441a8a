"""People: they intent for things, several at a time, edit their files, connect, and answer errors.

Everything goes through the services, like the API does, in one transaction each; a request that fails is
dropped, as by somebody who looks at an error page and goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from codehub.domain.errors import CodeHubError, FailureCode
from codehub.domain.states import ContainerState
from codehub.domain.workspace import WorkspaceView
from codehub.services import workspaces
from codehub.services.workspaces import Actor, NewWorkspace, RunningLimits
from codehub.store.db.session import Session as StoreSession
from codehub.store.db.session import SingleConnection
from codehub.store.errors import DATABASE_FAILED
from tests.simulation.connection import Connection, Session
from tests.simulation.guard import IN_ALL, PER_USER
from tests.simulation.substitution import seeded

if TYPE_CHECKING:
    from tests.simulation.world import World

ADMIN = Actor("user:simulation", is_admin=True)
LIMITS = RunningLimits(PER_USER, IN_ALL)
VERBS = ("start", "start", "start", "stop", "archive", "archive", "edit", "edit", "edit", "connect", "new")
RARE_VERBS = ("delete", "recover", "recover", "recover")

Request = Callable[[StoreSession], Awaitable[Any]]


class People:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = seeded(world.seed, 3)
        self._owners = [UUID(int=self._random.getrandbits(128), version=4) for _ in range(2)]
        self._names = 0

    async def live(self, seconds: float) -> None:
        """Until the time is over: something every few seconds, sometimes several things at once."""
        ends = asyncio.get_running_loop().time() + seconds
        for _ in range(3):
            await self.create(start=True)
        while asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(self._random.choice((0.0, 0.3, 2.0, 4.0, 7.0)))
            if self._random.random() < 0.2:
                await asyncio.gather(*(self.act("start") for _ in range(3)))
            else:
                rare = self._random.random() < 0.3
                await self.act(self._random.choice(RARE_VERBS if rare else VERBS))

    async def act(self, verb: str) -> None:
        rows = [row.view for row in self._world.rows() if row.view.deleted_at is None]
        if verb == "new" or not rows:
            if len(self._world.rows()) < 5:
                await self.create(start=self._random.random() < 0.7)
            return
        wrong = [ws for ws in rows if ws.error_info is not None]
        ws = self._random.choice(wrong if verb == "recover" and wrong else rows)
        match verb:
            case "edit":
                self._world.edit(ws.id)
            case "connect":
                self._connect(ws.id)
            case "recover":
                await self.recover(ws)
            case _:
                await self.intent(ws.id, verb)

    async def create(self, *, start: bool) -> None:
        self._names += 1
        new = NewWorkspace(
            name=f"home-{self._names}",
            image_ref="image",
            start=start,
            standby_ttl_seconds=self._random.choice((0, 20, 300)),
            archive_ttl_seconds=self._random.choice((0, 20, 300)),
        )
        owner = self._random.choice(self._owners)
        await self._ask(
            "create", lambda s: workspaces.create(s, new, owner_id=owner, actor=ADMIN, limits=LIMITS)
        )

    async def intent(self, workspace_id: UUID, verb: str) -> None:
        requests: dict[str, Request] = {
            "start": lambda s: workspaces.start(s, workspace_id, actor=ADMIN, limits=LIMITS),
            "stop": lambda s: workspaces.stop(s, workspace_id, actor=ADMIN),
            "archive": lambda s: workspaces.archive(s, workspace_id, actor=ADMIN),
            "delete": lambda s: workspaces.delete(s, workspace_id, actor=ADMIN),
            "recover": lambda s: workspaces.recover(s, workspace_id, actor=ADMIN, limits=LIMITS),
        }
        await self._ask(f"{verb} {workspace_id}", requests[verb])

    async def recover(self, ws: WorkspaceView) -> None:
        """Whoever is told that a volume vanished mounts the disk again before saying "go on", mostly."""
        patient = not self._world.chaos.on or self._random.random() < 0.6
        error = ws.error_info
        if patient and error is not None and error.context.get("code") == FailureCode.VOLUME_MISSING:
            self._world.remount(ws.id)
        await self.intent(ws.id, "recover")

    def _connect(self, workspace_id: UUID) -> None:
        connected = self._world.presence.connected
        place = self._world.engine.places.get(workspace_id)
        if workspace_id in connected:
            del connected[workspace_id]
        elif place is not None and place.container is ContainerState.RUNNING:
            connected[workspace_id] = self._world.loop.time()

    async def _ask(self, what: str, request: Request) -> None:
        """One request, one transaction."""
        self._world.say(f"person: {what}")
        try:
            connection = Connection(self._world.database)
            try:
                async with Session(SingleConnection(connection)) as session, session.begin():
                    await request(cast(StoreSession, session))
            finally:
                connection.terminate()
        except (CodeHubError, *DATABASE_FAILED) as error:
            self._world.say(f"person: {what} was refused: {type(error).__name__} {error}")
