"""A TCP proxy that loses connections the way networks do, to stand between a client and a real server.

Bytes flow both ways until a test breaks the link:

- **cut**: open connections are reset and new ones refused, as when a host goes down;
- **stall**: everything is accepted and nothing is forwarded, as behind a firewall that drops packets: neither
  end learns that the other has closed. Healed, what was held back flows on, as TCP would send it again;
- **strand**: requests pass and answers are lost, as with a route that works one way only. Answers that are
  gone cannot be made up for, so healing resets the connections that lost some.

The proxy runs in the test's own event loop; whoever blocks that loop stalls every link.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path

_CHUNK = 65536


class Break(StrEnum):
    CUT = "cut"
    STALL = "stall"
    STRAND = "strand"


class BrokenLink:
    """``port`` on loopback is what the client is given; ``target`` is the server's Unix socket, or host and port."""

    def __init__(self, target: Path | tuple[str, int]) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._broken: Break | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._pairs: set[_Pair] = set()
        self.port = 0

    @property
    def connections(self) -> int:
        return len(self._pairs)

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def break_(self, how: Break) -> None:
        self._broken = how
        if how is Break.CUT:
            self._reset(self._pairs)
        elif how is Break.STALL:
            self._flowing.clear()

    def heal(self) -> None:
        self._broken = None
        self._flowing.set()
        self._reset({pair for pair in self._pairs if pair.lost_bytes})

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        relaying = [pair.task for pair in self._pairs]
        for task in relaying:
            task.cancel()
        await asyncio.gather(*relaying, return_exceptions=True)

    def _reset(self, pairs: "set[_Pair]") -> None:
        for pair in list(pairs):
            pair.task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        pair = _Pair(task)
        self._pairs.add(pair)
        writers = [writer]
        try:
            if self._broken is Break.CUT:
                return
            await self._flowing.wait()
            there_reader, there_writer = await self._connect()
            writers.append(there_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, there_writer, pair=pair, answers=False))
                both.create_task(self._pump(there_reader, writer, pair=pair, answers=True))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # hung up on, by either end or by the test: both ends are reset below
        finally:
            self._pairs.discard(pair)
            for each in writers:
                each.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, pair: "_Pair", answers: bool
    ) -> None:
        while data := await reader.read(_CHUNK):
            await self._flowing.wait()
            if answers and self._broken is Break.STRAND:
                pair.lost_bytes = True
                continue
            writer.write(data)
            await writer.drain()
        await self._flowing.wait()
        raise ConnectionResetError("one end has closed")


class _Pair:
    """One connection through the link."""

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self.task = task
        self.lost_bytes = False


@asynccontextmanager
async def broken_link(target: Path) -> AsyncIterator[BrokenLink]:
    link = BrokenLink(target)
    await link.open()
    try:
        yield link
    finally:
        await link.close()
