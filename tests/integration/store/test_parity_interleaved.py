"""Two sessions at once: the simulated database does what PostgreSQL does, in every order of their steps.

The simulation proves something about the product only as far as its database waits, rechecks and refuses like
the real one. Two scripts run in all interleavings on both; whoever waits, whoever is refused, every answer and
what is there in the end must be the same. Planted in the twin, a missing recheck and a lost update are found.
"""

from collections.abc import AsyncIterator

import pytest

from codehub.store.db.connections import Connector
from tests.integration.store import parity_scripts as scripts
from tests.integration.store.interleaving import Played, Postgres, Script, Simulated, orders, play
from tests.simulation import queries, queries_terms
from tests.simulation.connection import Session
from tests.simulation.database import Database
from tests.simulation.rows import Row

GROUPS = {
    "at rest": scripts.ROWS_AT_REST,
    "in flight": scripts.ROWS_IN_FLIGHT,
    "terms": scripts.TERMS,
    "names": scripts.NAMES,
    "limits": scripts.LIMITS,
    "orphans": scripts.ORPHANS,
}

DEADLOCK_TRIES = 4
"""Of two sessions that wait for each other PostgreSQL ends the one whose ``deadlock_timeout`` passes first once both
wait: the one that waited first, unless the machine stood still between the two waits. Then it is played again."""


@pytest.fixture
async def postgres(database_url: str) -> AsyncIterator[Postgres]:
    connector = Connector(database_url, settings={"application_name": "parity", "lock_timeout": "5s"})
    side = Postgres(connector.connect)
    yield side
    side.close()


async def difference(postgres: Postgres, first: Script, second: Script) -> str | None:
    """The first order in which the two databases differ; None: there is none."""
    both = {"A": first, "B": second}
    for order in orders(first, second):
        fake = await play(Simulated(), scripts.prepare, both, order)
        real = await play_really(postgres, both, order)
        for _ in range(DEADLOCK_TRIES):
            if real != fake and ends_a_deadlock(real):
                real = await play_really(postgres, both, order)
        if real != fake:
            return f"{order}\nPostgreSQL: {real}\nsimulated:  {fake}"
    return None


async def play_really(postgres: Postgres, both: dict[str, Script], order: str) -> Played:
    await postgres.clear()
    return await play(postgres, scripts.prepare, both, order)


def ends_a_deadlock(played: Played) -> bool:
    return any(answer == "raised DeadlockDetectedError" for _, _, answer in played.trace)


@pytest.mark.parametrize(
    ("group", "first"),
    [
        pytest.param(group, first, id=f"{group}: {first}")
        for group, named in GROUPS.items()
        for first in named
    ],
)
async def test_two_sessions_meet_alike(group: str, first: str, postgres: Postgres) -> None:
    names = list(GROUPS[group])
    for second in names[names.index(first) :]:
        found = await difference(postgres, GROUPS[group][first], GROUPS[group][second])
        assert found is None, f"{first} / {second}: {found}"


async def test_a_missing_recheck_in_the_twin_is_found(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited for the lock writes without looking again: two claims of one row both take it."""

    def not_judged(session: Session, change: queries.Change, seen: Row) -> Row | None:
        del seen
        row: Row | None = session.db.get(session.transaction, queries.WORKSPACES, change.key)
        return row

    claims = scripts.ROWS_AT_REST["claims"]
    monkeypatch.setattr(queries, "_judged_again", not_judged)
    assert await difference(postgres, claims, claims) is not None


async def test_a_lost_update_in_the_twin_is_found(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited for the lock writes the row as found before: what the other wrote is gone."""
    monkeypatch.setattr(queries, "_judged_again", lambda session, change, seen: seen)
    touches, fails = scripts.ROWS_IN_FLIGHT["touches"], scripts.ROWS_IN_FLIGHT["catches up"]
    assert await difference(postgres, touches, fails) is not None


async def test_a_write_that_takes_no_lock_in_the_twin_is_found(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_locked(*_: object) -> None:
        return None

    monkeypatch.setattr(Database, "lock", not_locked)
    stops, observes = scripts.ROWS_AT_REST["is stopped, in vain"], scripts.ROWS_AT_REST["observes"]
    assert await difference(postgres, stops, observes) is not None


async def test_a_read_that_holds_the_term_in_the_twin_is_found(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fenced read compares the term without waiting for a successor that has not committed."""
    lasts = queries_terms.term_lasts

    async def always_locked(session: Session, lock_name: str, epoch: int, *, lock: bool) -> bool:
        del lock
        return await lasts(session, lock_name, epoch, lock=True)

    monkeypatch.setattr(queries_terms, "term_lasts", always_locked)
    leads, reads = scripts.TERMS["takes over"], scripts.TERMS["reads"]
    assert await difference(postgres, leads, reads) is not None


async def test_every_order_of_two_scripts_is_played() -> None:
    """Each order once: of two and one steps there are three."""
    step = scripts.commit
    assert sorted(orders((step, step), (step,))) == ["AAB", "ABA", "BAA"]
