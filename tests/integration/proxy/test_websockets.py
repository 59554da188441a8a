"""WebSockets: judged like any request, then bytes both ways."""

import asyncio
import functools
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import websockets
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Origin

from codehub.domain.waking import Phase
from codehub.proxy.client_connection import ClientConnection
from codehub.proxy.interfaces import Use
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import SESSION, STRANGER_SESSION, TOKEN
from tests.integration.proxy.raw import DEADLINE, SWITCHED, Received
from tests.support.requirements import require_relay
from tests.support.waiting import until

Handler = Callable[[ServerConnection], Awaitable[None]]


@pytest.fixture(params=["relay", "event loop"])
def make_environment(make_environment: MakeEnvironment, request: pytest.FixtureRequest) -> MakeEnvironment:
    """Whoever carries the bytes, all of this holds."""
    use_relay = request.param == "relay"
    if use_relay:
        require_relay()
    return functools.partial(make_environment, use_relay=use_relay)


async def echo(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)


@asynccontextmanager
async def workspace(environment: ProxyEnvironment, handler: Handler = echo) -> AsyncIterator[None]:
    async with serve(handler, "127.0.0.1", 0, max_size=None, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        environment.directory.change(environment.workspace.id, address=("127.0.0.1", port))
        yield


def open_socket(
    environment: ProxyEnvironment, *, origin: str | None = "own", headers: dict[str, str] | None = None
) -> connect:
    url = f"ws://127.0.0.1:{environment.server.port}/w/{environment.workspace.id}/socket"
    if origin == "own":
        origin = f"http://127.0.0.1:{environment.server.port}"
    sent = {"Cookie": f"codehub_session={SESSION}"} if headers is None else headers
    return connect(
        url,
        origin=Origin(origin) if origin else None,
        additional_headers=sent,
        max_size=None,
        compression=None,
        ping_interval=None,
    )


async def test_a_hundred_thousand_messages_pass_in_order(make_environment: MakeEnvironment) -> None:
    """Pipelined, so that they meet in every buffer on the way; both ends by hand, to be quick about it."""
    texts = [b"%d" % n for n in range(100_000)]
    frames = b"".join(b"\x81%c\0\0\0\0%b" % (0x80 | len(text), text) for text in texts)  # masked with zeros
    environment = await make_environment(_echo_short_frames)
    client = await environment.client()
    await client.send(environment.upgrade())
    assert (await client.response()).status == 101
    sender = asyncio.create_task(client.send(frames))
    for at in range(0, len(texts), 1000):
        echoes = b"".join(b"\x81%c%b" % (len(text), text) for text in texts[at : at + 1000])
        async with asyncio.timeout(DEADLINE):
            assert await client.reader.readexactly(len(echoes)) == echoes
    await sender


async def _echo_short_frames(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SWITCHED)
    while True:
        head = await reader.readexactly(6)
        kind, length = head[0], head[1] & 0x7F
        writer.write(b"%c%c%b" % (kind, length, await reader.readexactly(length)))
        await writer.drain()


async def test_large_fragmented_and_control_frames(environment: ProxyEnvironment) -> None:
    async with workspace(environment), open_socket(environment) as socket:
        big = bytes(range(256)) * 4096
        await socket.send(big)
        assert await socket.recv() == big
        await socket.send([b"frag", b"men", b"ted"])
        assert await socket.recv() == b"fragmented"
        await (await socket.ping())
        await socket.send("after the ping")
        assert await socket.recv() == "after the ping"


@pytest.mark.parametrize(("code", "reason"), [(1000, ""), (1001, "going"), (4321, "of its own")])
async def test_close_codes_pass_in_both_directions(
    environment: ProxyEnvironment, code: int, reason: str
) -> None:
    seen: list[int | None] = []

    async def close_or_note(socket: ServerConnection) -> None:
        if await socket.recv() == "close":
            await socket.close(code, reason)
        else:
            await socket.wait_closed()
            seen.append(socket.close_code)

    async with workspace(environment, close_or_note):
        async with open_socket(environment) as socket:
            await socket.send("close")
            with pytest.raises(websockets.ConnectionClosed):
                await socket.recv()
            assert (socket.close_code, socket.close_reason) == (code, reason)
        async with open_socket(environment) as socket:
            await socket.send("stay")
            await socket.close(code, reason)
        await until(lambda: seen == [code])
    await until(lambda: environment.server.metrics.websockets_open == 0)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1:{port}.evil.example",
        "http://sub.127.0.0.1:{port}",
        "null",
        None,
    ],
)
async def test_a_foreign_page_is_refused_before_the_workspace_hears_of_it(
    environment: ProxyEnvironment, origin: str | None
) -> None:
    named = origin.replace("{port}", str(environment.server.port)) if origin else None
    with pytest.raises(websockets.InvalidStatus) as refusal:
        async with open_socket(environment, origin=named):
            pass
    assert refusal.value.response.status_code == 403
    assert environment.upstream.connections == 0


async def test_a_program_with_a_token_needs_no_origin(environment: ProxyEnvironment) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with workspace(environment), open_socket(environment, origin=None, headers=headers) as socket:
        await socket.send("hi")
        assert await socket.recv() == "hi"


