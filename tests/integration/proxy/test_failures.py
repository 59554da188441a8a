"""When the other side dies, stalls or cannot be reached: a broken transfer, never a short success."""

import asyncio
from pathlib import Path

import pytest

from codehub.proxy.settings import UnixAddress
from tests.integration.proxy.conftest import MakeEnvironment
from tests.integration.proxy.raw import RawUpstream, Received, ok, replies
from tests.support.waiting import until


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
    make_environment: MakeEnvironment, start: bytes, reset: bool
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

    environment = await make_environment(die)
    for version in (b"1.1", b"1.0"):
        client = await environment.client()
        await client.send(environment.request(version=version))
        await client.reader.readuntil(b"half")
        go.set()
        with pytest.raises(ConnectionResetError):
            await client.rest()
    assert environment.server.metrics.upstream_broken_total == 2


async def test_a_reset_where_the_body_ends_with_the_connection_is_no_end(
    make_environment: MakeEnvironment,
) -> None:
    async def die(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SOL_SOCKET, SO_LINGER: close with RST
        await asyncio.sleep(0)
        writer.transport.abort()

    environment = await make_environment(die)
    client = await environment.client()
    await client.send(environment.request())
    with pytest.raises(ConnectionResetError):
        await client.rest()


async def test_a_client_that_leaves_in_mid_upload_leaves_no_whole_request(
    make_environment: MakeEnvironment,
) -> None:
    ended: list[bytes] = []

    async def read(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            ended.append(await reader.read())
        except ConnectionResetError:
            ended.append(b"reset")

    environment = await make_environment(read)
    client = await environment.client()
    await client.send(
        environment.request(b"/", b"Transfer-Encoding: chunked", method=b"POST") + b"4\r\nhalf\r\n"
    )
    await until(lambda: len(environment.upstream.requests) == 1)
    client.close()
    await until(lambda: len(ended) == 1)
    assert not ended[0].endswith(b"0\r\n\r\n")


async def test_a_client_that_leaves_in_mid_download_frees_the_upstream(
    make_environment: MakeEnvironment,
) -> None:
    async def forever(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    environment = await make_environment(forever)
    client = await environment.client()
    await client.send(environment.request())
    await client.reader.readexactly(100_000)
    client.close()
    await until(lambda: environment.upstream.closed == 1)
    await until(lambda: environment.server.metrics.connections_open == 0)


async def test_a_refused_connection_is_retried_shortly(make_environment: MakeEnvironment) -> None:
    """A container that just started opens its port a moment later."""
    environment = await make_environment(connect_delays=(0.0, 0.05, 0.05, 0.1, 0.2, 0.4, 0.8))
    await environment.upstream.stop()
    client = await environment.client()
    await client.send(environment.request())
    await until(lambda: environment.server.metrics.upstream_connect_failures_total >= 2)
    await environment.upstream.start()
    assert (await client.response()).body == b"hello"
    assert environment.directory.hints == []


async def test_nobody_at_the_address_is_a_502_and_a_hint(make_environment: MakeEnvironment) -> None:
    environment = await make_environment()
    await environment.upstream.stop()
    answer = await environment.get()
    assert answer.status == 502
    assert answer.values(b"content-type") == [b"application/problem+json"]
    page = await environment.get(b"/", b"Accept: text/html")
    assert page.status == 502
    assert b"does not answer" in page.body
    assert environment.directory.hints == [environment.workspace.id] * 2


async def test_a_workspace_that_just_started_is_waited_for(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(target={"starting_up": True})
    await environment.upstream.stop()
    page = await environment.get(b"/", b"Sec-Fetch-Mode: navigate")
    assert page.status == 200
    assert b'data-page="waiting"' in page.body
    assert (await environment.get()).status == 502


async def test_a_moved_workspace_is_found_again(make_environment: MakeEnvironment) -> None:
    environment = await make_environment()
    old, environment.upstream.port = environment.upstream.port, 0
    await environment.upstream.stop()
    await environment.upstream.start()
    assert environment.upstream.port != old
    assert (await environment.get()).status == 502
    environment.directory.targets[environment.workspace.id] = environment.directory.add(
        id=environment.workspace.id, address=("127.0.0.1", environment.upstream.port)
    )
    assert (await environment.get()).status == 200, "a failed connect throws the remembered address away"


async def test_the_api_away_is_a_503(make_environment: MakeEnvironment) -> None:
    environment = await make_environment()
    await environment.api.stop()
    client = await environment.client()
    await client.send(b"GET /api/v1/workspaces HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await client.response()
    assert answer.status == 503
    assert answer.values(b"retry-after")


async def test_a_directory_that_fails_costs_a_503_and_is_not_remembered(
    make_environment: MakeEnvironment,
) -> None:
    environment = await make_environment()
    environment.directory.broken = True
    assert (await environment.get()).status == 503
    environment.directory.broken = False
    assert (await environment.get()).status == 200


async def test_a_client_that_leaves_while_it_is_being_looked_up(make_environment: MakeEnvironment) -> None:
    environment = await make_environment()
    environment.directory.gate = asyncio.Event()
    for _ in range(20):
        client = await environment.client()
        client.writer.write(environment.request())
        client.writer.transport.abort()
    await until(lambda: environment.server.metrics.connections_total == 20)
    await until(lambda: environment.server.metrics.connections_open == 0)
    environment.directory.gate.set()
    assert (await environment.get()).status == 200


async def test_a_silent_upstream_is_given_up(make_environment: MakeEnvironment) -> None:
    async def silent(_: Received, reader: asyncio.StreamReader, __: object) -> None:
        await reader.read()

    environment = await make_environment(silent, response_idle=0.2, request_idle=0.2)
    answer = await environment.get()
    assert answer.status == 504
    await until(lambda: environment.upstream.closed == 1)


async def test_a_slow_upstream_is_not(make_environment: MakeEnvironment) -> None:
    async def slow(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        for byte in ok(b"drip"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    environment = await make_environment(slow)
    assert (await environment.get()).body == b"drip"


async def test_an_upstream_that_closes_its_side_after_each_answer_is_not_asked_again(
    make_environment: MakeEnvironment,
) -> None:
    """Without announcing it, and then waits for us to close too: what it is sent meanwhile is lost."""
    finished: set[asyncio.StreamWriter] = set()

    async def answer_once(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        if writer not in finished:
            finished.add(writer)
            writer.write(ok())
            writer.write_eof()

    environment = await make_environment(answer_once)
    client = await environment.client()
    for _ in range(200):
        await client.send(environment.request())
        assert (await client.response()).body == b"hello"


async def test_a_workspace_on_a_socket_is_reached_and_a_link_in_its_place_is_not_followed(
    make_environment: MakeEnvironment, tmp_path: Path
) -> None:
    """The API's socket is there too, hidden from the workspace; the proxy must not be led to it."""
    environment = await make_environment()
    workspace = RawUpstream(replies(ok(b"workspace")))
    path = tmp_path / "s"
    await workspace.start(str(path))
    environment.directory.change(environment.workspace.id, address=UnixAddress(str(path), follow_links=False))
    assert (await environment.get()).body == b"workspace"
    await workspace.stop()
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "api0.sock")
    assert (await environment.get()).status == 502
    assert environment.api.requests == []


# A port that somebody else has taken ---------------------------------------------------------------


@pytest.mark.parametrize("changes", ["before", "while connecting"])
async def test_a_stranger_at_the_address_gets_no_request(
    make_environment: MakeEnvironment, changes: str
) -> None:
    environment = await make_environment()
    answers = iter([None, None] if changes == "before" else ["first", "second", "third", "fourth"])
    environment.directory.listening = lambda _, __: next(answers)
    answer = await environment.get()
    assert answer.status == 502
    assert environment.upstream.requests == []
    assert environment.directory.hints == [environment.workspace.id]


async def test_not_knowing_who_listens_is_nobody(make_environment: MakeEnvironment) -> None:
    environment = await make_environment()

    def fail(*_: object) -> None:
        raise OSError("no /proc here")

    environment.directory.listening = fail
    assert (await environment.get()).status == 502
    assert environment.upstream.requests == []


async def test_an_upstream_that_ends_while_its_owner_is_looked_up(make_environment: MakeEnvironment) -> None:
    """The connection is made, but nobody could hear of its end: the request must not wait for ever."""
    environment = await make_environment()
    connected: asyncio.Event = asyncio.Event()
    calls = 0

    async def listener(*_: object) -> str:
        nonlocal calls
        calls += 1
        if calls == 2:  # after connecting
            await until(lambda: environment.upstream.connections == 1)
            await environment.upstream.stop()
            await until(
                lambda: environment.server.metrics.upstream_connects_total == 1 and not environment.kept()
            )
            connected.set()
        return "the same"

    environment.directory.listener = listener  # type: ignore[assignment,method-assign]
    answer = await environment.get()
    assert connected.is_set()
    assert answer.status == 502
