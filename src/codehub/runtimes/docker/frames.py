"""Decode Docker's output: eight bytes of header (stream, length) per piece."""

import asyncio
import struct
from collections.abc import AsyncGenerator

import aiohttp

_HEADER = struct.Struct(">BxxxL")
_CHUNK_BYTES = 64 * 1024
STDOUT = 1


async def demultiplex(content: aiohttp.StreamReader, *, tty: bool) -> AsyncGenerator[tuple[int, bytes], None]:
    """Split output into (stream, bytes). With a terminal there is one unframed stream."""
    if tty:
        async for chunk in content.iter_chunked(_CHUNK_BYTES):
            yield STDOUT, chunk
        return
    while True:
        try:
            stream, length = _HEADER.unpack(await content.readexactly(_HEADER.size))
            piece = await content.readexactly(length)
        except asyncio.IncompleteReadError:
            return  # the end; a caller that needs what was cut off reads again
        yield stream, piece
