"""Run commands in the sandbox of a workspace that runs here, and end them.

The command is a child of ours, so its end is the kernel's word. Pipes and the terminal are read with flow control.
"""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.tasks import cancel_and_wait, finish
from codehub.kit.threads import wait_for_end
from codehub.runtimes.exec_commands import mark_of
from codehub.runtimes.exec_stream import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    PIECE_BYTES,
    ExecStream,
    Exit,
    Output,
    Stream,
    TerminalSize,
    exit_of,
)
from codehub.runtimes.local.entering import (
    Entered,
    Entering,
    ExecOrder,
    SandboxGone,
    begin_entering,
    environment_of,
    finish_entering,
    kill_child,
    open_namespaces,
)
from codehub.runtimes.local.processes import ProcessIdentity, boot_id, find_stat
from codehub.runtimes.local.records import ProcessRecord
from codehub.runtimes.local.stop import end_all
from codehub.runtimes.local.threads import Threads

_WAITING_PIECES = 2


@dataclass(frozen=True)
class Place:
    """Where a command is to run: beside the process of ``record``, if that runs."""

    workspace_id: UUID
    record: ProcessRecord | None
    home: Path
    is_sandboxed: bool


async def run(
    threads: Threads,
    place: Place,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    tty: TerminalSize | None,
) -> ExecStream:
    """Run a command in a workspace's sandbox."""
    record, workspace_id = place.record, place.workspace_id
    if record is None:
        raise _not_running(workspace_id)
    mark = mark_of(uuid4().hex)
    name, _, value = mark.partition("=")
    with ExitStack() as stack:
        try:
            own = await threads.run(environment_of, record.identity)
            namespaces = (
                await threads.run(open_namespaces, record.identity, stack) if place.is_sandboxed else None
            )
        except SandboxGone as error:
            raise _not_running(workspace_id) from error
        order = ExecOrder(argv=argv, env={**own, **env, name: value}, cwd=cwd or str(place.home), tty=tty)
        pipes = None if tty is not None else _Pipes()
        try:
            entering = begin_entering(namespaces, None if pipes is None else pipes.theirs)
            entered = await _enter(threads, entering, order, namespaces)
            return await _attach(threads, entered, mark, argv, pipes)
        finally:
            if pipes is not None:
                pipes.close()


async def _enter(
    threads: Threads, entering: Entering, order: ExecOrder, namespaces: Mapping[str, int] | None
) -> Entered:
    """Have the sandbox entered. Cancelled, the command is killed once its pid is known."""
    work = asyncio.ensure_future(threads.run(finish_entering, entering, order, namespaces))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await wait_for_end(work)
        if not work.cancelled() and work.exception() is None:
            entered = work.result()
            if entered.terminal is not None:
                os.close(entered.terminal)
            kill_child(entered.pid)
        raise


async def _attach(
    threads: Threads, entered: Entered, mark: str, argv: Sequence[str], pipes: "_Pipes | None"
) -> ExecStream:
    stat = find_stat(entered.pid)
    identity = ProcessIdentity(entered.pid, stat.start_ticks if stat is not None else 0, boot_id())
    stream = LocalExec(threads, identity, mark, terminal=entered.terminal)
    try:
        if entered.refusal:
            missing = entered.missing
            code = NOT_FOUND if missing else NOT_EXECUTABLE
            stream.refuse(Exit(code, f"{argv[0]}: {entered.refusal}" if argv else entered.refusal))
        elif pipes is not None:
            await stream.attach_pipes(pipes)
        elif entered.terminal is not None:
            await stream.attach_terminal(entered.terminal)
        else:
            raise EffectError(FailureCode.EXEC_FAILED, "The workspace's /dev/ptmx opens no terminal.")
    except BaseException:
        await finish(stream.close(grace_seconds=0))
        raise
    return stream


class _Pipes:
    """Three pipes: input, output, errors. ``ours`` are given to transports, which close them."""

    def __init__(self) -> None:
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        self.theirs = [stdin[0], stdout[1], stderr[1]]
        self.ours = [stdin[1], stdout[0], stderr[0]]

    def close_theirs(self) -> None:
        """From now on the command alone holds its ends: its death ends them."""
        while self.theirs:
            os.close(self.theirs.pop())

    def close(self) -> None:
        self.close_theirs()
        while self.ours:
            os.close(self.ours.pop())


