"""What the archive GC remembers between cycles, and whom it asks before deleting; the installation's id."""

import asyncio
from uuid import uuid4

from codehub.domain.states import HealthStatus, ObservedStatus
from codehub.store.cluster import installation, orphans
from codehub.store.db import statements
from codehub.store.db.session import Session, Sessions
from tests.integration.store.factory import make_workspace


async def test_an_orphan_keeps_its_first_time_until_it_is_protected_again(session: Session) -> None:
    first = await orphans.replace_seen(session, ["a", "b"])
    await session.commit()
    assert first.keys() == {"a", "b"}

    second = await orphans.replace_seen(session, ["b", "c", "c"])
    await session.commit()
    assert second.keys() == {"b", "c"}
    assert second["b"] == first["b"] < second["c"]

    third = await orphans.replace_seen(session, ["a"])
    assert third["a"] > first["a"]  # protected in between: its delay began anew
    assert await orphans.replace_seen(session, []) == {}


async def test_deleted_paths_are_forgotten(session: Session) -> None:
    await orphans.replace_seen(session, ["a", "b"])
    assert await orphans.forget(session, ["a", "z"]) == 1
    assert [path for path, _ in await orphans.list_all(session)] == ["b"]


async def test_owners_are_found_and_strangers_are_not(session: Session) -> None:
    now = await statements.now(session)
    op_id = uuid4()
    live = await make_workspace(session, archive_key="key", op_id=op_id, health_status="ERROR")
    gone = await make_workspace(session, observed_status="DELETED", deleted_at=now)
    owners = await orphans.load_owners(session, [live, gone, uuid4()])
    assert owners.keys() == {live, gone}
    assert (owners[live].archive_key, owners[live].op_id) == ("key", op_id)
    assert owners[live].health_status is HealthStatus.ERROR
    assert not owners[live].is_terminal
    assert (owners[gone].observed_status, owners[gone].deleted_at) == (ObservedStatus.DELETED, now)


async def test_replicas_that_start_at_once_agree_on_who_they_are(
    session_factory: Sessions,
) -> None:
    async def ask() -> object:
        async with session_factory.begin() as session:
            return (await installation.get_or_create(session)).id

    assert len(set(await asyncio.gather(*(ask() for _ in range(6))))) == 1
