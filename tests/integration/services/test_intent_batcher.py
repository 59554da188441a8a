"""Intents applied together: exact at the limits, a bad one alone, a withdrawn one never."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy import Text, text

from codehub.domain.limits import RunningLimits
from codehub.services import workspaces
from codehub.services.actors import Actor
from codehub.services.errors import LimitReached
from codehub.services.intent_batcher import AT_ONCE, IntentBatcher
from codehub.services.workspaces import WorkspaceValues
from codehub.store.db.session import Session, Sessions
from codehub.store.db.typed_text import typed_text
from codehub.store.errors import NameTaken, is_outage
from codehub.store.workspaces import limits
from codehub.store.workspaces.queries import find_locked, list_page
from codehub.store.workspaces.records import WorkspaceRecord
from tests.integration.store.factory import make_user, make_workspace, until_somebody_waits_for_a_lock

Grant = Callable[[Session], Awaitable[object]]
MANY = 2 * AT_ONCE + 5


@pytest.fixture
def intents(session_factory: Sessions) -> IntentBatcher:
    return IntentBatcher(session_factory)


@pytest.fixture
async def owner(session: Session) -> UUID:
    owner_id = await make_user(session)
    await session.commit()
    return owner_id


def creation(owner: UUID, name: str, *, places: int = 1000) -> Grant:
    return partial(
        workspaces.create,
        new=WorkspaceValues(name=name, image_ref="image", start=True),
        owner_id=owner,
        actor=Actor(f"user:{name}", user_id=owner),
        limits=RunningLimits(per_user=places, in_all=1000),
    )


def starting(owner: UUID, workspace_id: UUID) -> Grant:
    return partial(
        workspaces.start,
        workspace_id=workspace_id,
        actor=Actor("user:ann", user_id=owner),
        limits=RunningLimits(per_user=1000, in_all=1000),
    )


async def names(session: Session, owner: UUID) -> set[str]:
    return {record.name for record in (await list_page(session, owner_id=owner, limit=200)).items}


async def test_all_are_granted_each_in_its_own_name(
    intents: IntentBatcher, session: Session, owner: UUID
) -> None:
    wanted = [f"home-{number}" for number in range(MANY)]
    made = await asyncio.gather(*(intents.submit(creation(owner, name)) for name in wanted))
    assert [record.name for record in made if isinstance(record, WorkspaceRecord)] == wanted
    rows = await session.exec(
        typed_text(
            "SELECT w.name, e.actor FROM workspaces w JOIN workspace_events e ON e.workspace_id = w.id",
            Text(),
            Text(),
        )
    )
    assert set(rows) == {(name, f"user:{name}") for name in wanted}


async def test_places_are_exact_and_refusals_leave_the_others_alone(
    intents: IntentBatcher, session: Session, owner: UUID
) -> None:
    outcomes = await asyncio.gather(
        *(intents.submit(creation(owner, f"home-{number}", places=7)) for number in range(MANY)),
        return_exceptions=True,
    )
    refused = [each for each in outcomes if isinstance(each, BaseException)]
    assert len(refused) == MANY - 7
    assert {type(each) for each in refused} == {LimitReached}
    assert len(await names(session, owner)) == 7


async def test_of_one_name_exactly_one_is_made(intents: IntentBatcher, session: Session, owner: UUID) -> None:
    outcomes = await asyncio.gather(
        *(intents.submit(creation(owner, "home")) for _ in range(10)), return_exceptions=True
    )
    assert [type(each) for each in outcomes].count(NameTaken) == 9
    assert await names(session, owner) == {"home"}


async def test_what_the_database_refuses_or_we_got_wrong_fails_alone(
    intents: IntentBatcher, session: Session, owner: UUID
) -> None:
    async def divide(session: Session) -> None:
        await session.exec(text("SELECT 1 / 0"))

    async def stumble(session: Session) -> None:
        raise KeyError("a mistake of ours")

    wanted = [creation(owner, f"home-{number}") for number in range(6)]
    asked: list[Grant] = [*wanted[:3], divide, stumble, *wanted[3:]]
    outcomes = await asyncio.gather(*(intents.submit(each) for each in asked), return_exceptions=True)
    assert isinstance(outcomes.pop(3), asyncpg.DivisionByZeroError)
    assert isinstance(outcomes.pop(3), KeyError)
    assert [each.name for each in outcomes if isinstance(each, WorkspaceRecord)] == [
        f"home-{number}" for number in range(6)
    ]
    assert len(await names(session, owner)) == 6


async def test_one_that_was_withdrawn_while_it_queued_is_never_granted(
    intents: IntentBatcher, session: Session, session_factory: Sessions, owner: UUID
) -> None:
    async with session_factory.begin() as somebody:
        await limits.lock_limits(somebody)
        first = asyncio.create_task(intents.submit(creation(owner, "first")))
        await asyncio.sleep(0)  # in its turn, at the lock
        second = asyncio.create_task(intents.submit(creation(owner, "second")))
        third = asyncio.create_task(intents.submit(creation(owner, "third")))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
    await asyncio.gather(first, third)
    assert await names(session, owner) == {"first", "third"}


async def test_an_outage_is_told_to_everybody_and_nothing_is_kept(
    intents: IntentBatcher, session: Session, session_factory: Sessions, owner: UUID
) -> None:
    async def end_own_session(session: Session) -> None:
        await session.exec(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    wanted = [creation(owner, f"home-{number}") for number in range(3)]
    asked: list[Grant] = [*wanted, end_own_session]
    outcomes = await asyncio.gather(*(intents.submit(each) for each in asked), return_exceptions=True)
    assert all(isinstance(each, BaseException) and is_outage(each) for each in outcomes)
    assert await names(session, owner) == set()
    again = await intents.submit(creation(owner, "home-0"))
    assert isinstance(again, WorkspaceRecord)


async def test_rows_are_locked_in_the_order_everybody_keeps(
    intents: IntentBatcher, session: Session, session_factory: Sessions, owner: UUID
) -> None:
    """A coordinator locks the lower row, then the higher: whoever does it otherwise closes a circle."""
    low, high = sorted([await make_workspace(session, owner) for _ in range(2)])
    async with session_factory.begin() as coordinator:
        await find_locked(coordinator, low)
        asked = [asyncio.create_task(intents.submit(starting(owner, each), row=each)) for each in (high, low)]
        await until_somebody_waits_for_a_lock(session)
        await find_locked(coordinator, high)
    started = await asyncio.gather(*asked)
    assert [each.view.id for each in started if isinstance(each, WorkspaceRecord)] == [high, low]
