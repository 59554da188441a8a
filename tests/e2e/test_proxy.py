"""Who is let in, what wakes and what sleeps: a real CodeHub, asked as browsers ask.

One instance for all; each test is a person of its own, so limits and lists are theirs alone.
"""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
import websockets

from tests.support.instance import codehub_up
from tests.support.people import ECHO, QUICK, Person, refused_with, ticks_of
from tests.support.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

TINY_FAILS = "false {port}"
SETTINGS: dict[str, Any] = {
    **QUICK,
    "LOCAL_IMAGES": json.dumps({"echo": ECHO, "broken": TINY_FAILS}),
    "RECONCILER_MAX_RETRIES": "0",
    "LIMITS_MAX_RUNNING_PER_USER": "2",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", **SETTINGS) as instance:
        yield instance.url


@pytest_asyncio.fixture(loop_scope="module")
async def ann(url: str, admin: Person) -> AsyncIterator[Person]:
    username = f"ann-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with Person.sign_in(url, username) as person:
        yield person


@pytest_asyncio.fixture(loop_scope="module")
async def bob(url: str, admin: Person) -> AsyncIterator[Person]:
    username = f"bob-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with Person.sign_in(url, username) as person:
        yield person


async def headers_seen(person: Person, workspace_id: str) -> dict[str, str]:
    answer = await person.background(f"/w/{workspace_id}/headers")
    return {name.lower(): value for name, value in answer.json()["headers"]}


# Asleep and awake ---------------------------------------------------------------------------------


async def test_an_idle_workspace_sleeps_and_says_why(ann: Person) -> None:
    workspace_id = await ann.running("idle", standby_ttl_seconds=2)
    seen = await ann.until_status(workspace_id, "standby", seconds=150)
    assert seen["desired_state"] == "STANDBY"
    history = await ann.api("GET", f"/workspaces/{workspace_id}/history")
    causes = [(entry["actor"], entry["cause"]) for entry in history["items"]]
    assert ("ttl", "idle for 2 s") in causes


async def test_an_open_socket_keeps_it_awake_and_its_end_lets_it_sleep(ann: Person, url: str) -> None:
    workspace_id = await ann.running("busy", standby_ttl_seconds=2)
    async with ann.socket(f"/w/{workspace_id}/socket") as tab:

        async def only_the_socket() -> bool:
            seen = await ann.workspace(workspace_id)
            return bool(seen["activity"]["connections"] == 1)

        # Requests lend their lease for a few seconds more; from then on the socket alone speaks.
        await until(only_the_socket)
        await ticks_of(url, "ttl", more=6)
        await tab.send("still here")
        assert await tab.recv() == "still here"
        assert (await ann.workspace(workspace_id))["desired_state"] == "RUNNING"
    await ann.until_status(workspace_id, "standby", seconds=150)


async def test_a_forgotten_tab_never_wakes_and_a_person_does(ann: Person, url: str) -> None:
    workspace_id = await ann.running("forgotten")
    await ann.intent(workspace_id, "stop")
    await ann.until_status(workspace_id, "standby")
    before = (await ann.workspace(workspace_id))["version"]

    refused = await ann.background(f"/w/{workspace_id}/api/contents")
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert await refused_with(ann.socket(f"/w/{workspace_id}/api/kernels")) == 503
    posted = await ann.client.post(f"/w/{workspace_id}/api/sessions", json={})
    assert posted.status_code == 503
    await ticks_of(url, "wc", more=2)
    seen = await ann.workspace(workspace_id)
    assert (seen["status"], seen["desired_state"], seen["version"]) == ("standby", "STANDBY", before)

    page = await ann.navigate(f"/w/{workspace_id}/")
    assert page.status_code == 200
    assert 'data-page="waiting"' in page.text
    await ann.until_open(workspace_id)
    assert "<h1>echo</h1>" in (await ann.navigate(f"/w/{workspace_id}/")).text
    history = await ann.api("GET", f"/workspaces/{workspace_id}/history")
    assert "opened the link" in [entry["cause"] for entry in history["items"]]


async def test_an_archived_one_wakes_through_its_archive(ann: Person) -> None:
    workspace_id = await ann.running("archived")
    await ann.intent(workspace_id, "archive")
    await ann.until_status(workspace_id, "archived")
    assert (await ann.background(f"/w/{workspace_id}/")).status_code == 503
    page = await ann.navigate(f"/w/{workspace_id}/")
    assert 'data-step="files"' in page.text, "the page says that files come first"
    await ann.until_open(workspace_id)


# Who is let in ------------------------------------------------------------------------------------


async def test_somebody_elses_is_the_same_as_none(ann: Person, bob: Person, admin: Person) -> None:
    workspace_id = await ann.running("private")
    nothing = str(uuid4())
    for ask in (bob.navigate, bob.background):
        theirs, none = await ask(f"/w/{workspace_id}/"), await ask(f"/w/{nothing}/")
        assert theirs.status_code == none.status_code == 404
        assert theirs.content == none.content
        assert _alike(theirs) == _alike(none)
    sockets = [ann.url.replace("http", "ws") + f"/w/{each}/socket" for each in (workspace_id, nothing)]
    assert [await refused_with(bob.socket(urlsplit(each).path)) for each in sockets] == [404, 404]
    assert (await admin.background(f"/w/{workspace_id}/")).status_code == 200, "an administrator may"


def _alike(answer: httpx.Response) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in answer.headers.items() if name != "date")


