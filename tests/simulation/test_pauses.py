"""A tick that took long is over: what waited for it is done soon afterwards."""

import asyncio

import pytest

from tests.simulation.database import Transaction
from tests.simulation.environment import SimulatedEnvironment
from tests.simulation.person import People
from tests.simulation.simulation import play, until

STALL_SECONDS = 20.0
TOLD_SECONDS = 2.0  # invariant 8


@pytest.mark.usefixtures("simulated")
def test_a_stalled_statement_delays_events_by_no_more_than_the_stall() -> None:
    async def script(environment: SimulatedEnvironment, people: People) -> None:
        begun, over = asyncio.Event(), asyncio.Event()
        _stall_once(environment, begun, over)
        await asyncio.wait_for(begun.wait(), 60)
        await people.create(start=False)
        await asyncio.wait_for(over.wait(), 60)

        def told() -> bool:
            return all(
                environment.live.known.get(row.view.id) == row.view.version for row in environment.rows()
            )

        await until(told, seconds=TOLD_SECONDS)

    assert play(script) is None


def _stall_once(environment: SimulatedEnvironment, begun: asyncio.Event, over: asyncio.Event) -> None:
    """The event listener's next write stands still, as on a database that is checkpointing or swapped out."""
    original = environment.database.statement

    async def statement(transaction: Transaction, what: str) -> None:
        await original(transaction, what)
        mine = transaction.term is not None and transaction.term[0] == "coordinator:events"
        if mine and what == "record_tick" and not begun.is_set():
            begun.set()
            await asyncio.sleep(STALL_SECONDS)
            transaction.last_statement_at = environment.loop.time()  # it was busy all the while, not idle
            over.set()

    environment.database.statement = statement  # type: ignore[method-assign]
