"""Shared ports through a real proxy: visitors get in at the port's origin, wake nothing, and are cut off at once."""

import asyncio
import time
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from codehub.domain.port_shares import ShareLevel
from codehub.domain.waking import Phase
from codehub.proxy.interfaces import SharedPort
from codehub.proxy.settings import UnixAddress
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import SESSION, STRANGER_SESSION
from tests.integration.proxy.raw import RawClient, Received, Response, ok
from tests.support.waiting import until

HUB = "http://hub.localhost:8000"
NAVIGATE = (b"Sec-Fetch-Site: none", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: document")
KEY = "k3y"


async def serve(received: Received, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers; a WebSocket is taken, and ``/endless`` never ends."""
    if received.values(b"upgrade"):
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")
        writer.write(b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(60)
    elif b"/endless" in received.line:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwait\r\n")
        await writer.drain()
        await asyncio.sleep(60)
    else:
        writer.write(ok())
        await writer.drain()


@pytest.fixture
async def environment(make_environment: MakeEnvironment) -> ProxyEnvironment:
    made = await make_environment(
        serve, target={"address": UnixAddress("/nowhere")}, public_url=HUB, base_domain="localhost"
    )
    made.directory.ports.add((made.workspace.id, made.upstream.port))
    return made


def share(environment: ProxyEnvironment, level: ShareLevel, *, lasts: float = 60.0) -> None:
    shared = SharedPort(level, time.time() + lasts, KEY if level is ShareLevel.PUBLIC else None)
    environment.directory.change(environment.workspace.id, shares={environment.upstream.port: shared})


def host_of(environment: ProxyEnvironment) -> bytes:
    return f"{environment.upstream.port}--{environment.workspace.id}.localhost:8000".encode()


async def send(
    environment: ProxyEnvironment, path: str, *lines: bytes, cookie: str = "", host: bytes | None = None
) -> RawClient:
    client = await environment.client()
    fields = [b"Host: " + (host or host_of(environment)), *lines]
    fields += [b"Cookie: " + cookie.encode()] if cookie else []
    await client.send(b"GET %b HTTP/1.1\r\n%b\r\n\r\n" % (path.encode(), b"\r\n".join(fields)))
    return client


async def ask(environment: ProxyEnvironment, path: str, *lines: bytes, **more: str) -> Response:
    return await (await send(environment, path, *lines, **more)).response()  # type: ignore[arg-type]


async def by_link(environment: ProxyEnvironment) -> str:
    """Open the public link as a browser does; gives the cookie."""
    answer = await ask(environment, f"/_codehub/share?key={KEY}", *NAVIGATE)
    assert answer.status == 303, answer
    assert answer.values(b"location") == [b"/"]
    (cookie,) = answer.values(b"set-cookie")
    assert b"HttpOnly" in cookie
    assert b"Domain" not in cookie
    return cookie.partition(b";")[0].decode()


async def by_sign_in(environment: ProxyEnvironment, session: str) -> str | None:
    """Walk from the port's origin over the dashboard's sign-in and back; gives the cookie, if there is one."""
    first = await ask(environment, "/", *NAVIGATE)
    assert first.status == 303
    url = urlsplit(first.values(b"location")[0].decode())
    hub = await send(
        environment,
        f"{url.path}?{url.query}",
        *NAVIGATE,
        cookie=f"codehub_session={session}",
        host=url.netloc.encode(),
    )
    second = await hub.response()
    if second.status != 303:
        return None
    back = urlsplit(second.values(b"location")[0].decode())
    assert back.netloc.encode() == host_of(environment)
    third = await ask(environment, f"{back.path}?{back.query}", *NAVIGATE)
    return third.values(b"set-cookie")[0].partition(b";")[0].decode()


async def visit(environment: ProxyEnvironment, level: ShareLevel) -> str:
    """Share the port and come in; gives the cookie of the visitor."""
    share(environment, level)
    if level is ShareLevel.PUBLIC:
        return await by_link(environment)
    cookie = await by_sign_in(environment, STRANGER_SESSION)
    assert cookie is not None
    return cookie


BOTH = pytest.mark.parametrize("level", [ShareLevel.SIGNED_IN, ShareLevel.PUBLIC])


@BOTH
async def test_a_visitor_gets_in_and_the_workspace_sees_none_of_codehubs_cookies(
    environment: ProxyEnvironment, level: ShareLevel
) -> None:
    cookie = await visit(environment, level)
    both = f"{cookie}; codehub_session={SESSION}; own=1"
    for _ in range(2):  # the second is answered from the caches
        assert (await ask(environment, "/page", cookie=both)).body == b"hello"
    assert [each.values(b"cookie") for each in environment.upstream.requests] == [[b"own=1"]] * 2
    assert environment.activity.taken == []
    assert environment.activity.touches == {}


async def test_strangers_get_nothing(environment: ProxyEnvironment) -> None:
    assert await by_sign_in(environment, STRANGER_SESSION) is None
    share(environment, ShareLevel.PUBLIC)
    assert (
        await by_sign_in(environment, STRANGER_SESSION) is None
    )  # being signed in does not replace the link
    assert (await ask(environment, "/")).status == 401
    for key in ("", "wrong", "%ff", KEY + "x"):
        wrong = await ask(environment, f"/_codehub/share?key={key}", *NAVIGATE)
        assert (wrong.status, wrong.values(b"set-cookie")) == (404, [])
    assert environment.upstream.requests == []


async def test_a_wrong_link_is_answered_like_one_to_no_workspace(environment: ProxyEnvironment) -> None:
    share(environment, ShareLevel.PUBLIC)
    wrong = await ask(environment, "/_codehub/share?key=x", *NAVIGATE)
    host = b"3000--00000000-0000-4000-8000-000000000000.localhost:8000"
    nowhere = await (await send(environment, "/_codehub/share?key=x", *NAVIGATE, host=host)).response()
    assert (wrong.status, wrong.body) == (nowhere.status, nowhere.body)


@BOTH
async def test_a_visitor_never_wakes_and_reads_a_calm_page(
    environment: ProxyEnvironment, level: ShareLevel
) -> None:
    cookie = await visit(environment, level)
    environment.directory.change(environment.workspace.id, phase=Phase.ASLEEP, status="standby")
    page = await ask(environment, "/", *NAVIGATE, cookie=cookie)
    assert page.status == 503
    assert b"Asleep at the moment" in page.body
    assert environment.workspace.name.encode() not in page.body
    assert (await ask(environment, "/data", cookie=cookie)).status == 503
    assert environment.directory.wakes == []


async def test_the_owner_who_came_by_the_link_still_wakes_after_signing_in(
    environment: ProxyEnvironment,
) -> None:
    link = await visit(environment, ShareLevel.PUBLIC)
    mine = await by_sign_in(environment, SESSION)
    environment.directory.change(environment.workspace.id, phase=Phase.ASLEEP, status="standby")
    page = await ask(environment, "/", *NAVIGATE, cookie=f"{link}; {mine}")
    assert page.status == 200
    assert len(environment.directory.wakes) == 1


@BOTH
async def test_a_visitor_uses_nothing_else_of_the_workspace(
    environment: ProxyEnvironment, level: ShareLevel
) -> None:
    cookie = await visit(environment, level)
    refused = (401, 404)
    for path in ("/_codehub/state", "/_codehub/events", "/_codehub/logs", "/_codehub/ready"):
        assert (await ask(environment, path, cookie=cookie)).status in refused, path
    ide = f"{environment.workspace.id}.localhost:8000".encode()
    other_port = f"9--{environment.workspace.id}.localhost:8000".encode()
    for host in (ide, other_port, b"hub.localhost:8000"):
        path = f"/w/{environment.workspace.id}/" if host.startswith(b"hub") else "/"
        assert (await (await send(environment, path, cookie=cookie, host=host)).response()).status in refused
    assert environment.api.requests == []


def upgrade(environment: ProxyEnvironment) -> tuple[bytes, ...]:
    return (
        b"Origin: http://" + host_of(environment),
        b"Connection: Upgrade",
        b"Upgrade: websocket",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )


async def open_both(environment: ProxyEnvironment, cookie: str) -> list[RawClient]:
    """A WebSocket and a download, both under way."""
    socket = await send(environment, "/hot", *upgrade(environment), cookie=cookie)
    assert (await socket.response(head_only=True)).status == 101
    download = await send(environment, "/endless", cookie=cookie)
    assert (await download.response(head_only=True)).status == 200
    return [socket, download]


async def ends_within(clients: list[RawClient], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            for client in clients:
                try:
                    await client.rest()
                except ConnectionResetError:  # so that half a download does not look like a whole one
                    continue
    except TimeoutError:
        return False
    return True


@BOTH
async def test_taking_a_share_back_cuts_what_is_open(
    environment: ProxyEnvironment, level: ShareLevel
) -> None:
    cookie = await visit(environment, level)
    clients = await open_both(environment, cookie)
    assert environment.activity.leases == set()
    mine = await by_sign_in(environment, SESSION)
    assert mine is not None
    (kept, _) = await open_both(environment, mine)
    environment.directory.change(environment.workspace.id, shares={})
    assert await ends_within(clients, 1.0)
    assert (await ask(environment, "/", cookie=cookie)).status in (401, 404)
    assert not await ends_within([kept], 0.2)  # the owner's goes on


async def test_a_new_link_ends_the_earlier_one(environment: ProxyEnvironment) -> None:
    cookie = await visit(environment, ShareLevel.PUBLIC)
    clients = await open_both(environment, cookie)
    port = environment.upstream.port
    renewed = replace(environment.directory.targets[environment.workspace.id].shares[port], key="n3w")
    environment.directory.change(environment.workspace.id, shares={port: renewed})
    assert await ends_within(clients, 1.0)
    assert (await ask(environment, "/", cookie=cookie)).status == 401


@pytest.mark.parametrize("directory_away", [False, True])
async def test_expiry_cuts_what_is_open(environment: ProxyEnvironment, directory_away: bool) -> None:
    share(environment, ShareLevel.PUBLIC, lasts=1.0)
    ends_at = time.time() + 1.0
    clients = await open_both(environment, await by_link(environment))
    environment.directory.broken = directory_away  # what has expired is over, whatever the database says
    if directory_away:
        for listener in environment.directory.listeners:
            listener.everything_changed()
    assert await ends_within(clients, ends_at + 1.0 - time.time() + 0.5)
    assert time.time() >= ends_at


async def test_disabling_the_visitor_or_the_owner_cuts_what_is_open(environment: ProxyEnvironment) -> None:
    directory = environment.directory
    cookie = await visit(environment, ShareLevel.SIGNED_IN)
    clients = await open_both(environment, cookie)
    directory.workspace_cookies.clear()
    for listener in directory.listeners:
        listener.user_changed(directory.stranger.user_id)
    assert await ends_within(clients, 1.0)

    clients = await open_both(environment, await visit(environment, ShareLevel.SIGNED_IN))
    # The directory lists no shares of owners who are disabled; of the workspace itself no change is told.
    directory.targets[environment.workspace.id] = replace(
        directory.targets[environment.workspace.id], shares={}
    )
    for listener in directory.listeners:
        listener.user_changed(directory.owner.user_id)
    assert await ends_within(clients, 1.0)


async def test_a_share_taken_back_while_connecting_lets_nobody_in(environment: ProxyEnvironment) -> None:
    cookie = await visit(environment, ShareLevel.PUBLIC)
    asked = asyncio.Event()
    looked = environment.directory.listening

    def listening(*given: object) -> object:
        if not asked.is_set():
            asked.set()
            environment.directory.change(environment.workspace.id, shares={})
        return looked(*given)  # type: ignore[arg-type]

    environment.directory.listening = listening
    assert (await ask(environment, "/", cookie=cookie)).status == 401
    await until(asked.is_set)
    assert environment.upstream.requests == []


async def test_a_closed_port_of_a_visitor_drops_no_cached_answers(environment: ProxyEnvironment) -> None:
    cookie = await visit(environment, ShareLevel.PUBLIC)
    await environment.upstream.stop()
    loads = environment.directory.calls["workspace"]
    pages = [await ask(environment, "/", *NAVIGATE, cookie=cookie) for _ in range(3)]
    assert {page.status for page in pages} == {502}
    assert environment.workspace.name.encode() not in pages[0].body
    assert environment.directory.calls["workspace"] - loads <= 1
