"""Load generators: wrk for HTTP, and a small one of our own for WebSockets."""

import asyncio
import base64
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

_PER_SECOND = re.compile(r"Requests/sec:\s+([\d.]+)")
_LATENCY = re.compile(r"99%\s+([\d.]+)(us|ms|s)")
_BAD = re.compile(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)")
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


async def wrk(
    url: str, *, headers: Mapping[str, str], connections: int, seconds: float, script: Path | None = None
) -> Mapping[str, float]:
    """Requests a second and the slowest hundredth's time. Any answer that is not 2xx is an error."""
    arguments = [f"-H{name}: {value}" for name, value in headers.items()]
    if script is not None:
        arguments += ["-s", str(script)]
    process = await asyncio.create_subprocess_exec(
        *(
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds:g}s",
            "--timeout",
            "60s",
            "--latency",
            *arguments,
            url,
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode()
    found, slow = _PER_SECOND.search(said), _LATENCY.search(said)
    if process.returncode or found is None or slow is None or _BAD.search(said):
        raise RuntimeError(f"wrk {url}:\n{said}")
    return {
        "requests/s": float(found.group(1)),
        "p99 ms": float(slow.group(1)) * _MILLISECONDS[slow.group(2)],
    }


async def echoes(
    url: str, *, headers: Mapping[str, str], connections: int, size: int, seconds: float
) -> Mapping[str, float]:
    """Messages a second that came back: each connection sends its next one when the last one is there."""
    clients = [await _open(url, headers, size=size) for _ in range(connections)]
    try:
        began = time.perf_counter()
        for client in clients:
            client.send()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - began
        if any(client.closed for client in clients):
            raise RuntimeError(f"{url}: a WebSocket was closed")
        return {"messages/s": sum(client.received for client in clients) / took}
    finally:
        for client in clients:
            client.transport.close()


async def handshakes(url: str, *, headers: Mapping[str, str], places: int, seconds: float) -> int:
    """How many WebSockets were opened and closed again, one after another at each of ``places``."""
    until = time.perf_counter() + seconds

    async def open_and_close() -> int:
        count = 0
        while time.perf_counter() < until:
            client = await _open(url, headers, size=1)
            client.transport.close()
            count += 1
        return count

    return sum(await asyncio.gather(*(open_and_close() for _ in range(places))))


class _Client(asyncio.Protocol):
    """Counts bytes: a message is back when as many have come as its echo has."""

    transport: asyncio.Transport

    def __init__(self, head: bytes, *, size: int) -> None:
        self._head = head
        length = bytes((size,)) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
        payload = os.urandom(size)
        # Masked with zeros, as RFC 6455 lets a client do: sending then costs this side nothing.
        self._frame = b"\x82" + bytes((length[0] | 0x80,)) + length[1:] + bytes(4) + payload
        self._echo_bytes = 1 + len(length) + size
        self._answer = b""
        self._missing = 0
        self.received = 0
        self.closed = False
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self.transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self._answer += data
            if b"\r\n\r\n" in self._answer:
                if self._answer.startswith(b"HTTP/1.1 101"):
                    self.opened.set_result(None)
                else:
                    self.opened.set_exception(RuntimeError(self._answer.decode(errors="replace")))
            return
        self._missing -= len(data)
        if self._missing <= 0:
            self.received += 1
            self.send()

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed = True

    def send(self) -> None:
        self._missing = self._echo_bytes
        self.transport.write(self._frame)


async def _open(url: str, headers: Mapping[str, str], *, size: int) -> _Client:
    where = urlsplit(url)
    assert where.hostname is not None
    assert where.port is not None
    fields = {
        "Host": where.netloc,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        **headers,
    }
    lines = [f"GET {where.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    head = "\r\n".join(lines).encode()
    _, client = await asyncio.get_running_loop().create_connection(
        lambda: _Client(head, size=size), where.hostname, where.port
    )
    await asyncio.wait_for(client.opened, 10)
    return client
