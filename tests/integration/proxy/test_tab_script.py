"""The tab's script on its way: through the real proxy into the IDE's documents, and into nothing else."""

import asyncio
import time

import pytest

from codehub.domain.waking import Phase
from codehub.proxy.identity import verify_principal
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import SESSION, STRANGER_SESSION
from tests.integration.proxy.raw import Received, Response, ok, replies

NAVIGATION = (b"Sec-Fetch-Site: same-origin", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: document")
TYPE = b"Content-Type: text/html; charset=utf-8"
PAGE = b"<!doctype html><html><head><title>IDE</title></head><body>" + b"x" * 200_000
SCRIPT = b'<head><script src="/_codehub/tab.js?v='


def has_script(answer: Response) -> bool:
    return SCRIPT in answer.body


async def open_page(environment: ProxyEnvironment, *lines: bytes, path: bytes = b"/") -> Response:
    return await environment.get(path, *NAVIGATION, *lines)


async def test_a_document_gets_it_and_stays_whole(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(replies(ok(PAGE, TYPE)))
    answer = await open_page(environment, b"Accept-Encoding: gzip, br")
    assert has_script(answer)
    tag = answer.body[len(b"<!doctype html><html><head>") :].partition(b"<title>")[0]
    assert answer.body.replace(tag, b"") == PAGE
    assert environment.upstream.requests[0].values(b"accept-encoding") == [b"identity"]
    script = tag.partition(b'src="')[2].partition(b'"')[0]
    client = await environment.client()
    await client.send(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % script)
    loaded = await client.response()
    assert loaded.status == 200
    assert loaded.values(b"content-type") == [b"text/javascript; charset=utf-8"]
    assert b"attachShadow" in loaded.body


async def test_every_navigation_on_one_connection_gets_it(make_environment: MakeEnvironment) -> None:
    """Repetitions take the short way elsewhere; a navigation must not, or it would lose the script."""
    environment = await make_environment(replies(ok(PAGE, TYPE)))
    client = await environment.client()
    for _ in range(3):
        await client.send(environment.request(b"/", *NAVIGATION))
        assert has_script(await client.response())
        await client.send(environment.request(b"/", b"Sec-Fetch-Mode: cors", b"Sec-Fetch-Dest: empty"))
        assert (await client.response()).body == PAGE


@pytest.mark.parametrize(
    "lines",
    [
        (b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: iframe"),
        (b"Sec-Fetch-Mode: cors", b"Sec-Fetch-Dest: empty"),
        (b"Accept: text/html",),
        (*NAVIGATION, b"Range: bytes=0-"),
        (*NAVIGATION, b"Sec-Purpose: prefetch"),
    ],
)
async def test_nobody_else_gets_it(make_environment: MakeEnvironment, lines: tuple[bytes, ...]) -> None:
    environment = await make_environment(replies(ok(PAGE, TYPE)))
    answer = await environment.get(b"/", *lines, b"Accept-Encoding: gzip")
    assert answer.body == PAGE
    assert environment.upstream.requests[0].values(b"accept-encoding") == [b"gzip"]


async def test_shared_ports_and_the_api_never_get_it(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(replies(ok(PAGE, TYPE)), api=replies(ok(PAGE, TYPE)))
    environment.directory.ports.add((environment.workspace.id, environment.upstream.port))
    shared = await open_page(environment, path=b"/port/%d/" % environment.upstream.port)
    assert shared.body == PAGE
    client = await environment.client()
    host = b"127.0.0.1:%d" % environment.server.port
    fields = b"\r\n".join((b"Host: " + host, *NAVIGATION))
    await client.send(b"GET /api/v1/page HTTP/1.1\r\n%b\r\n\r\n" % fields)
    assert (await client.response()).body == PAGE


async def test_it_can_be_switched_off(make_environment: MakeEnvironment) -> None:
    for options in ({"tab_script": False}, {"target": {"tab_script": False}}):
        environment = await make_environment(replies(ok(PAGE, TYPE)), **options)
        assert (await open_page(environment)).body == PAGE


@pytest.mark.parametrize("piece", [1, 7, 65536])
async def test_chunks_are_relayed_as_they_come(make_environment: MakeEnvironment, piece: int) -> None:
    go_on = asyncio.Event()

    async def behave(received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + TYPE + b"\r\n\r\n"
        writer.write(head)
        start = b"<html><head><title>"
        for at in range(0, len(start), piece):
            part = start[at : at + piece]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
        await go_on.wait()  # the beginning reaches the browser before the end exists
        writer.write(b"3\r\nend\r\n0\r\n\r\n")

    environment = await make_environment(behave)
    client = await environment.client()
    await client.send(environment.request(b"/", *NAVIGATION))
    beginning = b""
    while b"<title>" not in beginning:
        beginning += await asyncio.wait_for(client.reader.read(4096), 20)
    assert SCRIPT in beginning
    go_on.set()
    while not beginning.endswith(b"0\r\n\r\n"):
        beginning += await asyncio.wait_for(client.reader.read(4096), 20)
    assert b"end" in beginning


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 304 Not Modified\r\nContent-Type: text/html\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_answers_without_a_body_pass(make_environment: MakeEnvironment, head: bytes) -> None:
    environment = await make_environment(replies(head))
    client = await environment.client()
    for _ in range(2):  # the connection stays usable
        await client.send(environment.request(b"/", *NAVIGATION, b'If-None-Match: "1"'))
        answer = await client.response()
        assert (answer.body, answer.status) == (b"", int(head[9:12]))


async def test_an_upstream_that_dies_is_no_whole_document(make_environment: MakeEnvironment) -> None:
    async def behave(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n" + TYPE + b"\r\n\r\n<html><he")
        await writer.drain()
        writer.close()

    environment = await make_environment(behave)
    client = await environment.client()
    await client.send(environment.request(b"/", *NAVIGATION))
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await client.response()


async def test_on_its_own_host_the_state_comes_from_the_api(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(
        api=replies(ok(b"{}", b"Content-Type: application/json")),
        public_url="http://hub.localhost:8000",
        base_domain="localhost",
        target={"phase": Phase.ASLEEP, "status": "standby"},
    )
    workspace_id = environment.workspace.id
    environment.directory.workspace_cookies[workspace_id, "mine"] = environment.directory.owner

    async def ask(secret: str, *lines: bytes, method: bytes = b"GET") -> Response:
        client = await environment.client()
        cookie = f"Cookie: codehub_ws={secret}".encode()
        fields = b"\r\n".join((f"Host: {workspace_id}.localhost:8000".encode(), cookie, *lines))
        await client.send(b"%b /_codehub/state HTTP/1.1\r\n%b\r\n\r\n" % (method, fields))
        return await client.response()

    own = (b"Sec-Fetch-Site: same-origin", b"Sec-Fetch-Mode: cors", b"Sec-Fetch-Dest: empty")
    assert (await ask("mine", *own)).body == b"{}"
    asked = environment.api.requests[0]
    assert asked.line == f"GET /api/v1/workspaces/{workspace_id} HTTP/1.1".encode()
    signed = asked.values(b"x-codehub-principal")[0].decode()
    owner = verify_principal(signed, secret=b"shared", now=time.time())
    assert owner is not None
    assert owner.user_id == environment.directory.owner.user_id
    assert asked.values(b"cookie") == [], "neither cookie goes along"
    assert (await ask("wrong", *own)).status == 401
    sibling = (b"Sec-Fetch-Site: same-site", b"Sec-Fetch-Mode: cors", b"Sec-Fetch-Dest: empty")
    assert (await ask("mine", *sibling)).status == 403
    assert (await ask("mine", *own, b"Origin: http://x", method=b"POST")).status in (403, 405)
    assert environment.directory.wakes == [], "asking wakes nothing"
    assert not environment.activity.touches, "asking is no activity"
    assert len(environment.api.requests) == 1


async def test_strangers_learn_nothing_by_path(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(replies(ok(PAGE, TYPE)))
    answer = await environment.get(b"/", *NAVIGATION, session=STRANGER_SESSION)
    assert answer.status == 404
    assert not has_script(answer)
    assert SESSION.encode() not in answer.body
