"""``doctor``, ``user``, ``settings`` and ``migrate``, each as a person runs it."""

import contextlib
import json
import socket
from pathlib import Path

import asyncpg
import pytest
from redis.asyncio import Redis

from codehub.server.settings.tree import all_variables
from codehub.signals.notices import PEOPLE_CHANNEL
from tests.support.instance import codehub, codehub_up, processes_of
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, admin_connection
from tests.support.redis import RedisServer

pytestmark = pytest.mark.timeout(240)


def free_bind() -> str:
    return f"127.0.0.1:{free_port()}"


async def test_doctor_finds_a_machine_fit_before_the_first_start(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    outcome = await codehub("doctor", "--json", CODEHUB_DATA_DIR=str(data_dir), CODEHUB_BIND=free_bind())
    assert outcome.code == 0, outcome.output
    report = json.loads(outcome.output)
    assert report["ok"]
    assert {finding["what"] for finding in report["findings"]} == {
        "data directory",
        "database",
        "migrations",
        "redis",
        "versions",
        "archive store",
        "runtime",
        "sandbox",
        "tar and zstd",
        "port",
        "websockets",
        "ssh",
    }
    assert not data_dir.exists(), "looking changes nothing"


async def test_doctor_looks_at_a_running_instance(tmp_path: Path) -> None:
    async with codehub_up(tmp_path / "data") as instance:
        bind = instance.url.removeprefix("http://")
        outcome = await codehub("doctor", CODEHUB_DATA_DIR=str(tmp_path / "data"), CODEHUB_BIND=bind)
        assert outcome.code == 0, outcome.output
        assert "PostgreSQL 18" in outcome.output
        assert "CodeHub" in outcome.output
        assert "All is well" in outcome.output
    assert processes_of(tmp_path / "data") == {}


async def test_doctor_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = await codehub(
            "doctor",
            "--json",
            CODEHUB_DATA_DIR=str(tmp_path / "file" / "data"),
            CODEHUB_BIND=bind,
            DATABASE_URL="postgresql://ann:s3cret@127.0.0.1:1/codehub",
            REDIS_URL="redis://:s3cret@127.0.0.1:1",
            ARCHIVE_URL=f"file://{tmp_path}/file/archives",
            CODEHUB_RUNTIME="docker",
            DOCKER_HOST=f"unix://{tmp_path}/no.sock",
        )
    assert outcome.code == 1
    bad = {one["what"]: one for one in json.loads(outcome.output)["findings"] if one["verdict"] == "bad"}
    assert set(bad) == {
        "data directory",
        "database",
        "migrations",
        "redis",
        "archive store",
        "runtime",
        "port",
    }
    assert all(one["advice"] for what, one in bad.items() if what != "migrations")
    assert "s3cret" not in outcome.output + outcome.errors


async def test_accounts(tmp_path: Path, database_url: str) -> None:
    settings = {"DATABASE_URL": database_url, "CODEHUB_DATA_DIR": str(tmp_path)}

    added = await codehub("user", "add", "ann", "--admin", "--json", **settings)
    assert added.code == 0, added.errors
    assert json.loads(added.output)["role"] == "admin"
    assert len(json.loads(added.output)["password"]) >= 16

    given = await codehub("user", "add", "bob", "--password-stdin", stdin="correct horse\n", **settings)
    assert given.code == 0, given.errors
    assert "correct horse" not in given.output

    taken = await codehub("user", "add", "BOB", **settings)
    assert (taken.code, "already" in taken.errors) == (5, True)
    unfit = await codehub("user", "add", "b ob", **settings)
    assert (unfit.code, "username" in unfit.errors) == (1, True)
    short = await codehub("user", "add", "cy", "--password-stdin", stdin="short\n", **settings)
    assert (short.code, "8 characters" in short.errors) == (1, True)

    assert (await codehub("user", "passwd", "bob", **settings)).code == 0
    assert (await codehub("user", "passwd", "nobody", **settings)).code == 4
    assert (await codehub("user", "disable", "bob", **settings)).code == 0
    last = await codehub("user", "disable", "ann", **settings)
    assert (last.code, "last admin" in last.errors) == (5, True)

    listed = json.loads((await codehub("user", "list", "--json", **settings)).output)
    assert [(user["username"], user["disabled_at"] is None) for user in listed] == [
        ("ann", True),
        ("bob", False),
    ]
    again = await codehub("user", "disable", "--undo", "bob", **settings)
    assert (again.code, "active" in again.output) == (0, True)

    connection = await asyncpg.connect(database_url)
    try:
        actions = [
            row["action"] for row in await connection.fetch("SELECT action FROM audit_log ORDER BY seq")
        ]
    finally:
        await connection.close()
    assert actions == ["user.create", "user.create", "user.password", "user.disable", "user.enable"]


async def test_the_first_words_of_an_embedded_database_are_no_part_of_the_answer(tmp_path: Path) -> None:
    settings = {"CODEHUB_DATA_DIR": str(tmp_path / "data")}
    migrated = await codehub("migrate", "--json", **settings)
    assert migrated.code == 0, migrated.errors
    assert json.loads(migrated.output)["before"] is None
    added = await codehub("user", "add", "ann", "--json", **settings)
    assert json.loads(added.output)["username"] == "ann", added.errors


async def test_open_pages_hear_of_what_a_shell_did_to_a_person(
    tmp_path: Path, database_url: str, redis_server: RedisServer
) -> None:
    settings = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server.url,
        "CODEHUB_DATA_DIR": str(tmp_path),
    }
    added = await codehub("user", "add", "bob", "--json", **settings)
    bob = json.loads(added.output)["id"].encode()
    async with Redis.from_url(redis_server.url) as client, client.pubsub() as heard:
        await heard.subscribe(PEOPLE_CHANNEL)
        await heard.get_message(timeout=20)  # that it is subscribed
        for command in (("passwd", "bob"), ("disable", "bob"), ("disable", "--undo", "bob")):
            done = await codehub("user", *command, "--json", **settings)
            assert done.code == 0, done.errors
            json.loads(done.output)
            said = await heard.get_message(timeout=20)
            assert said is not None, command
            assert said["data"] == bob

    redis_server.kill()
    without = await codehub("user", "disable", "bob", "--json", **settings)
    assert without.code == 0, without.errors
    assert json.loads(without.output)["disabled_at"]


async def test_help_names_every_setting() -> None:
    shown = await codehub("settings", "--json")
    assert [one["name"] for one in json.loads(shown.output)] == [
        variable.name for variable in all_variables()
    ]
    helped = "".join((await codehub("serve", "--help", COLUMNS="200")).output.split())
    assert all(variable.name in helped for variable in all_variables())


async def test_doctor_wants_a_database_that_can_hold_every_name(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    async with admin_connection(postgres_server) as connection:
        await connection.execute("CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII'")
    try:
        outcome = await codehub(
            "doctor",
            "--json",
            CODEHUB_DATA_DIR=str(tmp_path),
            CODEHUB_BIND=free_bind(),
            DATABASE_URL=postgres_server.url("ascii"),
        )
    finally:
        async with admin_connection(postgres_server) as connection:
            await connection.execute("DROP DATABASE ascii WITH (FORCE)")
    [database] = [one for one in json.loads(outcome.output)["findings"] if one["what"] == "database"]
    assert database["verdict"] == "bad"
    assert "SQL_ASCII" in database["detail"]
    assert "UTF8" in database["advice"]
