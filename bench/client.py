"""A small HTTP client for measuring: both sides are asked by it, and it takes little of what they share.

Of HTTP it knows what both peers answer with: a Content-Length, chunks, or no body. Connections are kept and
reused; an answer that ends its connection ends it here too.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

LONGEST_LINE = 1 << 24
_NO_BODY = (204, 304)


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def expect(self, *statuses: int) -> "Answer":
        if self.status not in (statuses or (200, 201, 202, 204)):
            raise RuntimeError(f"answered {self.status}: {self.body[:500]!r}")
        return self


class Client:
    def __init__(self, url: str, headers: dict[str, str]) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._head = "".join(
            f"{name}: {value}\r\n" for name, value in {"Host": parts.netloc, **headers}.items()
        )
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        reader, writer = await self._connection()
        keep = False
        try:
            self._send(writer, method, path, body)
            status, headers = await _read_head(reader)
            content = b"" if status in _NO_BODY else await _read_body(reader, headers)
            keep = headers.get("connection", "").lower() != "close"
        finally:
            if keep:
                self._idle.append((reader, writer))
            else:
                writer.close()
        return Answer(status, content)

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of an answer without end, as they come."""
        reader, writer = await self._connect()
        try:
            self._send(writer, "GET", path, None)
            status, headers = await _read_head(reader)
            if status != 200:
                raise RuntimeError(f"answered {status}")
            rest = b""
            async for chunk in _chunks(reader, headers):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line
        finally:
            writer.close()

    async def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():  # the server may have ended it meanwhile
                return reader, writer
            writer.close()
        return await self._connect()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._host, self._port, limit=LONGEST_LINE)

    def _send(self, writer: asyncio.StreamWriter, method: str, path: str, body: object) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        said = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        described = said if body is not None or method == "POST" else ""
        writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{described}\r\n".encode() + content)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in rest:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(first.split(" ", 2)[1]), headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return b"".join([chunk async for chunk in _chunks(reader, headers)])


async def _chunks(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        while data := await reader.read(65536):
            yield data
        return
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
