"""Large bodies: byte-identical, with memory that does not grow."""

import asyncio
import contextlib
import hashlib
import os
import resource
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.integration.proxy.apart import proxy_apart
from tests.integration.proxy.conftest import MakeEnvironment
from tests.integration.proxy.raw import Received

MIB = 2**20
SIZE = int(os.environ.get("CODEHUB_TEST_LARGE_MIB", "1024")) * MIB
CHUNKED_SIZE = SIZE // 4
BLOCK = os.urandom(MIB)
ROOM = 48 * 1024  # KiB the process may grow by, upstream and client of the test included
PROXY_ROOM = 32 * 1024  # KiB the proxy alone may grow by


def test_download_of_a_gibibyte() -> None:
    def upstream(connection: socket.socket) -> str:
        _read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE)
        return _send(connection)

    with _one_connection(upstream) as (port, sent), proxy_apart(port) as proxy:
        before = proxy.forget_peak()
        with proxy.connect() as client:
            client.sendall(proxy.head("GET"))
            _, body = _read_head(client)
            assert _receive(client, body) == sent.result(timeout=30)
        assert proxy.peak() - before < PROXY_ROOM


def test_upload_of_a_gibibyte() -> None:
    def upstream(connection: socket.socket) -> str:
        _, body = _read_head(connection)
        digest = _receive(connection, body)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        return digest

    with _one_connection(upstream) as (port, received), proxy_apart(port) as proxy:
        before = proxy.forget_peak()
        with proxy.connect() as client:
            client.sendall(proxy.head("PUT", f"Content-Length: {SIZE}"))
            assert _send(client) == received.result(timeout=30)
            head, _ = _read_head(client)
            assert head.startswith(b"HTTP/1.1 204 ")
        assert proxy.peak() - before < PROXY_ROOM


@contextlib.contextmanager
def _one_connection(serve: Callable[[socket.socket], str]) -> Iterator[tuple[int, Future[str]]]:
    """An upstream for one request, in a thread: the port, and what ``serve`` will have returned."""

    def work() -> str:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            return serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        listener.settimeout(30)
        yield listener.getsockname()[1], threads.submit(work)


def _send(connection: socket.socket) -> str:
    """SIZE bytes, no two blocks alike: one that is lost, doubled or out of place shows."""
    digest, block = hashlib.sha256(), bytearray(BLOCK)
    for number in range(SIZE // MIB):
        block[:8] = number.to_bytes(8, "big")
        digest.update(block)
        connection.sendall(block)
    return digest.hexdigest()


def _receive(connection: socket.socket, first: bytes) -> str:
    digest, left, buffer = hashlib.sha256(first), SIZE - len(first), memoryview(bytearray(MIB))
    while left:
        size = connection.recv_into(buffer)
        assert size, f"{left} bytes are missing"
        digest.update(buffer[:size])
        left -= size
    return digest.hexdigest()


def _read_head(connection: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        assert more
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


async def test_chunked_download(make_environment: MakeEnvironment) -> None:
    async def send(received: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(CHUNKED_SIZE // MIB):
            writer.write(b"%x\r\n%b\r\n" % (MIB, BLOCK))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    environment = await make_environment(send)
    client = await environment.client()
    await client.send(environment.request())
    await client.reader.readuntil(b"\r\n\r\n")
    before = _resident_kib()
    for _ in range(CHUNKED_SIZE // MIB):
        assert await client.reader.readuntil(b"\r\n") == b"%x\r\n" % MIB
        assert await client.reader.readexactly(MIB) == BLOCK
        await client.reader.readexactly(2)
    assert await client.reader.readexactly(5) == b"0\r\n\r\n"
    assert _resident_kib() - before < ROOM


def _resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


async def test_many_transfers_at_once_with_slow_readers(make_environment: MakeEnvironment) -> None:
    """Forty downloads nobody reads: the proxy holds a little of each, not all of it."""

    async def send(received: Received, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * MIB))
        for _ in range(64):
            writer.write(BLOCK)
            await writer.drain()

    environment = await make_environment(send)
    before = _resident_kib()
    for _ in range(40):
        client = await environment.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(environment.request())
    last = -1
    while (now := _resident_kib()) != last:  # until nothing moves any more
        last = now
        await asyncio.sleep(0.3)
    # A block of the test's upstream (1 MiB) and at most two write buffers for each.
    assert _resident_kib() - before < 40 * 3 * 1024
