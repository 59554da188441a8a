"""A tick that took long is over: what waited for it is done soon afterwards."""

import asyncio

import pytest

from tests.simulation.database import Transaction
from tests.simulation.person import People
from tests.simulation.simulation import play, until
from tests.simulation.world import World

STALL_SECONDS = 20.0
TOLD_SECONDS = 2.0  # invariant 8


@pytest.mark.usefixtures("simulated")
def test_a_stalled_statement_delays_events_by_no_more_than_the_stall() -> None:
    async def script(world: World, people: People) -> None:
        begun, over = asyncio.Event(), asyncio.Event()
        _stall_once(world, begun, over)
        await asyncio.wait_for(begun.wait(), 60)
        await people.create(start=False)
        await asyncio.wait_for(over.wait(), 60)

        def told() -> bool:
            return all(world.live.known.get(row.view.id) == row.view.version for row in world.rows())

        await until(told, seconds=TOLD_SECONDS)

    assert play(script) is None


def _stall_once(world: World, begun: asyncio.Event, over: asyncio.Event) -> None:
    """The event listener's next write stands still, as on a database that is checkpointing or swapped out."""
    original = world.database.statement

    async def statement(transaction: Transaction, what: str) -> None:
        await original(transaction, what)
        mine = transaction.term is not None and transaction.term[0] == "coordinator:events"
        if mine and what == "record_tick" and not begun.is_set():
            begun.set()
            await asyncio.sleep(STALL_SECONDS)
            transaction.last_statement_at = world.loop.time()  # it was busy all the while, not idle
            over.set()

    world.database.statement = statement  # type: ignore[method-assign]