async def test_signed_out_a_page_leads_to_the_sign_in_and_back(ann: Person, url: str) -> None:
    workspace_id = await ann.running("door")
    async with Person.nobody(url) as nobody:
        page = await nobody.navigate(f"/w/{workspace_id}/lab?x=1")
        assert page.status_code == 303
        assert page.headers["location"] == f"/login?next=%2Fw%2F{workspace_id}%2Flab%3Fx%3D1"
        assert (await nobody.background(f"/w/{workspace_id}/lab")).status_code == 401
        assert await refused_with(nobody.socket(f"/w/{workspace_id}/socket")) == 401


async def test_whoever_signs_out_loses_requests_and_open_sockets(ann: Person) -> None:
    workspace_id = await ann.running("leaving")
    cookie = ann.cookie
    async with ann.socket(f"/w/{workspace_id}/socket") as tab:
        await ann.api("POST", "/auth/logout")

        async def refused() -> bool:
            answer = await ann.client.get(f"/w/{workspace_id}/", headers={"Cookie": cookie, "Accept": "*/*"})
            return answer.status_code == 401

        await until(refused, what="a revoked session to be refused")
        await _ends(tab)


async def test_whoever_is_disabled_loses_requests_and_open_sockets(url: str, admin: Person) -> None:
    user = await admin.add_user(f"eve-{uuid4().hex[:8]}")
    async with Person.sign_in(url, user["username"]) as eve:
        workspace_id = await eve.running("closing")
        async with eve.socket(f"/w/{workspace_id}/socket") as tab:
            await admin.api("PATCH", f"/users/{user['id']}", json={"disabled": True})

            async def refused() -> bool:
                return (await eve.background(f"/w/{workspace_id}/")).status_code == 401

            await until(refused, what="a disabled person to be refused")
            await _ends(tab)


async def _ends(tab: websockets.ClientConnection) -> None:
    async def closed() -> bool:
        return tab.state is websockets.State.CLOSED

    await until(closed, seconds=45, what="the open socket to end")


async def test_the_limit_page_lists_what_runs_and_its_buttons_work(ann: Person) -> None:
    running = [await ann.running(name) for name in ("first", "second")]
    third = await ann.create("third", start=False)
    page = await ann.navigate(f"/w/{third}/")
    assert page.status_code == 502
    assert sorted(re.findall(r'data-instead="([^"]+)"', page.text)) == sorted(running)
    assert all(f">{name}<" in page.text for name in ("first", "second"))
    assert (await ann.workspace(third))["desired_state"] != "RUNNING"
    # What the button does, with what the browser sends along.
    stop = await ann.client.post(
        f"/api/v1/workspaces/{running[0]}/stop", headers={"Sec-Fetch-Site": "same-origin"}
    )
    assert stop.status_code == 202

    async def waiting() -> bool:
        return 'data-page="waiting"' in (await ann.navigate(f"/w/{third}/")).text

    await until(waiting, what="room for the third")
    await ann.until_open(third)


async def test_the_error_page_says_why(ann: Person) -> None:
    workspace_id = await ann.create("broken", image="broken")
    await ann.until_status(workspace_id, "error")
    reason = (await ann.workspace(workspace_id))["error_info"]

    async def shown() -> httpx.Response | None:
        page = await ann.navigate(f"/w/{workspace_id}/")
        return page if page.status_code == 502 else None

    page = await until(shown)
    assert page is not None
    assert reason["reason"] in page.text
    assert (await ann.background(f"/w/{workspace_id}/")).status_code == 502


# Secrets ------------------------------------------------------------------------------------------


