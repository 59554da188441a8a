"""Docker's framing of output: eight bytes of header (stream, length) before each piece."""

import asyncio
import struct
from collections.abc import AsyncGenerator

import aiohttp

_HEADER = struct.Struct(">BxxxL")
_CHUNK_BYTES = 64 * 1024
STDOUT = 1


async def demultiplex(content: aiohttp.StreamReader, *, tty: bool) -> AsyncGenerator[tuple[int, bytes], None]:
    """Pieces with the stream they were written to. A container with a terminal has one stream, unframed."""
    if tty:
        async for chunk in content.iter_chunked(_CHUNK_BYTES):
            yield STDOUT, chunk
        return
    while True:
        try:
            stream, length = _HEADER.unpack(await content.readexactly(_HEADER.size))
            piece = await content.readexactly(length)
        except asyncio.IncompleteReadError:
            return  # the end; what was cut off here is asked for again by whoever needs it
        yield stream, piece
