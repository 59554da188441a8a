"""Limits are exact: two simultaneous starts never both take the last place."""

import asyncio
from uuid import UUID

from codehub.domain.states import DesiredState
from codehub.store.db.session import Session, Sessions
from codehub.store.workspaces import intents, limits, queries
from tests.integration.store.factory import make_user, make_workspace


async def start(sessions: Sessions, workspace_id: UUID, *, per_user: int, in_all: int) -> bool:
    """As the service does it: lock, look, count, write, in one transaction."""
    async with sessions.begin() as session:
        await limits.lock_limits(session)
        record = await queries.find_locked(session, workspace_id)
        assert record is not None
        usage = await limits.usage(session, record.view.owner_id)
        if usage.user >= per_user or usage.total >= in_all:
            return False
        return await intents.set_desired(session, workspace_id, DesiredState.RUNNING) is not None


async def test_many_starts_of_one_person_take_exactly_their_places(
    session: Session, session_factory: Sessions
) -> None:
    owner = await make_user(session)
    ids = [await make_workspace(session, owner) for _ in range(10)]
    taken = await asyncio.gather(*(start(session_factory, each, per_user=2, in_all=100) for each in ids))
    assert sum(taken) == 2
    assert (await limits.usage(session, owner)).user == 2
    assert len(await limits.running_of(session, owner)) == 2


async def test_many_people_take_exactly_the_places_there_are(
    session: Session, session_factory: Sessions
) -> None:
    ids = [await make_workspace(session) for _ in range(12)]
    taken = await asyncio.gather(*(start(session_factory, each, per_user=2, in_all=5) for each in ids))
    assert sum(taken) == 5
    assert (await limits.usage(session, await make_user(session))).total == 5


async def test_a_stop_frees_its_place_at_once_unless_it_failed(session: Session) -> None:
    owner = await make_user(session)
    terminal = {"reason": "Timeout", "is_terminal": True}
    await make_workspace(session, owner, desired_state="STANDBY", observed_status="RUNNING")
    assert (await limits.usage(session, owner)).user == 0
    await make_workspace(
        session, owner, desired_state="STANDBY", observed_status="RUNNING", error_info=terminal
    )
    assert (await limits.usage(session, owner)).user == 1
    await make_workspace(
        session, owner, desired_state="STANDBY", observed_status="RUNNING", operation="STOPPING"
    )
    assert (await limits.usage(session, owner)).user == 1
