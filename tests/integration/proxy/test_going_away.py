"""A proxy that ends tells both ends of every open WebSocket, and never in the middle of a message."""

import asyncio
import functools
import random
import struct
from collections.abc import Awaitable, Callable

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from codehub.proxy.upstream.going_away import REASON
from codehub.proxy.upstream.relay import Meter, Relay
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.raw import DEADLINE, SWITCHED, Received
from tests.integration.proxy.test_input import BINARY, CLOSE, PING, frame
from tests.integration.proxy.test_websockets import echo, open_socket, workspace
from tests.support.requirements import require_relay
from tests.support.waiting import until

BIG = bytes(range(256)) * 4096
HEAD_OF_BIG = b"\x82\x7f" + struct.pack(">Q", len(BIG))
PATIENT = 60.0  # seconds to drain


@pytest.fixture(params=["relay", "event loop"])
def make_environment(make_environment: MakeEnvironment, request: pytest.FixtureRequest) -> MakeEnvironment:
    use_relay = request.param == "relay"
    if use_relay:
        require_relay()
    return functools.partial(make_environment, use_relay=use_relay, linger=PATIENT)


async def carried(environment: ProxyEnvironment) -> None:
    """Wait until whoever carries the WebSocket has it."""
    engine = environment.server._engine
    assert engine is not None
    if engine.relay is not None:
        await until(lambda: environment.carried() == 1)


async def begin_to_drain(environment: ProxyEnvironment, seconds: float = PATIENT) -> "asyncio.Task[None]":
    stopping = asyncio.create_task(environment.server.stop(drain_seconds=seconds))
    await until(
        lambda: environment.server._engine is None
    )  # every connection was told to drain, in the same turn
    return stopping


async def test_both_ends_are_told(environment: ProxyEnvironment) -> None:
    seen: list[tuple[int | None, str | None]] = []

    async def note(socket: ServerConnection) -> None:
        await echo(socket)
        seen.append((socket.close_code, socket.close_reason))

    async with workspace(environment, note), open_socket(environment) as socket:
        await carried(environment)
        await socket.send("hi")
        assert await socket.recv() == "hi"
        await asyncio.wait_for(await begin_to_drain(environment), DEADLINE)
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert (socket.close_code, socket.close_reason) == (1001, REASON)
        await until(lambda: seen == [(1001, REASON)])
    assert environment.server.metrics.websockets_open == 0
    assert environment.activity.leases == set()


async def test_a_message_that_is_on_its_way_arrives_whole_before(environment: ProxyEnvironment) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def send_in_two(socket: ServerConnection) -> None:
        socket.transport.write(HEAD_OF_BIG + BIG[:5000])
        begun.set()
        await go_on.wait()
        socket.transport.write(BIG[5000:] + frame(BINARY, b"too late"))
        await socket.wait_closed()

    async with workspace(environment, send_in_two), open_socket(environment) as socket:
        await carried(environment)
        await begun.wait()
        received = asyncio.create_task(socket.recv())
        stopping = await begin_to_drain(environment)
        go_on.set()
        assert await received == BIG
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1001
        await asyncio.wait_for(stopping, DEADLINE)


async def test_a_message_that_never_ends_is_broken_off_and_not_mended(
    environment: ProxyEnvironment,
) -> None:
    begun = asyncio.Event()

    async def send_half(socket: ServerConnection) -> None:
        socket.transport.write(HEAD_OF_BIG + BIG[:5000])
        begun.set()
        await socket.wait_closed()

    async with workspace(environment, send_half), open_socket(environment) as socket:
        await carried(environment)
        await begun.wait()
        await (await begin_to_drain(environment, seconds=0.3))
        with pytest.raises(ConnectionClosedError) as end:
            await socket.recv()
        assert end.value.rcvd is None, "no close frame came"
        assert socket.close_code == 1006


