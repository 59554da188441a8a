"""Commands in the fake runtime: coroutines instead of programs, with the promises of ``ExecStream``."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.exec_stream import (
    NOT_FOUND,
    PIECE_BYTES,
    ExecStream,
    Exit,
    Output,
    Stream,
    TerminalSize,
)

_PIECES = 2


@dataclass
class FakeProcess:
    """What a program sees: arguments, surroundings, input and output."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    size: TerminalSize | None
    pid: int
    files: dict[str, bytes]
    alive: set[int]
    stdin: "asyncio.Queue[bytes]" = field(default_factory=lambda: asyncio.Queue(_PIECES))
    output: "asyncio.Queue[Output | None]" = field(default_factory=lambda: asyncio.Queue(_PIECES))
    input_ended: bool = False

    async def read(self) -> bytes:
        """The next input; empty at its end."""
        if self.input_ended:
            return b""
        data = await self.stdin.get()
        self.input_ended = not data
        return data

    async def say(self, data: bytes, stream: Stream = Stream.STDOUT) -> None:
        for begin in range(0, len(data), PIECE_BYTES):
            await self.output.put(Output(stream, data[begin : begin + PIECE_BYTES]))


Program = Callable[[FakeProcess], Awaitable[int]]


async def cat(process: FakeProcess) -> int:
    while data := await process.read():
        await process.say(data)
    return 0


async def true(process: FakeProcess) -> int:
    return 0


class FakeExec(ExecStream):
    def __init__(self, process: FakeProcess, program: Program | None) -> None:
        self._process = process
        self._ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._at_end = False
        self._lost: EffectError | None = None
        self._task = asyncio.create_task(self._run(program))

    async def read(self) -> Output | None:
        if self._at_end:
            return None
        piece = await self._process.output.get()
        if piece is None:
            self._at_end = True
            if self._lost is not None:
                raise self._lost
        return piece

    async def write(self, data: bytes) -> None:
        if data and not self._ended.done():
            putting = asyncio.ensure_future(self._process.stdin.put(data))
            ended = asyncio.ensure_future(asyncio.wait([self._ended]))
            await asyncio.wait([putting, ended], return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            putting.cancel()

    async def close_stdin(self) -> None:
        if self._process.size is None and not self._ended.done():
            await self._process.stdin.put(b"")

    async def resize(self, size: TerminalSize) -> None:
        if self._process.size is not None:
            self._process.size = size

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    async def close(self, *, grace_seconds: float = 1.0) -> None:
        if self._ended.done():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self.close_stdin()
                while await self.read() is not None:
                    pass
        self.kill(9)
        await asyncio.wait([self._task])

    def kill(self, signal: int) -> None:
        """The process and its children die."""
        if not self._ended.done():
            self._ended.set_result(Exit(128 + signal))
        self._task.cancel()

    def lose(self, error: EffectError) -> None:
        """The engine goes away: nobody learns how it ended."""
        self._lost = error
        if not self._ended.done():
            self._ended.set_exception(error)
            self._ended.exception()
        self._task.cancel()

    async def _run(self, program: Program | None) -> None:
        process = self._process
        process.alive.add(process.pid)
        try:
            ended = await self._outcome(program)
            if not self._ended.done():
                self._ended.set_result(ended)
        finally:
            process.alive.difference_update({process.pid, process.pid + 1})
            while True:  # nobody may be reading; the end is told all the same
                try:
                    process.output.put_nowait(None)
                    break
                except asyncio.QueueFull:
                    if self._task.cancelling():
                        process.output.get_nowait()
                    else:
                        await process.output.put(None)
                        break

    async def _outcome(self, program: Program | None) -> Exit:
        if program is None:
            return Exit(NOT_FOUND, f"{self._process.argv[0]}: not found")
        if self._process.cwd.startswith("/no/"):
            return Exit(126, f"{self._process.cwd}: not found")
        code = await program(self._process)
        return Exit(code)


def not_running() -> EffectError:
    return EffectError(FailureCode.CONTAINER_NOT_RUNNING, "no container runs")
