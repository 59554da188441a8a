"""Hand-written peers: an upstream and a client that send exactly the bytes a test says."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

DEADLINE = 20.0

Behaviour = Callable[["Received", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Received:
    """One request as the upstream saw it."""

    head: bytes
    body: bytes = b""

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n")[0]

    def values(self, name: bytes) -> list[bytes]:
        wanted = name.lower()
        pairs = (line.partition(b":") for line in self.head.split(b"\r\n")[1:-2])
        return [value.strip() for key, _, value in pairs if key.lower() == wanted]

    def names(self) -> set[bytes]:
        return {line.partition(b":")[0].lower() for line in self.head.split(b"\r\n")[1:-2]}


@dataclass
class RawUpstream:
    """Reads requests (bodies with Content-Length too) and does what ``behave`` says with each."""

    behave: Behaviour
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    closed: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, unix_path: str | None = None) -> None:
        if unix_path is not None:
            self._server = await asyncio.start_unix_server(self._serve, unix_path)
            return
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                received = Received(head)
                self.requests.append(received)
                for length in received.values(b"content-length"):
                    if not received.values(b"expect"):
                        received.body = await reader.readexactly(int(length))
                await self.behave(received, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed += 1
            self._tasks.discard(task)
            writer.close()


def replies(*responses: bytes, close: bool = False) -> Behaviour:
    """The first response to the first request, and so on; the last one again and again."""
    left = list(responses)

    async def behave(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()
        if close:
            writer.close()

    return behave


SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def ok(body: bytes = b"hello", *lines: bytes) -> bytes:
    extra = b"".join(line + b"\r\n" for line in lines)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), extra, body)


@dataclass
class Response:
    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    def values(self, name: bytes) -> list[bytes]:
        return Received(self.head).values(name)


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> "RawClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**20))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def response(self, *, head_only: bool = False) -> Response:
        async with asyncio.timeout(DEADLINE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            answer = Response(head, b"")
            if head_only or answer.status in (204, 304) or answer.status < 200:
                return answer
            if answer.values(b"transfer-encoding"):
                answer.body = await self._chunked()
            elif lengths := answer.values(b"content-length"):
                answer.body = await self.reader.readexactly(int(lengths[0]))
            else:
                answer.body = await self.reader.read()
            return answer

    async def rest(self) -> bytes:
        """Everything until the other side closes."""
        async with asyncio.timeout(DEADLINE):
            return await self.reader.read()

    async def _chunked(self) -> bytes:
        """The raw chunked body, trailers included."""
        out = b""
        while True:
            line = await self.reader.readuntil(b"\r\n")
            out += line
            size = int(line.split(b";")[0], 16)
            if size == 0:
                break
            out += await self.reader.readexactly(size + 2)
        while True:
            line = await self.reader.readuntil(b"\r\n")
            out += line
            if line == b"\r\n":
                return out

    def close(self) -> None:
        self.writer.close()
