"""Event streams: each subscriber equals the database, through restarts of everything."""

import asyncio
import gc
import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Executable, text

from codehub.api.live import revocation, sse
from codehub.services.passwords import Passwords
from codehub.signals.connection import RedisLink
from codehub.signals.postgres_fallback import PostgresFallback
from codehub.store.db import connections
from codehub.store.db.pool import Pool
from codehub.store.db.session import Connection, Session
from tests.integration.api.environment import (
    ApiEnvironment,
    create_workspace,
    make_environment,
    serve,
    user_id,
)
from tests.integration.api.listening import Listener, change_feed, listening
from tests.support import postgres
from tests.support.accounts import PASSWORD
from tests.support.redis import RedisServer
from tests.support.waiting import until


@asynccontextmanager
async def reading(
    environment: ApiEnvironment, database_url: str, client: httpx.AsyncClient, path: str = "/api/v1/events"
) -> AsyncIterator[Listener]:
    async with (
        change_feed(database_url, environment.publisher),
        serve(environment.app) as base,
        listening(client, base + path) as heard,
    ):
        yield heard


async def execute(environment: ApiEnvironment, statement: str, **values: Any) -> None:
    async with environment.sessions.begin() as session:
        await session.exec(text(statement), values)


async def in_database(client: httpx.AsyncClient) -> dict[str, int]:
    items = (await client.get("/api/v1/workspaces?limit=200")).json()["items"]
    return {each["id"]: each["version"] for each in items}


async def until_equal(heard: Listener, client: httpx.AsyncClient, *, seconds: float = 20.0) -> None:
    """What the reader knows is what the database holds."""

    async def equal() -> bool:
        try:
            truth = await in_database(client)
        except KeyError:  # the database is away
            return False
        return truth == {key: ws["version"] for key, ws in heard.workspaces.items()}

    await until(equal, seconds=seconds, what="reader equals database")


