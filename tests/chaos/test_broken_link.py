"""The link that breaks others must itself be beyond doubt."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.broken_link import Break, BrokenLink, broken_link
from tests.support.waiting import until


@pytest.fixture
async def heard() -> list[bytes]:
    return []


@pytest.fixture
async def link(tmp_path: Path, heard: list[bytes]) -> AsyncIterator[BrokenLink]:
    """To a server that says everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.append(data)
            writer.write(data)
        writer.close()

    server = await asyncio.start_unix_server(echo, tmp_path / "socket")
    async with broken_link(tmp_path / "socket") as link:
        yield link
    server.close()


async def connect(link: BrokenLink) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", link.port)


async def test_what_is_whole_passes(link: BrokenLink) -> None:
    reader, writer = await connect(link)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.close()

    async def closed() -> bool:
        return link.connections == 0

    await until(closed, what="the link to forget a connection that was closed")


async def test_a_cut_hangs_up_and_refuses(link: BrokenLink) -> None:
    reader, writer = await connect(link)
    writer.write(b"hello")
    await reader.readexactly(5)
    link.break_(Break.CUT)
    assert await _ends(reader)
    refused, _ = await connect(link)
    assert await _ends(refused)
    link.heal()
    reader, writer = await connect(link)
    writer.write(b"again")
    assert await reader.readexactly(5) == b"again"


async def test_a_stall_holds_back_and_tells_nobody(link: BrokenLink, heard: list[bytes]) -> None:
    reader, writer = await connect(link)
    link.break_(Break.STALL)
    writer.write(b"hello")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(5), 0.3)
    assert heard == []
    link.heal()
    assert await reader.readexactly(5) == b"hello"


async def test_a_stranded_request_arrives_and_its_answer_does_not(
    link: BrokenLink, heard: list[bytes]
) -> None:
    reader, writer = await connect(link)
    link.break_(Break.STRAND)
    writer.write(b"hello")

    async def arrived() -> bool:
        return heard == [b"hello"]

    await until(arrived)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.3)
    link.heal()
    assert await _ends(reader)


async def _ends(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), 5) == b""
    except ConnectionError:
        return True
