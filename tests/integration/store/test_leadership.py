"""A term fences: once a successor has begun, the old leader's transactions find no term of theirs."""

import asyncio

from codehub.store.cluster import terms as leadership
from codehub.store.db.session import Session, Sessions
from tests.integration.store.factory import until_somebody_waits_for_a_lock

LOCK = "coordinator:wc"


async def test_each_acquisition_is_a_new_term(session: Session) -> None:
    assert (await leadership.acquire_term(session, LOCK, "node-a")).epoch == 1
    assert (await leadership.acquire_term(session, LOCK, "node-b")).epoch == 2
    assert (await leadership.acquire_term(session, "coordinator:gc", "node-a")).epoch == 1
    terms = await leadership.read_terms(session)
    assert (terms[LOCK].holder_id, terms[LOCK].epoch) == ("node-b", 2)
    assert terms["coordinator:gc"].last_tick_at is None


async def test_an_old_term_holds_nothing(session: Session) -> None:
    assert not await leadership.hold_term(session, LOCK, 1)
    await leadership.acquire_term(session, LOCK, "node-a")
    assert await leadership.hold_term(session, LOCK, 1)
    await leadership.acquire_term(session, LOCK, "node-b")
    assert not await leadership.hold_term(session, LOCK, 1)
    assert await leadership.hold_term(session, LOCK, 2)


async def test_a_successor_waits_for_the_transaction_of_the_leader_before(
    session: Session, session_factory: Sessions
) -> None:
    await leadership.acquire_term(session, LOCK, "node-a")
    await session.commit()

    async def succeed() -> int:
        async with session_factory.begin() as own:
            return (await leadership.acquire_term(own, LOCK, "node-b")).epoch

    # Given a leader inside a tick, and a successor that has asked for the next term
    assert await leadership.hold_term(session, LOCK, 1)
    successor = asyncio.create_task(succeed())
    await until_somebody_waits_for_a_lock(session)
    assert not successor.done()

    # Then the leader still writes its row and ends its tick, and only then is the term over
    await leadership.record_tick(session, LOCK, detail={"away": []})
    await session.commit()
    assert await successor == 2
    assert not await leadership.hold_term(session, LOCK, 1)


async def test_a_tick_is_on_record_for_every_replica(session: Session) -> None:
    assert await leadership.last_tick_at(session, LOCK) is None
    await leadership.acquire_term(session, LOCK, "node-a")
    assert await leadership.last_tick_at(session, LOCK) is None
    await leadership.record_tick(session, LOCK, detail={"away": ["docker"]})
    ticked = await leadership.last_tick_at(session, LOCK)
    assert ticked is not None
    # A successor does not make the last look any older or younger.
    assert (await leadership.acquire_term(session, LOCK, "node-b")).last_tick_at == ticked
    assert (await leadership.read_terms(session))[LOCK].detail == {"away": ["docker"]}