async def test_a_workspace_never_sees_what_opens_codehub(ann: Person, url: str) -> None:
    workspace_id = await ann.running("curious")
    session = ann.client.cookies["codehub_session"]
    ann.client.cookies.set("theme", "dark")
    answer = await ann.client.get(
        f"/w/{workspace_id}/headers", headers={"X-CodeHub-Principal": "x", "Sec-Fetch-Mode": "cors"}
    )
    assert session not in answer.text
    seen = {name.lower(): value for name, value in answer.json()["headers"]}
    assert seen["cookie"] == "theme=dark"
    assert not [name for name in seen if name.startswith("x-codehub")]

    token = (await ann.api("POST", "/tokens", json={"name": "script"}))["token"]
    async with httpx.AsyncClient(trust_env=False) as client:
        by_token = await client.get(
            f"{url}/w/{workspace_id}/headers", headers={"Authorization": f"Bearer {token}"}
        )
    assert by_token.status_code == 200
    assert token not in by_token.text
    assert "authorization" not in {name.lower() for name, _ in by_token.json()["headers"]}


async def test_what_a_workspace_needs_to_know_is_told(ann: Person) -> None:
    workspace_id = await ann.running("told")
    seen = await headers_seen(ann, workspace_id)
    assert seen["host"] == urlsplit(ann.url).netloc
    assert seen["x-forwarded-prefix"] == f"/w/{workspace_id}"
    assert seen["x-forwarded-for"] == "127.0.0.1"


async def test_a_socket_of_a_foreign_page_is_refused(ann: Person) -> None:
    workspace_id = await ann.running("sockets")
    for origin in ("http://evil.example", "null", ann.url + "0", ann.url.replace("http:", "https:")):
        assert await refused_with(ann.socket(f"/w/{workspace_id}/socket", origin=origin)) == 403
    async with ann.socket(f"/w/{workspace_id}/socket") as tab:
        await tab.send("hello")
        assert await tab.recv() == "hello"


# Ports --------------------------------------------------------------------------------------------


async def test_a_second_server_of_a_workspace_is_reached_and_nothing_else(
    ann: Person, bob: Person, url: str
) -> None:
    mine, theirs = await ann.running("ports"), await bob.running("others")
    port = int((await ann.background(f"/w/{mine}/listen?child=1")).text)
    their_port = int((await bob.background(f"/w/{theirs}/listen")).text)

    page = await ann.navigate(f"/w/{mine}/port/{port}/app")
    assert page.status_code == 200
    assert "<p id=path>/app</p>" in page.text
    async with ann.socket(f"/w/{mine}/port/{port}/socket") as tab:
        await tab.send("hello")
        assert await tab.recv() == "hello"
    seen = (await ann.background(f"/w/{mine}/port/{port}/headers")).json()["headers"]
    assert ["X-Forwarded-Prefix", f"/w/{mine}/port/{port}"] in seen

    assert (await bob.background(f"/w/{mine}/port/{port}/")).status_code == 404
    own_port = urlsplit(url).port
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        for closed in (their_port, own_port, stranger.getsockname()[1], 1):
            assert (await ann.background(f"/w/{mine}/port/{closed}/")).status_code == 404
            assert (await ann.navigate(f"/w/{mine}/port/{closed}/")).status_code == 404
            assert await refused_with(ann.socket(f"/w/{mine}/port/{closed}/")) == 404


# What others are told of it -----------------------------------------------------------------------


async def test_who_is_connected_reaches_an_open_stream_by_itself(ann: Person) -> None:
    workspace_id = await ann.running("watched")
    told: list[dict[str, Any]] = []

    async def listen() -> None:
        name = ""
        async with ann.client.stream("GET", "/api/v1/events", timeout=None) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:") and name == "activity":
                    told.append(json.loads(line[5:])["activity"])

    async def told_that(holds: Callable[[dict[str, Any]], bool]) -> None:
        async def heard() -> bool:
            return bool(told) and holds(told[-1])

        await until(heard, what="an event about it")

    listening = asyncio.create_task(listen())
    try:
        async with ann.socket(f"/w/{workspace_id}/socket"):
            await told_that(lambda activity: activity["connections"] >= 1 and activity["next"] is None)
        await told_that(lambda activity: activity["connections"] == 0 and activity["next"] is not None)
    finally:
        listening.cancel()


async def test_signing_out_closes_open_sockets(ann: Person, url: str) -> None:
    workspace_id = await ann.running("closing")
    async with (
        Person.sign_in(url, ann.username) as elsewhere,
        ann.socket(f"/w/{workspace_id}/socket") as kept,
        elsewhere.socket(f"/w/{workspace_id}/socket") as cut,
    ):
        await elsewhere.api("POST", "/auth/logout")
        with pytest.raises(websockets.ConnectionClosed):
            async with asyncio.timeout(30):
                await cut.recv()
        await kept.send("still signed in")
        assert await kept.recv() == "still signed in"
