"""A container paused under open requests: each gets an end that says why, soon, and nothing else does."""

import asyncio
from contextlib import suppress

import pytest

from codehub.domain.waking import ErrorNote, Phase
from codehub.proxy import engine
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.raw import SWITCHED, Behaviour, Received
from tests.support.waiting import until

WORDS = "The container is paused (docker pause)."
PAUSED = {"phase": Phase.ERROR, "paused": True, "error": ErrorNote("Mismatch", WORDS)}
SOON = 10.0  # where a silent upstream is given up after 600 s
PAGE = (b"Accept: text/html", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: document")


def stalls_after(first: bytes) -> Behaviour:
    async def behave(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await reader.read()

    return behave


async def waiting(environment: ProxyEnvironment) -> None:
    await until(lambda: len(environment.upstream.requests) == 1)


@pytest.mark.parametrize("lines", [(), PAGE], ids=["program", "page"])
async def test_a_request_in_flight_is_told(
    make_environment: MakeEnvironment, lines: tuple[bytes, ...]
) -> None:
    environment = await make_environment(stalls_after(b""))
    request = asyncio.create_task(environment.get(b"/", *lines))
    await waiting(environment)
    environment.directory.change(environment.workspace.id, **PAUSED)
    answer = await asyncio.wait_for(request, SOON)
    assert answer.status == 502
    assert WORDS.encode() in answer.body
    await until(lambda: environment.upstream.closed == 1)


async def test_half_an_answer_does_not_look_whole(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(stalls_after(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"))
    client = await environment.client()
    await client.send(environment.request())
    await client.reader.readuntil(b"half")
    environment.directory.change(environment.workspace.id, **PAUSED)
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(client.reader.read(), SOON)


@pytest.mark.parametrize("use_relay", [True, False])
async def test_a_websocket_ends(make_environment: MakeEnvironment, use_relay: bool) -> None:
    environment = await make_environment(stalls_after(SWITCHED), use_relay=use_relay)
    client = await environment.client()
    await client.send(environment.upgrade())
    await client.reader.readuntil(b"\r\n\r\n")
    environment.directory.change(environment.workspace.id, **PAUSED)
    await asyncio.wait_for(ended(client.reader), SOON)


async def ended(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):
        assert await reader.read() == b""


async def test_it_ends_too_if_the_proxy_was_not_told(
    make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RECHECK_INTERVAL", 1.0)
    environment = await make_environment(stalls_after(b""), cache_ttl=0.1)
    request = asyncio.create_task(environment.get())
    await waiting(environment)
    environment.directory.listeners.clear()
    environment.directory.change(environment.workspace.id, **PAUSED)
    assert (await asyncio.wait_for(request, SOON)).status == 502


async def test_other_errors_and_other_workspaces_leave_it_alone(make_environment: MakeEnvironment) -> None:
    """A container that could not be stopped still answers; who is patient gets its answer."""
    goes_on = asyncio.Event()

    async def patient(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        await goes_on.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    environment = await make_environment(patient)
    request = asyncio.create_task(environment.get())
    await waiting(environment)
    other = environment.directory.add()
    environment.directory.change(other.id, **PAUSED)
    environment.directory.change(environment.workspace.id, phase=Phase.ERROR)
    running = environment.server._engine
    assert running is not None
    looked = environment.directory.calls["workspace"]
    running.sweep(1.0)
    await until(lambda: environment.directory.calls["workspace"] > looked)
    goes_on.set()
    assert (await request).body == b"ok"
