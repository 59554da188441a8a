"""Run commands in a container by the engine's exec, and end them.

The engine takes over the connection of the call: what is sent is the command's standard input, what comes back is
its output, framed unless it has a terminal. Over a TLS connection standard input cannot be ended by itself.

The exit code is the engine's own. A stream that ends while the engine still says "running" was cut: that is an
engine that is away, not an end.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import UUID, uuid4

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.docker.engine import (
    CallRefused,
    Conflict,
    DockerEngine,
    Document,
    HijackedConnection,
    NotFound,
    away,
)
from codehub.runtimes.docker.frames import STDOUT
from codehub.runtimes.docker.inventory import Container
from codehub.runtimes.docker.names import INSIDE
from codehub.runtimes.engine_exec import (
    KILL_SECONDS,
    NO_PROGRAM,
    EngineExec,
    container_ended,
    could_not_end,
    not_running,
)
from codehub.runtimes.exec_commands import mark_of, signal_command
from codehub.runtimes.exec_stream import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    ExecStream,
    Exit,
    Output,
    Stream,
    TerminalSize,
)

_STATUS_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.01, 0.2
_NOT_RUN = b"OCI runtime exec failed: "


async def run(
    engine: DockerEngine,
    container: Container | None,
    workspace_id: UUID,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    tty: TerminalSize | None,
) -> ExecStream:
    """Run a command in a workspace's container."""
    if container is None or not container.is_running:
        raise not_running(workspace_id, "no container runs")
    mark = uuid4().hex
    name, _, value = mark_of(mark).partition("=")
    try:
        exec_id = await engine.create_exec(
            container.id, argv, env={**env, name: value}, cwd=cwd, tty=tty is not None
        )
        connection = await engine.start_exec(exec_id, tty=tty is not None)
    except (Conflict, NotFound) as error:
        raise not_running(workspace_id, str(error)) from error
    except CallRefused as error:
        raise EffectError(FailureCode.EXEC_FAILED, str(error)) from error
    stream = DockerExec(
        engine, container, exec_id=exec_id, mark=mark, connection=connection, tty=tty is not None
    )
    await stream.begin(tty)
    return stream


class DockerExec(EngineExec):
    def __init__(
        self,
        engine: DockerEngine,
        container: Container,
        *,
        exec_id: str,
        mark: str,
        connection: HijackedConnection,
        tty: bool,
    ) -> None:
        super().__init__(tty=tty)
        self._engine = engine
        self._container = container
        self._exec_id = exec_id
        self._mark = mark
        self._connection = connection
        self._held: deque[Output] = deque()
        self._began = False

    async def read(self) -> Output | None:
        if self._held:
            return self._held.popleft()
        if self._ended.done():
            return None
        piece = await self._connection.read()
        if piece is None:
            await self._learn_exit("")
            return None
        if not self._began and piece.data.startswith(_NOT_RUN):
            return await self._read_refusal(piece.data)
        self._began = True
        return Output(Stream.STDOUT if piece.stream == STDOUT else Stream.STDERR, piece.data)

    async def write(self, data: bytes) -> None:
        await self._connection.write(data)

    async def close_stdin(self) -> None:
        if not self._tty and not self._connection.end_input():
            raise EffectError(
                FailureCode.EXEC_FAILED,
                "Standard input cannot be ended by itself over a TLS connection to the Docker engine: reach it "
                "by its socket or by SSH.",
            )

    async def resize(self, size: TerminalSize) -> None:
        if not self._tty or self._ended.done():
            return
        with suppress(NotFound, Conflict, CallRefused):  # it has ended
            await self._engine.resize_exec(self._exec_id, columns=size.columns, rows=size.rows)

    async def _disconnect(self) -> None:
        self._connection.abort()

    async def _read_refusal(self, said: bytes) -> Output | None:
        """Tell the engine's own words, which it sends as output, from a command that prints the same."""
        while (piece := await self._connection.read()) is not None:
            if piece.stream != STDOUT or len(said) > len(_NOT_RUN) + 4096:
                self._began = True
                stream = Stream.STDOUT if piece.stream == STDOUT else Stream.STDERR
                self._held.append(Output(stream, piece.data))
                return Output(Stream.STDOUT, said)
            said += piece.data
        await self._learn_exit(said.decode(errors="replace").strip())
        return None if self._ended.result().message else Output(Stream.STDOUT, said)

    async def _learn_exit(self, refusal: str) -> None:
        """Ask the engine how it ended, and remember. Raises, and remembers, if that cannot be known."""
        try:
            found = await self._wait_for_status(_STATUS_SECONDS)
            if found is None:
                raise away("read the output of a command", "the connection was lost")
            ended = _exit_of(found, refusal)
        except NotFound as error:
            ending = container_ended(str(error))
            self._fail(ending)
            raise ending from error
        except EffectError as error:
            self._fail(error)
            raise
        self._tell(ended)

    async def _wait_for_status(self, seconds: float) -> Document | None:
        """What the engine says of the ended command; None: it has not ended after ``seconds``."""
        deadline, pause = monotonic() + seconds, _FIRST_PAUSE_SECONDS
        while True:
            found = await self._engine.exec_state(self._exec_id)
            if not found["Running"] and found["ExitCode"] is not None:
                return found
            if monotonic() >= deadline:
                return None
            await asyncio.sleep(min(pause, max(deadline - monotonic(), 0)))
            pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)

    async def _end(self, grace_seconds: float) -> None:
        if self._tty:
            await self._signal("HUP")
        self._connection.abort()  # ends standard input, and the engine drops further output
        try:
            found = await self._wait_for_status(grace_seconds)
            deadline = monotonic() + KILL_SECONDS
            while found is None:
                if monotonic() > deadline:
                    raise could_not_end()
                await self._signal("KILL")
                found = await self._wait_for_status(1.0)
        except NotFound:  # the container was removed, and the command with it
            return
        self._tell(_exit_of(found, ""))

    async def _signal(self, name: str) -> None:
        """Signal all the command started, by a second exec that is read to its end."""
        has_inside = self._container.labels.get(INSIDE) == "true"
        argv = signal_command(self._mark, name, has_inside=has_inside)
        try:
            exec_id = await self._engine.create_exec(self._container.id, argv, env={}, cwd=None, tty=False)
            connection = await self._engine.start_exec(exec_id, tty=False)
        except (NotFound, Conflict, CallRefused):  # the container has ended, or is paused
            return
        try:
            while await connection.read() is not None:
                pass
        finally:
            connection.abort()


def _exit_of(found: Document, refusal: str) -> Exit:
    code = int(found["ExitCode"])
    if refusal and code in (NOT_EXECUTABLE, NOT_FOUND) and not found.get("Pid"):
        return Exit(NOT_FOUND if NO_PROGRAM.search(refusal) else NOT_EXECUTABLE, refusal)
    return Exit(code)
