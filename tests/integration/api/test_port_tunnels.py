"""The WebSocket by which the proxy reaches a container's loopback: for proxies alone, bounded, and leaving nothing."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from codehub.api.app import create_app
from codehub.api.inside.frames import MAX_FRAME_BYTES, Sent, Told
from codehub.api.routes import port_tunnels
from codehub.proxy.settings import TcpAddress
from codehub.server.proxy.port_tunnels import PortTunnels, TunnelVerifier, sign_tunnel
from tests.integration.api.environment import ApiEnvironment, serve
from tests.integration.api.test_inside import running
from tests.support.fake_exec import FakeProcess, Program
from tests.support.waiting import until

SECRET = b"s3cret"


def test_a_signature_is_good_for_one_port_and_thirty_seconds() -> None:
    one, other = uuid4(), uuid4()
    signed = sign_tunnel(one, 3000, secret=SECRET, now=100.0)

    def verified(value: str, *, of: UUID = one, port: int = 3000, now: float = 100.0) -> bool:
        return TunnelVerifier(SECRET, clock=lambda: now)(value, of, port)

    assert verified(signed)
    assert verified(signed, now=130.0)
    assert not verified(signed, now=131.0)
    assert not verified(signed, of=other)
    assert not verified(signed, port=3001)
    assert not TunnelVerifier(b"other", clock=lambda: 100.0)(signed, one, 3000)
    for odd in ("", " ", "130", "x y", "-1 x", "9" * 20 + " x", "130 é", signed.replace("130", "999")):
        assert not verified(odd), odd


def frame(kind: Told, data: bytes = b"") -> bytes:
    return bytes([kind]) + len(data).to_bytes(3, "big") + data


async def received(process: FakeProcess) -> AsyncIterator[tuple[int, bytes]]:
    """The frames of CodeHub, until it closes."""
    kept = b""
    while data := await process.read():
        kept += data
        while len(kept) >= 4 and len(kept) >= 4 + (length := int.from_bytes(kept[1:4], "big")):
            yield kept[0], kept[4 : 4 + length]
            kept = kept[4 + length :]


async def echo(process: FakeProcess) -> int:
    """What ``inside connect`` does with a server that answers once it has heard all. It stays until CodeHub closes."""
    assert process.argv[1:] == ("connect", "7000")
    await process.say(frame(Told.ATTACHED))
    heard = b""
    async for kind, data in received(process):
        if kind == Sent.INPUT:
            heard += data
            await process.say(frame(Told.TOOK, len(data).to_bytes(4, "big")))
        elif kind == Sent.INPUT_END:
            answer = b"heard " + heard
            for begin in range(0, len(answer), MAX_FRAME_BYTES):
                await process.say(frame(Told.OUTPUT, answer[begin : begin + MAX_FRAME_BYTES]))
            await process.say(frame(Told.EXIT, b"\0"))
    return 0


async def stop_in_the_middle(process: FakeProcess) -> int:
    """An engine that loses the end of what was said."""
    await process.say(frame(Told.ATTACHED) + frame(Told.OUTPUT, b"a part"))
    return 0


async def deaf(process: FakeProcess) -> int:
    """A server that never reads: nothing is taken."""
    await process.say(frame(Told.ATTACHED))
    total = 0
    async for kind, data in received(process):
        total += len(data) if kind == Sent.INPUT else 0
        process.files["sent"] = str(total).encode()
    return 0


async def refuse(process: FakeProcess) -> int:
    await process.say(frame(Told.REFUSED, b"connection refused"))
    async for _ in received(process):
        pass
    return 0


@asynccontextmanager
async def tunnelling(
    environment: ApiEnvironment, program: Program
) -> AsyncIterator[tuple[PortTunnels, UUID, str]]:
    """A proxy's tunnels, a workspace that runs, and where the API is."""
    app = create_app(replace(environment.dependencies, verify_tunnel=TunnelVerifier(SECRET)))
    ann = await environment.sign_in("ann")
    workspace_id = UUID((await running(environment, ann, program)).rsplit("/", 1)[1])
    async with serve(app) as url:
        address = urlsplit(url)
        assert address.hostname is not None
        assert address.port is not None
        tunnels = PortTunnels(TcpAddress(address.hostname, address.port), SECRET)
        try:
            yield tunnels, workspace_id, url
        finally:
            await tunnels.close()


