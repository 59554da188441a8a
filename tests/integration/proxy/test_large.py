"""Large bodies: byte-identical, with memory that does not grow."""

import asyncio
import hashlib
import os
import resource
from pathlib import Path

import pytest

from tests.integration.proxy.conftest import MakeHouse
from tests.integration.proxy.raw import Received

MIB = 2**20
SIZE = int(os.environ.get("CODEHUB_TEST_LARGE_MIB", "256")) * MIB
BLOCK = os.urandom(MIB)
ROOM = 48 * 1024  # KiB the process may grow by, upstream and client of the test included


def _resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def _expected() -> str:
    digest = hashlib.sha256()
    for _ in range(SIZE // MIB):
        digest.update(BLOCK)
    return digest.hexdigest()


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_download(make_house: MakeHouse, chunked: bool) -> None:
    async def send(received: Received, __: object, writer: asyncio.StreamWriter) -> None:
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % SIZE
        writer.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % framing)
        for _ in range(SIZE // MIB):
            writer.write(b"%x\r\n%b\r\n" % (MIB, BLOCK) if chunked else BLOCK)
            await writer.drain()
        if chunked:
            writer.write(b"0\r\n\r\n")

    house = await make_house(send)
    client = await house.client()
    await client.send(house.request())
    await client.reader.readuntil(b"\r\n\r\n")
    before, digest, left = _resident_kib(), hashlib.sha256(), SIZE
    if chunked:
        for _ in range(SIZE // MIB):
            assert await client.reader.readuntil(b"\r\n") == b"%x\r\n" % MIB
            digest.update(await client.reader.readexactly(MIB))
            await client.reader.readexactly(2)
        assert await client.reader.readexactly(5) == b"0\r\n\r\n"
    else:
        while left:
            data = await client.reader.read(MIB)
            assert data
            digest.update(data)
            left -= len(data)
    assert digest.hexdigest() == _expected()
    assert _resident_kib() - before < ROOM


async def test_upload(make_house: MakeHouse) -> None:
    async def receive(received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        digest, left = hashlib.sha256(), SIZE
        while left:
            data = await reader.read(min(left, MIB))
            if not data:
                return
            digest.update(data)
            left -= len(data)
        body = digest.hexdigest().encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    house = await make_house(receive)
    client = await house.client()
    # "Expect" keeps the recording upstream from reading the body itself.
    await client.send(
        house.request(b"/", b"Content-Length: %d" % SIZE, b"Expect: 100-continue", method=b"PUT")
    )
    before = _resident_kib()
    for _ in range(SIZE // MIB):
        await client.send(BLOCK)
    assert (await client.response()).body.decode() == _expected()
    assert _resident_kib() - before < ROOM


async def test_many_transfers_at_once_with_slow_readers(make_house: MakeHouse) -> None:
    """Forty downloads nobody reads: the proxy holds a little of each, not all of it."""

    async def send(received: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * MIB))
        for _ in range(64):
            writer.write(BLOCK)
            await writer.drain()

    house = await make_house(send)
    before = _resident_kib()
    for _ in range(40):
        client = await house.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(house.request())
    last = -1
    while (now := _resident_kib()) != last:  # until nothing moves any more
        last = now
        await asyncio.sleep(0.3)
    # A block of the test's upstream (1 MiB) and at most two write buffers for each.
    assert _resident_kib() - before < 40 * 3 * 1024
