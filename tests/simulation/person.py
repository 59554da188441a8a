"""People: they ask for things, several at a time, edit their files, connect, and answer errors.

Everything goes through the services, like the API does, in one transaction each; a request that fails is
dropped, as by somebody who looks at an error page and goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from codehub.domain.errors import CodeHubError, FailureCode
from codehub.domain.generations import ChosenArchive
from codehub.domain.limits import RunningLimits, holds_place
from codehub.domain.states import ContainerState, DesiredState
from codehub.domain.workspace import WorkspaceView
from codehub.services import copies, generations, snapshots, workspaces
from codehub.services.actors import Actor
from codehub.services.errors import LimitReached
from codehub.services.workspaces import WorkspaceValues
from codehub.store.db.session import Session as StoreSession
from codehub.store.errors import DATABASE_FAILED
from tests.simulation.connection import Connection, Session
from tests.simulation.determinism import seeded
from tests.simulation.guard import IN_ALL, PER_USER
from tests.simulation.runtime import checksum
from tests.simulation.store import STORE

if TYPE_CHECKING:
    from tests.simulation.environment import SimulatedEnvironment

ADMIN = Actor("user:simulation", is_admin=True)
LIMITS = RunningLimits(PER_USER, IN_ALL)
VERBS = ("start", "start", "start", "stop", "archive", "archive", "edit", "edit", "edit", "connect", "new")
RARE_VERBS = ("delete", "recover", "recover", "recover", "return", "return", "return", "stay")

Request = Callable[[StoreSession], Awaitable[Any]]


class People:
    def __init__(self, environment: "SimulatedEnvironment") -> None:
        self._environment = environment
        self._random = seeded(environment.seed, 3)
        self._queue_random = seeded(environment.seed, 9)
        self._owners = [UUID(int=self._random.getrandbits(128), version=4) for _ in range(2)]
        self._names = 0
        # Of every third seed: the others stay as they were without snapshots and copies.
        self._keeps_copies = environment.seed % 3 == 2
        self._copy_random = seeded(environment.seed, 13)

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
            if self._keeps_copies and self._copy_random.random() < 0.3:
                await self.keep_or_copy()

    async def act(self, verb: str) -> None:
        rows = [row.view for row in self._environment.rows() if row.view.deleted_at is None]
        if verb == "new" or not rows:
            if len(self._environment.rows()) < 5:
                await self.create(start=self._random.random() < 0.7)
            return
        wrong = [ws for ws in rows if ws.error_info is not None]
        ws = self._random.choice(wrong if verb == "recover" and wrong else rows)
        if verb == "return":  # mostly where there is a choice
            ws = max(rows, key=self._choices)
        match verb:
            case "edit":
                self._environment.edit(ws.id)
            case "connect":
                self._connect(ws.id)
            case "recover":
                await self.recover(ws)
            case "return":
                await self.return_and_undo(ws)
            case _:
                await self.intent(ws.id, verb)

    async def create(self, *, start: bool) -> None:
        self._names += 1
        new = WorkspaceValues(
            name=f"home-{self._names}",
            image_ref="image",
            start=start,
            standby_ttl_seconds=self._random.choice((0, 20, 300)),
            archive_ttl_seconds=self._random.choice((0, 20, 300)),
        )
        owner = self._random.choice(self._owners)
        await self._ask(
            "create",
            lambda s: workspaces.create(s, new, owner_id=owner, actor=ADMIN, limits=LIMITS, store=STORE),
        )

    async def intent(self, workspace_id: UUID, verb: str) -> Exception | None:
        """Ask for one thing; why it was refused, if it was. Some wait for a place, some make room."""
        queue, instead_of = self._queue_random.random() < 0.6, None
        if verb == "start" and self._queue_random.random() < 0.15:
            instead_of = self._other_of(workspace_id)
        requests: dict[str, Request] = {
            "start": lambda s: workspaces.start(
                s, workspace_id, actor=ADMIN, limits=LIMITS, queue=queue, instead_of=instead_of, store=STORE
            ),
            "stop": lambda s: workspaces.stop(s, workspace_id, actor=ADMIN, store=STORE),
            "archive": lambda s: workspaces.archive(s, workspace_id, actor=ADMIN, store=STORE),
            "delete": lambda s: workspaces.delete(s, workspace_id, actor=ADMIN, store=STORE),
            "stay": lambda s: generations.cancel_restore(s, workspace_id, actor=ADMIN, store=STORE),
            "recover": lambda s: workspaces.recover(s, workspace_id, actor=ADMIN, limits=LIMITS, store=STORE),
        }
        return await self._ask(f"{verb} {workspace_id}", requests[verb])

    def _other_of(self, workspace_id: UUID) -> UUID | None:
        """One that runs, of the same person."""
        rows = {row.view.id: row.view for row in self._environment.rows()}
        others = [
            ws.id
            for ws in rows.values()
            if ws.id != workspace_id and ws.owner_id == rows[workspace_id].owner_id and holds_place(ws)
        ]
        return self._queue_random.choice(sorted(others)) if others else None

    def _choices(self, ws: WorkspaceView) -> tuple[bool, bool, int]:
        """How much there is to return to; of an archived home by a switch alone, and that can be undone at once."""
        stored = len(self._environment.archives.committed(ws.id))
        return (stored > 1, ws.desired_state is DesiredState.PENDING, stored)

    async def return_and_undo(self, ws: WorkspaceView) -> None:
        """To any archive there is, the current one included; some think better of it and return from there."""
        before, stored = ws.archive_key, self._environment.archives.committed(ws.id)
        if not stored:
            await self.intent(ws.id, "archive")  # something to return to, later
            return
        start = self._random.random() < 0.4
        others = sorted(set(stored) - {before}) or sorted(stored)
        await self.return_to(ws, self._random.choice(others), start=start)
        if before is not None and self._random.random() < 0.5:
            await asyncio.sleep(self._random.choice((0.3, 2.0, 4.0)))
            await self.return_to(ws, before, start=start)

    async def return_to(self, ws: WorkspaceView, key: str, *, start: bool = False) -> Exception | None:
        stored = self._environment.archives.committed(ws.id).get(key)
        if stored is None:
            return None
        chosen = ChosenArchive(key, stored.stored_at, checksum(ws.id, key))
        return await self._ask(
            f"return {ws.id} to {key}",
            lambda s: generations.restore(
                s, ws.id, chosen, start=start, actor=ADMIN, limits=LIMITS, store=STORE
            ),
        )

    async def keep_or_copy(self) -> None:
        """Take a snapshot, delete one, or open a copy of any archive there is, then perhaps delete its source."""
        rows = [row.view for row in self._environment.rows() if row.view.deleted_at is None]
        if not rows:
            return
        ws = self._copy_random.choice(rows)
        what = self._copy_random.choice(("snapshot", "snapshot", "copy", "copy", "forget"))
        if what == "snapshot":
            await self.snapshot(ws)
        elif what == "forget":
            for each in ws.snapshots[:1]:
                await self.forget_snapshot(ws, each.id)
        elif len(self._environment.rows()) < 7:
            stored = sorted(self._environment.archives.committed(ws.id))
            if stored:
                await self.copy(ws, self._copy_random.choice(stored), start=self._copy_random.random() < 0.5)
                if self._copy_random.random() < 0.3:
                    await self.intent(ws.id, "delete")

    async def snapshot(self, ws: WorkspaceView) -> Exception | None:
        return await self._ask(
            f"snapshot {ws.id}", lambda s: snapshots.take(s, ws.id, "kept", actor=ADMIN, store=STORE)
        )

    async def forget_snapshot(self, ws: WorkspaceView, snapshot_id: UUID) -> Exception | None:
        return await self._ask(
            f"delete a snapshot of {ws.id}",
            lambda s: snapshots.delete(s, ws.id, snapshot_id, actor=ADMIN, store=STORE),
        )

    async def copy(self, ws: WorkspaceView, key: str, *, start: bool = False) -> Exception | None:
        self._names += 1
        new = WorkspaceValues(
            name=f"copy-{self._names}", image_ref="image", start=start, archive_ttl_seconds=20
        )
        stored = self._environment.archives.committed(ws.id)[key]
        chosen = ChosenArchive(key, stored.stored_at, checksum(ws.id, key))
        return await self._ask(
            f"copy {key}",
            lambda s: copies.copy(s, ws.id, chosen, new, actor=ADMIN, limits=LIMITS, store=STORE),
        )

    async def recover(self, ws: WorkspaceView) -> None:
        """Whoever is told that a volume vanished mounts the disk again before saying "go on", mostly."""
        patient = not self._environment.chaos.on or self._random.random() < 0.6
        error = ws.error_info
        if patient and error is not None and error.context.get("code") == FailureCode.VOLUME_MISSING:
            self._environment.remount(ws.id)
        refusal = await self.intent(ws.id, "recover")
        if patient and isinstance(refusal, LimitReached):
            await self._make_room(ws)
            await self.intent(ws.id, "recover")

    async def _make_room(self, ws: WorkspaceView) -> None:
        """Stop one other workspace: recovering takes a running place."""
        others = [
            row.view for row in self._environment.rows() if row.view.id != ws.id and holds_place(row.view)
        ]
        own = [other for other in others if other.owner_id == ws.owner_id]
        for other in (own or others)[:1]:
            await self.intent(other.id, "stop")

    def _connect(self, workspace_id: UUID) -> None:
        connected = self._environment.presence.connected
        place = self._environment.engine.places.get(workspace_id)
        if workspace_id in connected:
            del connected[workspace_id]
        elif place is not None and place.container is ContainerState.RUNNING:
            connected[workspace_id] = self._environment.loop.time()

    async def _ask(self, what: str, request: Request) -> Exception | None:
        """One request, one transaction; why it was refused, if it was."""
        self._environment.say(f"person: {what}")
        try:
            connection = Connection(self._environment.database)
            try:
                async with Session(connection) as session, session.begin():
                    await request(cast(StoreSession, session))
            finally:
                connection.terminate()
        except (CodeHubError, *DATABASE_FAILED) as error:
            self._environment.say(f"person: {what} was refused: {type(error).__name__} {error}")
            return error
        return None