async def test_bytes_and_their_end_pass_both_ways_and_nothing_is_left(environment: ApiEnvironment) -> None:
    async with tunnelling(environment, echo) as (tunnels, workspace_id, _):
        sock = await tunnels.open(workspace_id, 7000)
        assert sock is not None
        reader, writer = await asyncio.open_connection(sock=sock)
        content = bytes(range(256)) * 4096
        writer.write(content)
        writer.write_eof()
        assert await reader.read() == b"heard " + content
        writer.close()
        await until(lambda: not environment.runtime.place(workspace_id).processes)
        await until(lambda: not port_tunnels._open)
        seen = (await environment.activity.read_many([workspace_id]))[workspace_id]
        assert (seen.connections, seen.last_seen_at) == (0, None)  # the proxy counts, not the tunnel


@pytest.mark.parametrize(("program", "code"), [(echo, 1000), (stop_in_the_middle, 1011)])
async def test_a_part_is_told_from_the_whole(
    environment: ApiEnvironment, program: Program, code: int
) -> None:
    async with tunnelling(environment, program) as (_, workspace_id, url):
        path = f"{url.replace('http', 'ws', 1)}/api/v1/workspaces/{workspace_id}/ports/7000/tunnel"
        signed = sign_tunnel(workspace_id, 7000, secret=SECRET, now=time.time())
        async with connect(path, additional_headers={"X-CodeHub-Tunnel": signed}) as socket:
            if program is echo:
                await socket.send("end")
            await socket.wait_closed()
            assert socket.close_code == code


async def test_a_server_that_does_not_read_stops_who_sends_and_keeps_nothing(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_tunnels, "LOOK_SECONDS", 0.1)
    async with tunnelling(environment, deaf) as (tunnels, workspace_id, _):
        sock = await tunnels.open(workspace_id, 7000)
        assert sock is not None
        _, writer = await asyncio.open_connection(sock=sock)
        writer.write(b"x" * 16 * 1024**2)
        files = environment.runtime.place(workspace_id).volume
        assert files is not None
        await until(lambda: int(files.get("sent", b"0")) >= port_tunnels.WINDOW_BYTES)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 0.5)
        assert int(files["sent"]) < 2 * port_tunnels.WINDOW_BYTES
        writer.transport.abort()
        await tunnels.close()
        await until(lambda: not port_tunnels._open, seconds=30)


async def test_a_proxy_that_lets_go_leaves_no_process(environment: ApiEnvironment) -> None:
    async with tunnelling(environment, echo) as (tunnels, workspace_id, _):
        sock = await tunnels.open(workspace_id, 7000)
        assert sock is not None
        await tunnels.close()
        await until(lambda: not port_tunnels._open)
        sock.close()


async def test_a_closed_port_is_not_tried_again_at_once(environment: ApiEnvironment) -> None:
    async with tunnelling(environment, refuse) as (tunnels, workspace_id, _):
        assert await tunnels.open(workspace_id, 7000) is None
        environment.runtime.programs["inside"] = echo
        assert await tunnels.open(workspace_id, 7000) is None
        await until(lambda: not port_tunnels._open)


async def test_nobody_but_a_proxy_gets_a_tunnel(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tunnelling(environment, echo) as (_, workspace_id, url):
        path = f"{url.replace('http', 'ws', 1)}/api/v1/workspaces/{workspace_id}/ports/7000/tunnel"
        token = await environment.token_client(await environment.sign_in("admin"))
        now = asyncio.get_running_loop().time()
        forged = sign_tunnel(workspace_id, 7000, secret=b"other", now=now)
        for headers in ({}, {"Authorization": token.headers["Authorization"]}, {"X-CodeHub-Tunnel": forged}):
            with pytest.raises(InvalidStatus) as refused:
                await connect(path, additional_headers=headers)
            assert refused.value.response.status_code == 404
        monkeypatch.setattr(port_tunnels, "MAX_OF_WORKSPACE", 0)
        assert (
            await PortTunnels(TcpAddress("127.0.0.1", urlsplit(url).port or 0), SECRET).open(
                workspace_id, 7000
            )
            is None
        )
