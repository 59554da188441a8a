"""The witness in the database sees every single write, also one that the next write makes good again."""

from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from codehub.store.db.session import Sessions
from tests.chaos import audit
from tests.chaos.estate import Estate
from tests.support.control import ControlEnvironment
from tests.support.postgres import PostgresServer

CLAIM = "operation = 'STARTING', op_id = gen_random_uuid(), op_started_at = now(), op_seq = op_seq + 1"


@pytest.fixture
async def estate(
    database_url: str,
    postgres_server: PostgresServer,
    session_factory: Sessions,
    redis_url: str,
    tmp_path: Path,
) -> Estate:
    """A database with one workspace, and nothing else of an estate."""
    cell = ControlEnvironment(database_url, redis_url, tmp_path, session_factory)
    await cell.prepare()
    await cell.create(start=False)
    nothing = cast(Any, None)
    estate = Estate(tmp_path, postgres_server, urlsplit(database_url).path[1:], nothing, nothing)
    await audit.install(estate)
    return estate


async def write(estate: Estate, *changes: str) -> list[str]:
    for change in changes:
        await estate.value(f"UPDATE workspaces SET {change}")
    return [verdict.partition(":")[0] for verdict in await audit.verdicts(estate)]


async def test_an_operation_that_begins_and_ends_is_in_order(estate: Estate) -> None:
    assert await write(estate, CLAIM, "op_acted_at = now()", "operation = 'NONE'", CLAIM) == []


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ((CLAIM, "op_seq = op_seq - 1", "op_seq = op_seq + 1"), "an operation's number fell or jumped"),
        ((CLAIM, CLAIM), "an operation replaced another that was in flight"),
        (
            (CLAIM, "operation = 'NONE'", "operation = 'STARTING'"),
            "an operation began without a new number",
        ),
        (("deleted_at = now()", "deleted_at = NULL"), "a deletion was taken back"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_what_must_never_be_written_is_seen(
    estate: Estate, changes: tuple[str, ...], verdict: str
) -> None:
    assert await write(estate, *changes) == [verdict]


async def test_a_term_that_is_not_the_next_one_is_seen(estate: Estate) -> None:
    await estate.value(
        "INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('coordinator:wc', 'a', 1)"
    )
    since = await audit.now(estate)
    await estate.value("UPDATE system_locks SET epoch = 2, holder_id = 'b'")
    assert await audit.verdicts(estate) == []
    taken = await audit.take_over(estate, since)
    assert taken is not None
    assert (taken.holder, taken.act_seconds) == ("b", None)
    await estate.value("UPDATE system_locks SET epoch = 1")
    assert len(await audit.verdicts(estate)) == 1