async def test_messages_without_end_stay_whole(make_environment: MakeEnvironment) -> None:
    """Fragments of every size, with pings between them, and a reader that is slow at times."""
    dice = random.Random(18)
    environment = await make_environment(write_high=20_000, write_low=5_000)

    async def flood(socket: ServerConnection) -> None:
        while True:
            pieces = [dice.randbytes(dice.choice((0, 1, 125, 126, 5000, 70_000))) for _ in range(3)]
            await socket.send([*pieces, b"".join(pieces)])
            if dice.random() < 0.2:
                await socket.ping()

    async with workspace(environment, flood), open_socket(environment) as socket:
        count = 0
        stopping: asyncio.Task[None] | None = None
        async for message in socket:  # until a close frame with 1000 or 1001; others raise
            assert isinstance(message, bytes)
            assert message[: len(message) // 2] == message[len(message) // 2 :]
            count += 1
            if count == 100:
                stopping = await begin_to_drain(environment)
        assert socket.close_code == 1001
        assert stopping is not None
        await asyncio.wait_for(stopping, DEADLINE)


async def test_a_client_in_the_middle_of_a_frame_may_end_it(environment: ProxyEnvironment) -> None:
    messages: list[str | bytes] = []
    codes: list[int | None] = []

    async def note(socket: ServerConnection) -> None:
        messages.extend([message async for message in socket])
        codes.append(socket.close_code)

    message = frame(BINARY, b"\0" * 300)
    async with workspace(environment, note):
        client = await environment.client()
        await client.send(environment.upgrade() + message[:100])  # some of it before the answer
        assert (await client.response()).status == 101
        await carried(environment)
        stopping = await begin_to_drain(environment)
        await client.send(message[100:] + frame(BINARY, b"too late"))
        head = await client.reader.readexactly(4)
        assert head[2:] == struct.pack(">H", 1001)
        await client.send(frame(CLOSE, b""))
        await asyncio.wait_for(stopping, DEADLINE)
        await until(lambda: codes == [1001])
    assert [len(each) for each in messages] == [300]


async def test_whoever_has_closed_already_is_not_told_again(make_environment: MakeEnvironment) -> None:
    """The workspace's own close frame is the last one; the client has not answered it yet."""

    async def close(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + b"\x88\x02" + struct.pack(">H", 4321))
        await reader.read()
        writer.close()

    environment = await make_environment(close)
    client = await environment.client()
    await client.send(environment.upgrade())
    assert (await client.response()).status == 101
    await carried(environment)
    assert await client.reader.readexactly(4) == b"\x88\x02" + struct.pack(">H", 4321)
    stopping = await begin_to_drain(environment)
    await client.send(frame(CLOSE, struct.pack(">H", 4321)))
    assert await client.rest() == b""
    await asyncio.wait_for(stopping, DEADLINE)


@pytest.mark.parametrize("who", ["client", "workspace"])
async def test_an_end_that_answers_nothing_is_closed(make_environment: MakeEnvironment, who: str) -> None:
    told: list[bytes] = []

    async def stay(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        told.append(await reader.readexactly(6))
        if who == "client":
            writer.write(b"\x88\x00")
        told.append(await reader.read())

    environment = await make_environment(stay, linger=0.3)
    client = await environment.client()
    await client.send(environment.upgrade())
    assert (await client.response()).status == 101
    stopping = await begin_to_drain(environment)
    if who == "workspace":
        await client.send(frame(CLOSE, b""))
    assert (await client.rest())[:4] == b"\x88\x2b\x03\xe9"
    await asyncio.wait_for(stopping, DEADLINE)
    await until(lambda: len(told) == 2)
    assert told[0][:2] == b"\x88\xab", "masked, as a client sends it"
    assert len(told[1]) == 0x2B


async def test_bytes_that_are_no_frames_end_without_a_word(make_environment: MakeEnvironment) -> None:
    async def babble(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + b"\x8f\x00 no frames")
        await reader.read()

    environment = await make_environment(babble)
    client = await environment.client()
    await client.send(environment.upgrade())
    assert (await client.response()).status == 101
    await carried(environment)
    assert await client.reader.readexactly(12) == b"\x8f\x00 no frames"
    await asyncio.wait_for(await begin_to_drain(environment), DEADLINE)
    assert await client.rest() == b""


Stream = Callable[[Received, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def events(sent: bytes) -> Stream:
    async def behave(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + sent)
        await reader.read()

    return behave


@pytest.mark.parametrize(
    ("sent", "end"),
    [(b"5\r\nhello\r\n", b"0\r\n\r\n"), (b"5\r\nhel", b"")],
    ids=["between chunks", "in a chunk"],
)
async def test_event_streams_of_the_api_end_where_they_can(
    make_environment: MakeEnvironment, sent: bytes, end: bytes
) -> None:
    environment = await make_environment(api=events(sent))
    client = await environment.client()
    await client.send(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % environment.server.port)
    assert (await client.response(head_only=True)).status == 200
    assert await client.reader.readexactly(len(sent)) == sent
    await asyncio.wait_for(await begin_to_drain(environment), DEADLINE)
    assert await client.rest() == end


async def test_event_streams_of_a_workspace_are_never_made_to_look_complete(
    make_environment: MakeEnvironment,
) -> None:
    environment = await make_environment(events(b"5\r\nhello\r\n"))
    client = await environment.client()
    await client.send(environment.request())
    assert (await client.response(head_only=True)).status == 200
    assert await client.reader.readexactly(10) == b"5\r\nhello\r\n"
    await asyncio.wait_for(await begin_to_drain(environment), DEADLINE)
    assert await client.rest() == b""


@pytest.mark.parametrize("seed", range(20))
async def test_the_relay_and_the_event_loop_find_the_same_frames(seed: int) -> None:
    require_relay()
    relay = Relay.open(asyncio.get_running_loop())
    assert relay is not None
    dice = random.Random(seed)
    meter, position = Meter.begin(), Meter.begin().sent[1].position()
    kinds = (0, 1, 2, PING, CLOSE) if seed % 4 else range(16)
    data = b"".join(
        frame(
            dice.choice(kinds) ^ dice.choice((0, 0x80)),
            dice.randbytes(dice.choice((0, 1, 125, 126, 65535, 65536))),
        )
        for _ in range(40)
    )
    try:
        at = 0
        while at < len(data):
            piece = data[at : at + dice.choice((1, 2, 3, 10, 14, 1000, 100_000))]
            at += len(piece)
            relay.follow(meter, piece)
            position.follow(piece)
            other = meter.sent[1].position()
            for name in ("left", "lost", "closed", "fragmented", "between_messages"):
                assert getattr(other, name) == getattr(position, name), name
    finally:
        relay.close()