class _Input(asyncio.StreamReaderProtocol):
    """Of the pipe a command reads; knows whether it is still there."""

    transport: asyncio.WriteTransport

    def __init__(self) -> None:
        super().__init__(asyncio.StreamReader())
        self.is_lost = False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        super().connection_lost(error)


class LocalExec(ExecStream):
    def __init__(
        self, threads: Threads, identity: ProcessIdentity, mark: str, *, terminal: int | None
    ) -> None:
        self._threads = threads
        self._identity = identity
        self._mark = mark
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._refusal: Exit | None = None
        self._output: asyncio.Queue[Output | None] = asyncio.Queue(_WAITING_PIECES)
        self._reading: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.BaseTransport] = []
        self._input: _Input | None = None
        self._stdin: asyncio.StreamWriter | None = None
        self._open_outputs = 0
        self._closed = False
        self._pidfd = os.pidfd_open(identity.pid)
        self._loop.add_reader(self._pidfd, self._reap)

    async def attach_pipes(self, pipes: _Pipes) -> None:
        pipes.close_theirs()
        stdin, stdout, stderr = pipes.ours
        pipes.ours.clear()
        await self._attach_input(stdin)
        await self._attach_output(stdout, Stream.STDOUT)
        await self._attach_output(stderr, Stream.STDERR)

    async def attach_terminal(self, terminal: int) -> None:
        await self._attach_input(os.dup(terminal))
        await self._attach_output(os.dup(terminal), Stream.STDOUT)

    def refuse(self, ended: Exit) -> None:
        """Nothing runs; this is why."""
        self._refusal = ended

    async def read(self) -> Output | None:
        if self._open_outputs == 0 and self._output.empty():
            return None
        piece = await self._output.get()
        if piece is not None:
            return piece
        self._open_outputs -= 1
        return await self.read()

    async def write(self, data: bytes) -> None:
        if self._stdin is None or self._stdin.is_closing():
            return
        with suppress(OSError):  # the command has ended, or closed its input
            self._stdin.write(data)
            await self._stdin.drain()

    async def close_stdin(self) -> None:
        if self._stdin is not None and self._terminal is None:
            self._stdin.close()

    async def resize(self, size: TerminalSize) -> None:
        if self._terminal is not None:
            with suppress(OSError):
                packed = struct.pack("HHHH", size.rows, size.columns, 0, 0)
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, packed)

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    async def close(self, *, grace_seconds: float = 1.0) -> None:
        if self._closed:
            return
        self._closed = True
        self._hang_up()
        try:
            if not self._ended.done() and grace_seconds > 0:
                await asyncio.wait([self._ended], timeout=grace_seconds)
            if not self._ended.done():
                await finish(end_all(self._threads, self._identity, self._mark, grace_seconds=0))
                await asyncio.shield(self._ended)
        finally:
            await cancel_and_wait(self._reading)

    def _hang_up(self) -> None:
        """Close our ends of the pipes; of a terminal the kernel then tells its processes."""
        for transport in self._transports:
            transport.close()
        if self._input is not None and not self._input.is_lost:
            self._input.transport.abort()  # what nobody has read is dropped
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    async def _attach_input(self, descriptor: int) -> None:
        file = os.fdopen(descriptor, "wb", buffering=0)
        transport, self._input = await self._loop.connect_write_pipe(_Input, file)
        self._input.transport = transport
        self._stdin = asyncio.StreamWriter(transport, self._input, None, self._loop)

    async def _attach_output(self, descriptor: int, stream: Stream) -> None:
        reader = asyncio.StreamReader(limit=PIECE_BYTES)
        file = os.fdopen(descriptor, "rb", buffering=0)
        transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        self._transports.append(transport)
        self._open_outputs += 1
        self._reading.append(asyncio.create_task(self._pump(reader, stream)))

    async def _pump(self, reader: asyncio.StreamReader, stream: Stream) -> None:
        with suppress(OSError):  # EIO is how a terminal ends
            while data := await reader.read(PIECE_BYTES):
                await self._output.put(Output(stream, data))
        await self._output.put(None)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        try:
            _, status = os.waitpid(self._identity.pid, 0)
            ended = exit_of(os.waitstatus_to_exitcode(status))
        except ChildProcessError:  # somebody else reaped it
            ended = Exit(255, "its exit code was lost")
        self._ended.set_result(self._refusal or ended)


def _not_running(workspace_id: UUID) -> EffectError:
    return EffectError(
        FailureCode.CONTAINER_NOT_RUNNING,
        "A command can run only while the workspace runs.",
        workspace=str(workspace_id),
    )
