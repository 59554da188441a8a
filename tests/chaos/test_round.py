"""The short round: a few faults of each family under load. ``make chaos`` is the long one."""

import pytest

from tests.chaos.faults import FAULTS, KILL
from tests.chaos.round import play

# A group of its own: two rounds at once would only wait for each other's processes.
pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("chaos-round")]

SEED = 20
SHORT = (
    KILL.name,
    "PostgreSQL restart",
    "Redis kill -9",
    "link to PostgreSQL cut",
    KILL.name,
)


async def test_two_replicas_under_load_lose_nothing_and_double_nothing() -> None:
    report = await play([FAULTS[name] for name in SHORT], seed=SEED, tenants=6)
    print(f"\n{report.text}")
    assert report.problems == []
    taken = [strike.take_over for strike in report.strikes if strike.name == KILL.name]
    assert all(taken), "after each kill the other replica leads"
