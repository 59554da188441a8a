"""The witness in the database sees every single write, also one that the next write makes good again."""

from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from codehub.store.db.session import Sessions
from tests.chaos import audit
from tests.chaos.environment import ChaosEnvironment
from tests.support.control import ControlEnvironment
from tests.support.postgres import PostgresServer

CLAIM = "operation = 'STARTING', op_id = gen_random_uuid(), op_started_at = now(), op_seq = op_seq + 1"


@pytest.fixture
async def environment(
    database_url: str,
    postgres_server: PostgresServer,
    session_factory: Sessions,
    redis_url: str,
    tmp_path: Path,
) -> ChaosEnvironment:
    """A database with one workspace, and nothing else of an environment."""
    control = ControlEnvironment(database_url, redis_url, tmp_path, session_factory)
    await control.prepare()
    await control.create(start=False)
    nothing = cast(Any, None)
    environment = ChaosEnvironment(
        tmp_path, postgres_server, urlsplit(database_url).path[1:], nothing, nothing
    )
    await audit.install(environment)
    return environment


async def write(environment: ChaosEnvironment, *changes: str) -> list[str]:
    for change in changes:
        await environment.value(f"UPDATE workspaces SET {change}")
    return [problem.partition(":")[0] for problem in await audit.problems(environment)]


async def test_an_operation_that_begins_and_ends_is_in_order(environment: ChaosEnvironment) -> None:
    assert await write(environment, CLAIM, "op_acted_at = now()", "operation = 'NONE'", CLAIM) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
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
    environment: ChaosEnvironment, changes: tuple[str, ...], problem: str
) -> None:
    assert await write(environment, *changes) == [problem]


async def test_a_term_that_is_not_the_next_one_is_seen(environment: ChaosEnvironment) -> None:
    await environment.value(
        "INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('coordinator:wc', 'a', 1)"
    )
    since = await audit.now(environment)
    await environment.value("UPDATE system_locks SET epoch = 2, holder_id = 'b'")
    assert await audit.problems(environment) == []
    taken = await audit.take_over(environment, since)
    assert taken is not None
    assert (taken.holder, taken.act_seconds) == ("b", None)
    await environment.value("UPDATE system_locks SET epoch = 1")
    assert len(await audit.problems(environment)) == 1