@pytest.mark.parametrize(
    ("headers", "phase", "status"),
    [
        ({}, Phase.RUNNING, 401),
        ({"Cookie": "codehub_session=nobody"}, Phase.RUNNING, 401),
        ({"Cookie": f"codehub_session={STRANGER_SESSION}"}, Phase.RUNNING, 404),
        (None, Phase.ASLEEP, 503),
        (None, Phase.ERROR, 502),
    ],
)
async def test_refusals(
    environment: ProxyEnvironment, headers: dict[str, str] | None, phase: Phase, status: int
) -> None:
    environment.directory.change(environment.workspace.id, phase=phase)
    with pytest.raises(websockets.InvalidStatus) as refusal:
        async with open_socket(environment, headers=headers):
            pass
    assert refusal.value.response.status_code == status
    assert environment.directory.wakes == []
    assert environment.upstream.connections == 0


async def test_the_workspace_sees_no_secret(environment: ProxyEnvironment) -> None:
    heads: list[str] = []

    async def note(socket: ServerConnection) -> None:
        assert socket.request is not None
        heads.append(str(socket.request.headers))

    async with workspace(environment, note), open_socket(environment) as socket:
        await socket.wait_closed()
    assert SESSION not in heads[0]
    assert "codehub" not in heads[0]


async def test_whoever_is_signed_out_loses_the_open_socket(environment: ProxyEnvironment) -> None:
    async with workspace(environment), open_socket(environment) as mine, open_socket(environment) as other:
        for listener in environment.directory.listeners:
            listener.user_changed(environment.directory.owner.user_id)
        await other.send("still here")
        assert await other.recv() == "still here"
        environment.directory.credentials.clear()
        for listener in environment.directory.listeners:
            listener.user_changed(environment.directory.owner.user_id)
        await asyncio.wait_for(mine.wait_closed(), 10)
        await asyncio.wait_for(other.wait_closed(), 10)


async def test_an_open_socket_holds_a_lease_and_returns_it(environment: ProxyEnvironment) -> None:
    async with workspace(environment):
        async with open_socket(environment), open_socket(environment):
            await until(lambda: len(environment.activity.leases) == 2)
        await until(lambda: not environment.activity.leases)
    assert set(environment.activity.uses) == {Use.WEBSOCKET}, "its handshake is no request besides"
    assert len(environment.activity.taken) == 2


async def test_a_refused_handshake_returns_its_lease(make_environment: MakeEnvironment) -> None:
    environment = await make_environment()  # answers 200 instead of 101
    client = await environment.client()
    await client.send(environment.upgrade())
    assert (await client.response()).status == 200
    await until(lambda: not environment.activity.leases)
    await client.send(environment.request())
    assert (await client.response()).status == 200
    await until(lambda: Use.HTTP in environment.activity.uses)


async def test_a_reader_that_stops_stops_the_writer(environment: ProxyEnvironment) -> None:
    """Back-pressure reaches through: a tunnel holds little, however much one side would send."""
    sent = 0

    async def flood(socket: ServerConnection) -> None:
        nonlocal sent
        for _ in range(2000):
            await socket.send(b"x" * 65536)
            sent += 65536

    async with workspace(environment, flood):
        client = await environment.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(environment.upgrade())
        last = -1
        while sent != last or sent == 0:
            last = sent
            await asyncio.sleep(0.2)
        assert sent < 60 * 2**20, "most of it is still to be sent"
        client.writer.transport.abort()
        await until(lambda: environment.server.metrics.websockets_open == 0)


async def test_a_socket_may_rest_for_hours(environment: ProxyEnvironment) -> None:
    async with workspace(environment), open_socket(environment) as socket:
        engine = environment.server._engine
        assert engine is not None
        for _ in range(100):
            engine.sweep(1000.0)
        await socket.send("still here")
        assert await socket.recv() == "still here"


async def test_a_client_may_be_slow_for_a_while_and_not_for_ever(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(use_relay=False)  # which gives such a one back
    async with workspace(environment), open_socket(environment) as socket:
        engine = environment.server._engine
        assert engine is not None
        (connection,) = [each for each in engine.connections if each.workspace_id is not None]
        assert isinstance(connection, ClientConnection)
        connection.pause_writing()  # the client takes no more for a moment
        engine.sweep(1.0)
        connection.resume_writing()
        await socket.send("still here")
        assert await socket.recv() == "still here"
        connection.pause_writing()
        engine.sweep(1.0)
        engine.sweep(1000.0)
        await asyncio.wait_for(socket.wait_closed(), 10)
    assert engine.metrics.websockets_open == 0


def _resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


async def test_two_thousand_idle_sockets_cost_little(make_environment: MakeEnvironment) -> None:
    count = 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 6 * count + 512  # client, proxy with a relay, upstream
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))
        count = min(count, (min(needed, hard) - 512) // 6)
    environment = await make_environment()
    environment.upstream.behave = _accept_and_wait

    async def open_many(number: int) -> None:
        for _ in range(number):
            client = await environment.client()
            await client.send(environment.upgrade())
            assert (await client.response()).status == 101

    await open_many(200)
    before = _resident_kib()
    await open_many(count - 200)
    assert environment.server.metrics.websockets_open == count
    # Client and upstream of the test live in this process too, with a buffered reader each.
    assert (_resident_kib() - before) / (count - 200) < 64
    for client in environment.clients:
        client.close()
    await until(lambda: environment.server.metrics.websockets_open == 0)
    await until(lambda: environment.upstream.closed >= count)


async def _accept_and_wait(_: object, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SWITCHED)
    await reader.read()
    writer.close()
