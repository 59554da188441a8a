"""Run two scripts of statements in a given order, on PostgreSQL and on the simulated database.

A script is what one session does, step by step; an order names whose step is next. A step that cannot go on
because the other session holds a lock is an outcome of its own, ``waits``: PostgreSQL says so in ``pg_locks``,
the simulated database in its backend. While it waits, its session's turns are passed over; what it answers in the
end is noted when it comes.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations
from typing import Any
from uuid import UUID

from sqlalchemy import delete, select

from codehub.domain.workspace import WorkspaceView
from codehub.store import control
from codehub.store.accounts import users
from codehub.store.db.fencing import Fence
from codehub.store.db.session import Connection as DriverConnection
from codehub.store.schema.tables import archive_orphans, system_locks
from codehub.store.schema.tables import users as users_table
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.claims import ClaimedOperation
from codehub.store.workspaces.records import VIEW
from tests.simulation import rows
from tests.simulation.chaos import Chaos
from tests.simulation.comparison import comparable, order_of_times
from tests.simulation.connection import Connection
from tests.simulation.database import Database
from tests.simulation.queries import WORKSPACES
from tests.simulation.queries_due import ORPHANS
from tests.simulation.queries_terms import TERMS
from tests.simulation.store import STORE

OWNER = UUID(int=9, version=4)
LOCK = "coordinator:parity"
CLEAR = [delete(table) for table in (w, system_locks, archive_orphans, users_table)]


class Side(ABC):
    """One of the two databases. ``store`` is the one of the product, or its twin."""

    store: Any

    @abstractmethod
    async def connection(self, name: str) -> Any:
        """The connection of this name, the same one every time."""

    @abstractmethod
    async def is_waiting(self, connection: Any) -> bool: ...

    @abstractmethod
    async def contents(self) -> Any:
        """All that is committed: workspaces with their derived columns, terms, orphans."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """For preparing and reading: a session of its own that commits."""
        async with self.store.session_on(await self.connection("own")) as session, session.begin():
            yield session


class Postgres(Side):
    store = control

    def __init__(self, connect: Callable[[], Awaitable[DriverConnection]]) -> None:
        self._connect = connect
        self._connections: dict[str, DriverConnection] = {}

    async def connection(self, name: str) -> DriverConnection:
        if name not in self._connections:
            self._connections[name] = await self._connect()
        return self._connections[name]

    async def is_waiting(self, connection: DriverConnection) -> bool:
        ungranted = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)"
        watching = await self.connection("watching")
        return bool(await watching.fetchval(ungranted, connection.get_server_pid()))

    async def clear(self) -> None:
        async with self.transaction() as session:
            for statement in CLEAR:
                await session.exec(statement)
            await users.create(session, user_id=OWNER, username="owner", password_hash="-")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.terminate()

    async def contents(self) -> Any:
        async with self.transaction() as session:
            derived = [w.c[name] for name in rows.DERIVED]
            found = await session.exec(select(VIEW, w.c.name, *derived).order_by(w.c.id))
            views = [(ws, name, dict(zip(rows.DERIVED, rest, strict=True))) for ws, name, *rest in found]
            columns = (system_locks.c.holder_id, system_locks.c.epoch, system_locks.c.detail)
            terms = [tuple(row) for row in await session.exec(select(*columns))]
            paths = sorted(path for (path,) in await session.exec(select(archive_orphans.c.path)))
        return views, terms, paths


class Simulated(Side):
    store = STORE

    def __init__(self) -> None:
        self.database = Database(chaos=Chaos(0, on=False), loop=asyncio.get_running_loop())
        self._connections: dict[str, Connection] = {}

    async def connection(self, name: str) -> Connection:
        if name not in self._connections:
            self._connections[name] = Connection(self.database)
        return self._connections[name]

    async def is_waiting(self, connection: Connection) -> bool:
        await asyncio.sleep(0)
        return connection.backend.waits_for is not None

    async def contents(self) -> Any:
        found = sorted(self.database.scan(None, WORKSPACES), key=lambda row: row.view.id)
        views = [
            (row.view, row.name, {name: rule(row.view) for name, rule in rows.DERIVED.items()})
            for row in found
        ]
        terms = [(term.holder_id, term.epoch, term.detail) for term in self.database.scan(None, TERMS)]
        return views, terms, sorted(path for path, _ in self.database.scan(None, ORPHANS))


@dataclass
class Party:
    """One session, and what its script remembers."""

    side: Side
    connection: Any
    session: Any
    views: dict[UUID, WorkspaceView]
    claims: dict[UUID, ClaimedOperation]
    at: datetime
    pending: "asyncio.Task[Any] | None" = None
    done: int = 0
    told: bool = False

    async def statement(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return _in_order(await getattr(self.side.store, name)(self.session, *args, **kwargs))

    async def fenced(self, epoch: int, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """One statement of a leader: a transaction by itself."""
        fence = Fence(LOCK, epoch, "parity")
        async with self.side.store.fenced_session_on(self.connection, fence) as session:
            return _in_order(await getattr(self.side.store, name)(session, *args, **kwargs))


def _in_order(answer: Any) -> Any:
    """Rows written by one statement come back in no order that anybody has asked for."""
    if isinstance(answer, dict):
        return dict(sorted(answer.items()))
    unordered = isinstance(answer, set | list) and all(isinstance(each, UUID) for each in answer)
    return sorted(answer) if unordered else answer


Step = Callable[[Party], Awaitable[Any]]
Script = Sequence[Step]


@dataclass
class Played:
    """What happened, in order, and what is there in the end; comparable between the two databases."""

    trace: list[Any] = field(default_factory=list)
    contents: Any = None


def orders(first: Script, second: Script) -> Iterator[str]:
    """Every order of the steps of two scripts: A's stay in order, and B's."""
    length = len(first) + len(second)
    for places in combinations(range(length), len(first)):
        yield "".join("A" if place in places else "B" for place in range(length))


async def play(
    side: Side, prepare: Callable[[Side], Awaitable[Any]], scripts: dict[str, Script], order: str
) -> Played:
    """Run both scripts in this order to their ends."""
    views, claims, at = await prepare(side)
    labels: dict[Any, str] = {}
    comparable([*views, OWNER], labels)
    played = Played()
    parties: dict[str, Party] = {}
    for name in scripts:
        connection = await side.connection(name)
        session = side.store.session_on(connection)
        parties[name] = Party(side, connection, session, dict(views), dict(claims), at)
    game = _Game(parties, scripts, played.trace, labels)
    for name in order:
        await game.turn(name)
    await game.to_the_end()
    found, terms, paths = await side.contents()
    times = [order_of_times(ws) for ws, _, _ in found]
    played.contents = comparable([found, times, terms, paths], labels)
    return played


class _Game:
    def __init__(
        self, parties: dict[str, Party], scripts: dict[str, Script], trace: list[Any], labels: dict[Any, str]
    ) -> None:
        self._parties = parties
        self._scripts = scripts
        self._trace = trace
        self._labels = labels

    async def turn(self, name: str) -> None:
        """The next step of this session, unless it waits; then see what that brought about."""
        party = self._parties[name]
        if party.pending is not None or party.done == len(self._scripts[name]):
            return
        party.pending = asyncio.ensure_future(_answer(self._scripts[name][party.done], party))
        party.told = False
        await self._settle(name)
        for other in self._parties:
            await self._settle(other)

    async def to_the_end(self) -> None:
        while unfinished := [name for name in self._parties if self._is_unfinished(name)]:
            able = [name for name in unfinished if self._parties[name].pending is None]
            if able:
                await self.turn(able[0])
            else:  # each waits for the other: the database ends one of them
                pending = [party.pending for party in self._parties.values() if party.pending is not None]
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for name in unfinished:
                    await self._settle(name)

    def _is_unfinished(self, name: str) -> bool:
        return self._parties[name].pending is not None or self._parties[name].done < len(self._scripts[name])

    async def _settle(self, name: str) -> None:
        """Wait until the step has ended or waits for a lock, and note which."""
        party = self._parties[name]
        if party.pending is None:
            return
        while not party.pending.done():
            if await party.side.is_waiting(party.connection):
                if not party.told:
                    self._trace.append((name, party.done, "waits"))
                    party.told = True
                return
            await asyncio.wait({party.pending}, timeout=0.001)
        self._trace.append((name, party.done, comparable(party.pending.result(), self._labels)))
        party.pending, party.done = None, party.done + 1


async def _answer(step: Step, party: Party) -> Any:
    try:
        return await step(party)
    except Exception as error:  # noqa: BLE001 - a refusal is an answer
        return f"raised {type(error).__name__}"