async def test_a_list_begins_with_its_ids_then_each_workspace_then_only_news(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    first, second = await create_workspace(ann, "first"), await create_workspace(ann, "second")
    async with reading(environment, database_url, ann) as heard:
        await heard.until(2, "state_changed")
        assert heard.names()[0] == "snapshot"
        assert set(heard.events[0].data["ids"]) == {first["id"], second["id"]}
        await until_equal(heard, ann)
        told = len(heard.named("state_changed"))

        await ann.post(f"/api/v1/workspaces/{first['id']}/start")
        news = await heard.until(told + 1, "state_changed")
        assert (news.data["id"], news.data["desired_state"]) == (first["id"], "RUNNING")
        assert news.id == f"{first['id']}:{news.data['version']}"
        assert news.data == (await ann.get(f"/api/v1/workspaces/{first['id']}")).json()


async def test_versions_only_grow_and_the_last_one_arrives(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    async with reading(environment, database_url, ann) as heard:
        await heard.until(1, "state_changed")
        for number in range(30):
            await ann.patch(f"/api/v1/workspaces/{workspace['id']}", json={"memo": f"note {number}"})
        await until_equal(heard, ann)
        assert heard.workspaces[workspace["id"]]["memo"] == "note 29"
        tellings: list[list[int]] = [[]]
        for each in heard.events:
            if each.name == "resync":
                tellings.append([])
            if each.name == "state_changed":
                tellings[-1].append(each.data["version"])
        for versions in tellings:
            assert versions == sorted(set(versions)), "strictly growing within one telling"


async def test_a_new_and_a_deleted_workspace_come_and_go(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    async with reading(environment, database_url, ann) as heard:
        await heard.until(1, "snapshot")
        workspace = await create_workspace(ann)
        await until_equal(heard, ann)
        await ann.delete(f"/api/v1/workspaces/{workspace['id']}")
        await execute(environment, "UPDATE workspaces SET observed_status = 'DELETED'")
        gone = await heard.until(1, "deleted")
        assert gone.data["id"] == workspace["id"]
        assert heard.workspaces == {}


async def test_the_stream_of_one_workspace_ends_with_it(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    path = f"/api/v1/workspaces/{workspace['id']}/events"
    async with reading(environment, database_url, ann, path) as heard:
        first = await heard.until(1, "state_changed")
        assert first.data["id"] == workspace["id"]
        assert "snapshot" not in heard.names()
        await ann.delete(f"/api/v1/workspaces/{workspace['id']}")
        await execute(environment, "UPDATE workspaces SET observed_status = 'DELETED'")
        await heard.until(1, "deleted")
        await heard.until_ended()


async def test_an_error_is_told_beside_the_change_once(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    info = (
        '{"reason": "Timeout", "message": "too slow", "is_terminal": true, "operation": "STARTING", '
        '"error_count": 1, "context": {}, "occurred_at": "2025-01-01T00:00:00+00:00"}'
    )
    async with reading(environment, database_url, ann) as heard:
        await heard.until(1, "state_changed")
        await execute(environment, "UPDATE workspaces SET error_info = cast(:info as jsonb)", info=info)
        told = await heard.until(1, "error")
        assert told.data["error_info"]["message"] == "too slow"
        assert told.data["status"] == "error"
        await ann.patch(f"/api/v1/workspaces/{workspace['id']}", json={"memo": "still broken"})
        await until_equal(heard, ann)
        assert len(heard.named("error")) == 1


async def test_progress_has_no_version_and_shows_in_answers(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    await execute(
        environment,
        "UPDATE workspaces SET operation = 'RESTORING', op_id = gen_random_uuid(), op_started_at = now()",
    )
    async with reading(environment, database_url, ann) as heard:
        await heard.until(1, "state_changed")

        async def progressed() -> bool:
            await environment.publisher.publish_progress(
                UUID(workspace["id"]), await user_id(ann), {"operation": "RESTORING", "percent": 42}
            )
            return bool(heard.named("progress"))

        await until(progressed, what="progress")
        told = heard.named("progress")[0]
        assert told.id is None
        assert told.data == {"id": workspace["id"], "progress": 42, "operation": "RESTORING"}
        answer = (await ann.get(f"/api/v1/workspaces/{workspace['id']}")).json()
        assert (answer["status"], answer["progress"]) == ("restoring", 42)
        await execute(environment, "UPDATE workspaces SET operation = 'NONE'")
        await until_equal(heard, ann)
        assert (await ann.get(f"/api/v1/workspaces/{workspace['id']}")).json()["progress"] is None


async def test_a_few_that_are_named_are_followed_and_no_others(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann, bob, admin = [await environment.sign_in(name) for name in ("ann", "bob", "admin")]
    shown, hidden = await create_workspace(ann, "shown"), await create_workspace(ann, "hidden")
    path = f"/api/v1/events?id={shown['id']}"
    async with (
        change_feed(database_url, environment.publisher),
        serve(environment.app) as base,
        listening(ann, base + path) as mine,
        listening(bob, base + path) as strangers,
        listening(admin, f"{base}{path}&owner=all") as overseers,
    ):
        assert (await strangers.until(1, "snapshot")).data == {"ids": []}
        for heard in (mine, overseers):
            assert (await heard.until(1, "snapshot")).data == {"ids": [shown["id"]]}
        for each in (hidden, shown):
            await ann.patch(f"/api/v1/workspaces/{each['id']}", json={"memo": "news"})
        for heard in (mine, overseers):

            async def told(heard: Listener = heard) -> bool:
                return heard.workspaces.get(shown["id"], {}).get("memo") == "news"

            await until(told, what="news of the one that is followed")
            assert hidden["id"] not in str(heard.events)
        assert strangers.workspaces == {}
    too_many = "&".join(f"id={shown['id']}" for _ in range(201))
    assert (await ann.get(f"/api/v1/events?{too_many}")).status_code == 422


async def test_nobody_hears_of_anothers_workspaces_but_an_admin_of_all(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann, bob, admin = [await environment.sign_in(name) for name in ("ann", "bob", "admin")]
    async with (
        change_feed(database_url, environment.publisher),
        serve(environment.app) as base,
        listening(bob, f"{base}/api/v1/events") as stranger,
        listening(admin, f"{base}/api/v1/events?owner=all") as overseer,
    ):
        await stranger.until(1, "snapshot")
        await overseer.until(1, "snapshot")
        workspace = await create_workspace(ann)
        await overseer.until(1, "state_changed")
        mark = await create_workspace(bob, "mark")  # comes after, on the same road
        await until_equal(stranger, bob)
        assert set(stranger.workspaces) == {mark["id"]}
        assert workspace["id"] not in str(stranger.events)


async def test_a_killed_redis_costs_nobody_a_change(
    environment: ApiEnvironment, database_url: str, redis_server: RedisServer
) -> None:
    ann = await environment.sign_in("ann")
    kept, lost = await create_workspace(ann, "kept"), await create_workspace(ann, "lost")
    async with reading(environment, database_url, ann) as heard:
        await until_equal(heard, ann)
        redis_server.kill()
        # Changed, deleted and made while nobody could be told; answers go on without activity.
        await ann.patch(f"/api/v1/workspaces/{kept['id']}", json={"memo": "during the outage"})
        await execute(
            environment,
            "UPDATE workspaces SET deleted_at = now(), observed_status = 'DELETED' WHERE id = :id",
            id=UUID(lost["id"]),
        )
        made = await create_workspace(ann, "made")
        assert made["activity"] == dict.fromkeys(
            ("connections", "last_seen_at", "kind", "awake", "next", "queue")
        )
        resyncs = len(heard.named("resync"))
        redis_server.start()
        await heard.until(resyncs + 1, "resync")
        await until_equal(heard, ann)
        assert set(heard.workspaces) == {kept["id"], made["id"]}
        assert heard.workspaces[kept["id"]]["memo"] == "during the outage"


async def test_without_any_redis_the_database_itself_tells(
    environment: ApiEnvironment, database_url: str, redis_server: RedisServer
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    postgres_fallback = PostgresFallback(environment.live, dsn=database_url)
    postgres_fallback.start()
    try:
        async with reading(environment, database_url, ann) as heard:
            await until_equal(heard, ann)
            redis_server.kill()
            path = f"/api/v1/workspaces/{workspace['id']}"
            for number in range(5):
                assert (await ann.patch(path, json={"memo": f"note {number}"})).status_code == 200
                await until_equal(heard, ann)
            redis_server.start()

            async def handed_back() -> bool:
                return environment.live.connected and not postgres_fallback.listening

            await until(handed_back, what="Redis carries the events again")
            await ann.patch(path, json={"memo": "as before"})
            await until_equal(heard, ann)
    finally:
        await postgres_fallback.close()


async def test_readers_that_leave_at_any_moment_leave_no_connection_behind(
    environment: ApiEnvironment, pool: Pool
) -> None:
    ann = await environment.sign_in("ann")
    for number in range(5):
        await create_workspace(ann, f"ws {number}")
    cookie = f"codehub_session={ann.cookies['codehub_session']}"
    chance = random.Random(1)
    async with serve(environment.app) as base:
        host, port = base.removeprefix("http://").split(":")

        async def come_and_go() -> None:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n".encode())
            await asyncio.sleep(chance.uniform(0, 0.05))
            writer.transport.abort()

        for _ in range(20):
            await asyncio.gather(*(come_and_go() for _ in range(20)))

        async def all_gone() -> bool:
            return float(revocation.SUBSCRIBERS._value.get()) == 0

        await until(all_gone, what="every reader gone")
    gc.collect()
    await asyncio.sleep(0)
    assert pool.lent == 0


async def test_cut_database_connections_cost_nobody_a_change(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    async with reading(environment, database_url, ann) as heard:
        await until_equal(heard, ann)
        for number in range(3):
            with pytest.raises(Exception, match=r".*"):
                # Takes the connection that says so along: nothing is spared.
                await execute(
                    environment,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() ORDER BY pid = pg_backend_pid()",
                )
            answer = await ann.patch(
                f"/api/v1/workspaces/{workspace['id']}", json={"memo": f"after cut {number}"}
            )
            assert answer.status_code in {200, 503}
        await until_equal(heard, ann)
        assert not heard.ended


async def test_a_database_that_is_away_for_a_while_ends_no_stream(
    environment: ApiEnvironment, database_url: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    away = True
    refused = 0

    async with reading(environment, database_url, ann) as heard:
        await until_equal(heard, ann)
        await ann.patch(f"/api/v1/workspaces/{workspace['id']}", json={"memo": "before"})
        await until_equal(heard, ann)

        acquire = pool.acquire

        async def refuse() -> Connection:
            nonlocal refused
            if away:
                refused += 1
                raise ConnectionRefusedError("no database here")
            return await acquire()

        monkeypatch.setattr(pool, "acquire", refuse)
        await environment.publisher.publish_resync()

        async def was_refused() -> bool:
            return refused >= 3

        await until(was_refused, what="tries during the outage")
        assert (await ann.post("/api/v1/workspaces", json={"name": "x"})).status_code == 503
        away = False
        await ann.patch(f"/api/v1/workspaces/{workspace['id']}", json={"memo": "afterwards"})
        await until_equal(heard, ann)
        assert heard.workspaces[workspace["id"]]["memo"] == "afterwards"
        assert not heard.ended


async def test_many_readers_of_one_change_share_one_query(
    environment: ApiEnvironment, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    readers = 50
    async with change_feed(database_url, environment.publisher), serve(environment.app) as base:
        heard: list[Listener] = []
        stack: list[Any] = []
        try:
            for _ in range(readers):
                context = listening(ann, f"{base}/api/v1/events")
                heard.append(await context.__aenter__())
                stack.append(context)
            await asyncio.gather(*(each.until(1, "state_changed") for each in heard))
            await asyncio.gather(*(until_equal(each, ann) for each in heard))
            selects: list[str] = []

            ask = Session.exec

            async def counted(session: Session, statement: Executable, params: Any = None) -> Any:
                if "FROM workspaces" in str(statement):
                    selects.append(str(statement))
                return await ask(session, cast(Any, statement), params)

            monkeypatch.setattr(Session, "exec", counted)
            await execute(
                environment, "UPDATE workspaces SET memo = 'news' WHERE id = :id", id=UUID(workspace["id"])
            )

            async def all_know() -> bool:
                return all(each.workspaces[workspace["id"]]["memo"] == "news" for each in heard)

            await until(all_know, what="everybody knows")
            assert len(selects) <= 3, selects
        finally:
            await asyncio.gather(*(each.__aexit__(None, None, None) for each in stack))


async def test_a_disabled_persons_stream_ends(environment: ApiEnvironment, database_url: str) -> None:
    environment.app.state.codehub.revoker._interval_seconds = 0.2
    assert revocation.INTERVAL_SECONDS <= 30
    admin, eve = await environment.sign_in("admin"), await environment.sign_in("eve")
    eve_id = await user_id(eve)
    async with reading(environment, database_url, eve) as heard:
        await heard.until(1, "snapshot")
        await admin.patch(f"/api/v1/users/{eve_id}", json={"disabled": True})
        await heard.until_ended()


async def test_signing_out_ends_the_streams_of_that_session_at_once(
    environment: ApiEnvironment, database_url: str
) -> None:
    """By a hint: the periodic look is switched off here."""
    environment.app.state.codehub.revoker._interval_seconds = 3600
    ann, elsewhere = await environment.sign_in("ann"), await environment.sign_in("ann")
    async with (
        change_feed(database_url, environment.publisher),
        serve(environment.app) as base,
        listening(ann, f"{base}/api/v1/events") as heard,
        listening(elsewhere, f"{base}/api/v1/events") as other,
    ):
        await heard.until(1, "snapshot")
        await other.until(1, "snapshot")
        assert (await ann.post("/api/v1/auth/logout")).status_code == 204
        await heard.until_ended()
        assert not other.ended
        password = {"current": PASSWORD, "new": "another correct horse"}
        third = await environment.sign_in("ann")
        assert (await third.post("/api/v1/auth/password", json=password)).status_code == 204
        await other.until_ended()


async def test_a_heart_beats(environment: ApiEnvironment) -> None:
    app = environment.with_settings(heartbeat_seconds=0.1)
    ann = await environment.sign_in("ann")
    async with serve(app) as base, listening(ann, f"{base}/api/v1/events") as heard:
        beat = await heard.until(3, "heartbeat")
        assert set(beat.data) == {"at"}


async def test_a_reader_that_does_not_read_is_dropped(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "DRAIN_SECONDS", 0.5)
    ann = await environment.sign_in("ann")
    for number in range(40):
        await create_workspace(ann, f"ws {number}", memo="x" * 4000)
    async with serve(environment.app) as base:
        host, port = base.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1024)
        cookie = f"codehub_session={ann.cookies['codehub_session']}"
        writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n".encode())
        await writer.drain()

        async def open_streams() -> float:
            return float(revocation.SUBSCRIBERS._value.get())

        await until(open_streams, what="an open stream")

        async def dropped() -> bool:
            await environment.publisher.publish_resync()  # each is 160 kB more than nobody reads
            return await open_streams() == 0

        await until(dropped, seconds=60, what="the reader is dropped")
        writer.close()


async def test_a_restarted_postgresql_costs_nobody_a_change(
    redis_link: RedisLink, passwords: Passwords, tmp_path: Path
) -> None:
    with postgres.run_server() as server:
        async with _environment_on(server, redis_link, passwords, tmp_path) as (environment, url):
            ann = await environment.sign_in("ann")
            workspace = await create_workspace(ann)
            async with reading(environment, url, ann) as heard:
                await until_equal(heard, ann)
                for number in range(2):
                    await asyncio.to_thread(postgres_control, server, "restart")

                    async def changed(note: str = f"after restart {number}") -> bool:
                        answer = await ann.patch(f"/api/v1/workspaces/{workspace['id']}", json={"memo": note})
                        assert answer.status_code in {200, 503}, answer.text
                        return answer.status_code == 200

                    await until(changed, what="a change after the restart")
                    await until_equal(heard, ann)
                    assert heard.workspaces[workspace["id"]]["memo"] == f"after restart {number}"
                assert not heard.ended
        await asyncio.to_thread(postgres_control, server, "stop")


@asynccontextmanager
async def _environment_on(
    server: postgres.PostgresServer, link: RedisLink, passwords: Passwords, directory: Path
) -> AsyncIterator[tuple[ApiEnvironment, str]]:
    """An environment on a database server of its own, which may be restarted."""
    template = await postgres.ensure_template(server)
    url = server.url(template)
    pool = connections.create_pool(url)
    async with make_environment(
        pool=pool,
        sessions=connections.session_factory(pool),
        link=link,
        passwords=passwords,
        directory=directory,
    ) as environment:
        yield environment, url
    await pool.dispose()


def postgres_control(server: postgres.PostgresServer, action: str) -> None:
    """``pg_ctl`` as the server's own user: kills every session in the middle of whatever it does."""
    subprocess.run(
        server.command("pg_ctl", "-D", str(server.directory / "data"), "-m", "immediate", "-w", action),
        check=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
