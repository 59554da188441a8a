"""Slow, greedy and departing clients; draining."""

import asyncio

import pytest

from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.raw import RawClient, Received, ok
from tests.support.waiting import until


async def test_a_head_that_drips_is_given_up(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(head_timeout=0.3)
    client = await environment.client()
    await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n")

    async def drip() -> None:
        while True:
            await client.send(b"X-A: b\r\n")
            await asyncio.sleep(0.01)

    dripping = asyncio.create_task(drip())
    assert (await client.response()).status == 408
    dripping.cancel()


async def test_a_connection_that_says_nothing_is_closed(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(head_timeout=0.2, keep_alive=0.2)
    silent = await environment.client()
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await silent.reader.readexactly(1)
    kept = await environment.client()
    await kept.send(environment.request())
    assert (await kept.response()).status == 200
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await kept.reader.readexactly(1)


async def test_a_body_that_stops_is_given_up(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(request_idle=0.2)
    client = await environment.client()
    await client.send(environment.request(b"/", b"Content-Length: 10", method=b"POST") + b"half")
    assert (await client.response()).status == 408
    await until(lambda: environment.upstream.closed == 1)


async def test_an_api_body_may_not_drip_for_ever(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(api_request_timeout=0.3, head_timeout=0.4)
    client = await environment.client()
    await client.send(b"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")

    async def drip() -> None:
        while True:
            await client.send(b"x")
            await asyncio.sleep(0.01)

    dripping = asyncio.create_task(drip())
    assert (await client.response()).status == 408
    dripping.cancel()


async def test_a_client_that_stops_reading_is_given_up(make_environment: MakeEnvironment) -> None:
    async def forever(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    environment = await make_environment(forever, client_stall=0.3, head_timeout=0.4)
    client = await environment.client()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(environment.request())
    await until(lambda: environment.upstream.closed == 1)
    await until(lambda: environment.server.metrics.connections_open == 0)


async def test_too_many_connections(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(max_connections=3)
    resting = [await environment.client() for _ in range(3)]
    for client in resting:
        await client.send(environment.request())
        await client.response()
    newcomer = await environment.client()
    await newcomer.send(environment.request())
    assert (await newcomer.response()).status == 200, "one at rest made room"
    await until(lambda: environment.server.metrics.connections_open == 3)


async def test_too_many_busy_connections(make_environment: MakeEnvironment) -> None:
    go = asyncio.Event()

    async def wait(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(ok())

    environment = await make_environment(wait, max_connections=2)
    busy = [await environment.client() for _ in range(2)]
    for client in busy:
        await client.send(environment.request())
    await until(lambda: len(environment.upstream.requests) == 2)
    refused = await environment.client()
    answer = await refused.response()
    assert (answer.status, answer.values(b"retry-after")) == (503, [b"5"])
    go.set()
    for client in busy:
        assert (await client.response()).status == 200


async def test_requests_touch_rarely_and_hold_a_lease(make_environment: MakeEnvironment) -> None:
    go = asyncio.Event()

    async def wait(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(ok())

    environment = await make_environment(wait)
    pending = asyncio.create_task(environment.get())
    await until(lambda: len(environment.activity.leases) == 1)
    go.set()
    await pending
    for _ in range(30):
        await environment.get()
    assert environment.activity.touches == {environment.workspace.id: 1}
    assert len(environment.activity.taken) == 1


async def test_draining_lets_requests_finish_and_takes_no_new_ones(make_environment: MakeEnvironment) -> None:
    go = asyncio.Event()

    async def wait(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(ok(b"finished"))

    environment = await make_environment(wait)
    port = environment.server.port
    resting = await environment.client()
    await resting.send(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
    await resting.response()
    busy = await environment.client()
    await busy.send(environment.request())
    await until(lambda: len(environment.upstream.requests) == 1)
    stopping = asyncio.create_task(environment.server.stop(drain_seconds=20))
    assert await resting.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(port)
    go.set()
    answer = await busy.response()
    assert answer.body == b"finished"
    assert answer.values(b"connection") == [b"close"]
    await stopping
    assert environment.activity.leases == set()


async def test_draining_answers_a_request_that_was_on_its_way(environment: ProxyEnvironment) -> None:
    """On a connection that has had an answer, and on one that has not said anything yet."""
    resting, fresh = await environment.client(), await environment.client()
    await resting.send(environment.request())
    await resting.response()
    await until(lambda: environment.server.metrics.connections_open == 2)
    request, port = environment.request(), environment.server.port
    stopping = asyncio.create_task(environment.server.stop(drain_seconds=20))
    await asyncio.sleep(0)  # one turn of the loop: it has begun
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(port)
    for client in (resting, fresh):
        await client.send(request)
        answer = await client.response()
        assert answer.status == 200
        assert answer.values(b"connection") == [b"close"]
        assert await client.rest() == b""
    await stopping
