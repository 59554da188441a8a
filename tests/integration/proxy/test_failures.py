"""When the other side dies, stalls or cannot be reached: a broken transfer, never a short success."""

import asyncio
from pathlib import Path

import pytest

from codehub.proxy.settings import UnixAddress
from tests.integration.proxy.conftest import MakeHouse
from tests.integration.proxy.raw import RawUpstream, Received, ok, replies, until


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
    ],
    ids=["length", "chunked", "chunked without its end"],
)
async def test_an_upstream_that_dies_in_mid_body_breaks_the_transfer(
    make_house: MakeHouse, start: bytes, reset: bool
) -> None:
    go = asyncio.Event()

    async def die(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        await writer.drain()
        await go.wait()
        if reset:
            writer.transport.abort()
        else:
            writer.close()

    house = await make_house(die)
    for version in (b"1.1", b"1.0"):
        client = await house.client()
        await client.send(house.request(version=version))
        await client.reader.readuntil(b"half")
        go.set()
        with pytest.raises(ConnectionResetError):
            await client.rest()
    assert house.server.metrics.upstream_broken_total == 2


async def test_a_reset_where_the_body_ends_with_the_connection_is_no_end(make_house: MakeHouse) -> None:
    async def die(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SOL_SOCKET, SO_LINGER: close with RST
        await asyncio.sleep(0)
        writer.transport.abort()

    house = await make_house(die)
    client = await house.client()
    await client.send(house.request())
    with pytest.raises(ConnectionResetError):
        await client.rest()


async def test_a_client_that_leaves_in_mid_upload_leaves_no_whole_request(make_house: MakeHouse) -> None:
    ended: list[bytes] = []

    async def read(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            ended.append(await reader.read())
        except ConnectionResetError:
            ended.append(b"reset")

    house = await make_house(read)
    client = await house.client()
    await client.send(house.request(b"/", b"Transfer-Encoding: chunked", method=b"POST") + b"4\r\nhalf\r\n")
    await until(lambda: len(house.upstream.requests) == 1)
    client.close()
    await until(lambda: len(ended) == 1)
    assert not ended[0].endswith(b"0\r\n\r\n")


async def test_a_client_that_leaves_in_mid_download_frees_the_upstream(make_house: MakeHouse) -> None:
    async def forever(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    house = await make_house(forever)
    client = await house.client()
    await client.send(house.request())
    await client.reader.readexactly(100_000)
    client.close()
    await until(lambda: house.upstream.closed == 1)
    await until(lambda: house.server.metrics.connections_open == 0)


async def test_a_refused_connection_is_retried_shortly(make_house: MakeHouse) -> None:
    """A container that just started opens its port a moment later."""
    house = await make_house(connect_delays=(0.0, 0.05, 0.05, 0.1, 0.2, 0.4, 0.8))
    await house.upstream.stop()
    client = await house.client()
    await client.send(house.request())
    await until(lambda: house.server.metrics.upstream_connect_failures_total >= 2)
    await house.upstream.start()
    assert (await client.response()).body == b"hello"
    assert house.directory.hints == []


async def test_nobody_at_the_address_is_a_502_and_a_hint(make_house: MakeHouse) -> None:
    house = await make_house()
    await house.upstream.stop()
    answer = await house.get()
    assert answer.status == 502
    assert answer.values(b"content-type") == [b"application/problem+json"]
    page = await house.get(b"/", b"Accept: text/html")
    assert page.status == 502
    assert b"does not answer" in page.body
    assert house.directory.hints == [house.workspace.id] * 2


async def test_a_workspace_that_just_started_is_waited_for(make_house: MakeHouse) -> None:
    house = await make_house(target={"starting_up": True})
    await house.upstream.stop()
    page = await house.get(b"/", b"Sec-Fetch-Mode: navigate")
    assert page.status == 200
    assert b'data-page="waiting"' in page.body
    assert (await house.get()).status == 502


async def test_a_moved_workspace_is_found_again(make_house: MakeHouse) -> None:
    house = await make_house()
    old, house.upstream.port = house.upstream.port, 0
    await house.upstream.stop()
    await house.upstream.start()
    assert house.upstream.port != old
    assert (await house.get()).status == 502
    house.directory.targets[house.workspace.id] = house.directory.add(
        id=house.workspace.id, address=("127.0.0.1", house.upstream.port)
    )
    assert (await house.get()).status == 200, "a failed connect throws the remembered address away"


async def test_the_api_away_is_a_503(make_house: MakeHouse) -> None:
    house = await make_house()
    await house.api.stop()
    client = await house.client()
    await client.send(b"GET /api/v1/workspaces HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await client.response()
    assert answer.status == 503
    assert answer.values(b"retry-after")


async def test_a_directory_that_fails_costs_a_503_and_is_not_remembered(make_house: MakeHouse) -> None:
    house = await make_house()
    house.directory.broken = True
    assert (await house.get()).status == 503
    house.directory.broken = False
    assert (await house.get()).status == 200


async def test_a_client_that_leaves_while_it_is_being_looked_up(make_house: MakeHouse) -> None:
    house = await make_house()
    house.directory.gate = asyncio.Event()
    for _ in range(20):
        client = await house.client()
        client.writer.write(house.request())
        client.writer.transport.abort()
    await until(lambda: house.server.metrics.connections_total == 20)
    await until(lambda: house.server.metrics.connections_open == 0)
    house.directory.gate.set()
    assert (await house.get()).status == 200


async def test_a_silent_upstream_is_given_up(make_house: MakeHouse) -> None:
    async def silent(_: Received, reader: asyncio.StreamReader, __: object) -> None:
        await reader.read()

    house = await make_house(silent, response_idle=0.2, request_idle=0.2)
    answer = await house.get()
    assert answer.status == 504
    await until(lambda: house.upstream.closed == 1)


async def test_a_slow_upstream_is_not(make_house: MakeHouse) -> None:
    async def slow(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        for byte in ok(b"drip"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    house = await make_house(slow)
    assert (await house.get()).body == b"drip"


async def test_an_upstream_that_closes_its_side_after_each_answer_is_not_asked_again(
    make_house: MakeHouse,
) -> None:
    """Without announcing it, and then waits for us to close too: what it is sent meanwhile is lost."""
    finished: set[asyncio.StreamWriter] = set()

    async def answer_once(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        if writer not in finished:
            finished.add(writer)
            writer.write(ok())
            writer.write_eof()

    house = await make_house(answer_once)
    client = await house.client()
    for _ in range(200):
        await client.send(house.request())
        assert (await client.response()).body == b"hello"


async def test_a_workspace_on_a_socket_is_reached_and_a_link_in_its_place_is_not_followed(
    make_house: MakeHouse, tmp_path: Path
) -> None:
    """The API's socket is there too, hidden from the workspace; the proxy must not be led to it."""
    house = await make_house()
    workspace = RawUpstream(replies(ok(b"workspace")))
    path = tmp_path / "s"
    await workspace.start(str(path))
    house.directory.change(house.workspace.id, address=UnixAddress(str(path), follow_links=False))
    assert (await house.get()).body == b"workspace"
    await workspace.stop()
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "api0.sock")
    assert (await house.get()).status == 502
    assert house.api.requests == []


# A port that somebody else has taken ---------------------------------------------------------------


@pytest.mark.parametrize("changes", ["before", "while connecting"])
async def test_a_stranger_at_the_address_gets_no_request(make_house: MakeHouse, changes: str) -> None:
    house = await make_house()
    answers = iter([None, None] if changes == "before" else ["first", "second", "third", "fourth"])
    house.directory.listening = lambda _, __: next(answers)
    answer = await house.get()
    assert answer.status == 502
    assert house.upstream.requests == []
    assert house.directory.hints == [house.workspace.id]


async def test_not_knowing_who_listens_is_nobody(make_house: MakeHouse) -> None:
    house = await make_house()

    def fail(*_: object) -> None:
        raise OSError("no /proc here")

    house.directory.listening = fail
    assert (await house.get()).status == 502
    assert house.upstream.requests == []


async def test_an_upstream_that_ends_while_its_owner_is_looked_up(make_house: MakeHouse) -> None:
    """The connection is made, but nobody could hear of its end: the request must not wait for ever."""
    house = await make_house()
    connected: asyncio.Event = asyncio.Event()
    calls = 0

    async def listener(*_: object) -> str:
        nonlocal calls
        calls += 1
        if calls == 2:  # after connecting
            await until(lambda: house.upstream.connections == 1)
            await house.upstream.stop()
            await until(lambda: house.server.metrics.upstream_connects_total == 1 and not house.kept())
            connected.set()
        return "the same"

    house.directory.listener = listener  # type: ignore[assignment,method-assign]
    answer = await house.get()
    assert connected.is_set()
    assert answer.status == 502
