"""The simulated store has the functions of the real one, and refuses what the real one refuses."""

import inspect
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from codehub.coordinators.control_store import ControlStore
from codehub.domain.errors import ErrorInfo, Reason
from codehub.domain.states import Operation
from codehub.store import control
from codehub.store.db.connections import Connector
from codehub.store.db.fencing import Fence
from tests.integration.store import parity_scripts as scripts
from tests.integration.store.interleaving import LOCK, Postgres, Side, Simulated
from tests.simulation.store import STORE

FUNCTIONS = sorted(
    {name for part in ControlStore.__mro__ for name in vars(part) if not name.startswith("_")}
    & set(dir(control))
)
UNREADABLE = ErrorInfo(
    Reason.ACTION_FAILED, "no", False, Operation.STARTING, 1, datetime.now(UTC), {"at": object()}
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_twin_is_called_like_the_real_one(name: str) -> None:
    real, twin = (inspect.signature(getattr(store, name)).parameters for store in (control, STORE))
    assert [(each.name, each.kind, each.default) for each in real.values()] == [
        (each.name, each.kind, each.default) for each in twin.values()
    ]


def test_the_real_store_has_every_function_of_the_protocol() -> None:
    assert set(FUNCTIONS) == set(control.__all__)


async def in_a_fence(side: Side, ask: Callable[[Any], Awaitable[Any]], *, epoch: int = 1) -> str | None:
    """What one fenced session refuses with."""
    connection = await side.connection("A")
    try:
        async with side.store.fenced_session_on(connection, Fence(LOCK, epoch)) as session:
            await ask(session)
    except Exception as error:  # noqa: BLE001 - whatever it is, both must refuse with it
        return type(error).__name__
    return None


async def two_statements(side: Side, session: Any) -> None:
    await side.store.mark_deleted(session, scripts.AT_REST)
    await side.store.mark_deleted(session, scripts.IN_FLIGHT)


async def locks_and_writes(side: Side, session: Any) -> None:
    await side.store.lock_in_order(session, [scripts.AT_REST, scripts.IN_FLIGHT])
    await side.store.touch(session, [scripts.AT_REST])


async def a_delete(side: Side, session: Any) -> None:
    await side.store.forget(session, ["a"])


async def an_insert(side: Side, session: Any) -> None:
    await side.store.acquire_term(session, LOCK, "me")


async def an_advisory_lock(side: Side, session: Any) -> None:
    await side.store.lock_limits(session)


async def a_detail_json_cannot_say(side: Side, session: Any) -> None:
    await side.store.record_tick(session, LOCK, detail={"at": object()})


async def an_error_json_cannot_say(side: Side, session: Any) -> None:
    await side.store.set_invariant_error(session, scripts.AT_REST, UNREADABLE)


async def one_statement(side: Side, session: Any) -> None:
    await side.store.touch(session, [scripts.AT_REST])


@pytest.mark.parametrize(
    ("ask", "epoch", "refusal"),
    [
        (one_statement, 1, None),
        (one_statement, 2, "TermOver"),
        (two_statements, 1, "RuntimeError"),
        (locks_and_writes, 1, "RuntimeError"),
        (a_delete, 1, "TypeError"),
        (an_insert, 1, "TypeError"),
        (an_advisory_lock, 1, "TypeError"),
        (a_detail_json_cannot_say, 1, "TypeError"),
        (an_error_json_cannot_say, 1, "TypeError"),
    ],
)
async def test_a_fenced_session_refuses_alike(
    ask: Callable[[Side, Any], Awaitable[None]], epoch: int, refusal: str | None, database_url: str
) -> None:
    """What it wrote before it refused stays: a statement was a transaction by itself."""
    connector = Connector(database_url, settings={"application_name": "parity"})
    postgres, simulated = Postgres(connector.connect), Simulated()
    await postgres.clear()
    left = []
    for side in (postgres, simulated):
        await scripts.prepare(side)

        async def asked(session: Any, side: Side = side) -> None:
            await ask(side, session)

        assert await in_a_fence(side, asked, epoch=epoch) == refusal
        views, terms, paths = await side.contents()
        left.append(([(ws.id, ws.deleted_at is None, ws.version) for ws, _, _ in views], terms, paths))
    postgres.close()
    assert left[0] == left[1]


async def test_a_session_that_was_left_is_refused() -> None:
    """The real one would begin a transaction that nobody ends; the simulation does not let that pass."""
    simulated = Simulated()
    session: Any = simulated.store.session_on(await simulated.connection("A"))
    async with session, session.begin():
        await simulated.store.now(session)
    with pytest.raises(RuntimeError, match="was left"):
        await simulated.store.find(session, UUID(int=1))
